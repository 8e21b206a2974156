"""Promotions and stages as MLflow runs: one run per promotion, one child run per stage."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.mlflow_store.connect import experiment_id, translated
from registry.model import StageEvidence, Tag

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARENT_TAG = "mlflow.parentRunId"
MAX_PARAM_CHARS = 6000


def experiment_name(model: str) -> str:
    """The experiment that holds a model's promotions."""
    return f"{model}-promotions"


class MlflowEvidence:
    """`registry.store.Evidence` on MLflow."""

    def __init__(self, client: MlflowClient, tracking_uri: str) -> None:
        self._client = client
        self._uri = tracking_uri

    def open(self, model: str, name: str, tags: Mapping[str, str], parent: str | None) -> str:
        """See `Evidence.open`."""
        own = {str(k): v for k, v in tags.items()}
        if parent is not None:
            own[PARENT_TAG] = parent
        with translated(f"starting run {name}"):
            experiment = experiment_id(self._client, experiment_name(model))
            run = self._client.create_run(experiment, tags=own, run_name=name)
        return str(run.info.run_id)

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        model_id: str | None = None,
    ) -> None:
        """See `Evidence.log`."""
        from mlflow.entities import Param

        values = [Param(k, _param(v)) for k, v in (params or {}).items()]
        with translated(f"logging to run {run_id}"):
            if values:
                self._client.log_batch(run_id, params=values)
            for key, value in (metrics or {}).items():
                self._client.log_metric(run_id, key, float(value), model_id=model_id)

    def text(self, run_id: str, name: str, content: str) -> None:
        """See `Evidence.text`."""
        with translated(f"storing {name} on run {run_id}"):
            self._client.log_text(run_id, content, name)

    def table(self, run_id: str, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """See `Evidence.table`."""
        with translated(f"storing table {name} on run {run_id}"):
            self._client.log_table(run_id, {k: list(v) for k, v in columns.items()}, name)

    def read(self, run_id: str, name: str) -> str:
        """See `Evidence.read`."""
        with (
            translated(f"reading {name} of run {run_id}"),
            tempfile.TemporaryDirectory(prefix="liftlock-") as folder,
        ):
            path = self._client.download_artifacts(run_id, name, folder)
            return Path(path).read_text(encoding="utf-8")

    def close(self, run_id: str, *, failed: bool = False, tags: Mapping[str, str]) -> None:
        """See `Evidence.close`."""
        self.label(run_id, tags)
        with translated(f"ending run {run_id}"):
            self._client.set_terminated(run_id, "FAILED" if failed else "FINISHED")

    def label(self, run_id: str, tags: Mapping[str, str]) -> None:
        """See `Evidence.label`."""
        with translated(f"tagging run {run_id}"):
            for key, value in tags.items():
                self._client.set_tag(run_id, str(key), value)

    def find(self, model: str, stage: str, inputs_digest: str) -> StageEvidence | None:
        """See `Evidence.find`."""
        query = f"attributes.status = 'FINISHED' and tags.`{Tag.INPUTS}` = '{inputs_digest}'"
        found = self._search(model, stage, query, 1)
        return found[0] if found else None

    def recent(self, model: str, stage: str, limit: int) -> tuple[StageEvidence, ...]:
        """See `Evidence.recent`."""
        return self._search(model, stage, "attributes.status != 'RUNNING'", limit)

    def _search(self, model: str, stage: str, query: str, limit: int) -> tuple[StageEvidence, ...]:
        with translated(f"searching {stage} runs of {model}"):
            experiment = self._client.get_experiment_by_name(experiment_name(model))
            if experiment is None:
                return ()
            runs = self._client.search_runs(
                [experiment.experiment_id],
                f"{query} and tags.`{Tag.STAGE}` = '{stage}'",
                max_results=limit,
                order_by=["attributes.start_time DESC"],
            )
        return tuple(_evidence(run, stage) for run in runs)

    def url(self, run_id: str) -> str:
        """See `Evidence.url`."""
        with translated(f"reading run {run_id}"):
            experiment = self._client.get_run(run_id).info.experiment_id
        return f"{self._uri.rstrip('/')}/#/experiments/{experiment}/runs/{run_id}"


def _param(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_PARAM_CHARS else text[: MAX_PARAM_CHARS - 1] + "…"


def _evidence(run: Run, stage: str) -> StageEvidence:
    return StageEvidence(
        run_id=run.info.run_id,
        stage=stage,
        inputs_digest=run.data.tags.get(Tag.INPUTS, ""),
        params=dict(run.data.params),
        metrics=dict(run.data.metrics),
        tags=dict(run.data.tags),
        started_at_ms=int(run.info.start_time or 0),
        ended_at_ms=int(run.info.end_time or 0),
    )
