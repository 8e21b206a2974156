"""Promotions and stages as MLflow runs: one run per promotion, one child run per stage."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from registry.errors import NotFound
from registry.mlflow_store.artifacts import Artifacts
from registry.mlflow_store.connect import experiment_id
from registry.mlflow_store.restored import restored_run
from registry.mlflow_store.translating import translated
from registry.model import INTERRUPTED, StageEvidence, Tag

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARENT_TAG = "mlflow.parentRunId"
TABLES_TAG = "mlflow.loggedArtifacts"
MAX_PARAM_CHARS = 6000
PAGE = 1000
RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


def experiment_name(model: str) -> str:
    """The experiment that holds a model's promotions."""
    return f"{model}-promotions"


class MlflowEvidence:
    """`registry.store.Evidence` on MLflow."""

    def __init__(self, client: MlflowClient, tracking_uri: str) -> None:
        self._client = client
        self._uri = tracking_uri

    def open(
        self,
        model: str,
        name: str,
        tags: Mapping[str, str],
        parent: str | None,
        *,
        at_ms: int | None = None,
    ) -> str:
        """See `Evidence.open`."""
        own = {str(k): v for k, v in tags.items()}
        if parent is not None:
            own[PARENT_TAG] = parent
        with translated(f"starting run {name}"):
            experiment = experiment_id(self._client, experiment_name(model))
            run = self._client.create_run(experiment, start_time=at_ms, tags=own, run_name=name)
        made = str(run.info.run_id)
        if Tag.JOURNAL in own and os.environ.get(RETRIES, "0") != "0":
            # The client was told to repeat requests itself, also one whose answer was lost.
            for other in self.opened(model, own[Tag.JOURNAL]):
                if other != made:
                    self.drop(other)
        return made

    def opened(self, model: str, journal_id: str) -> tuple[str, ...]:
        """See `Evidence.opened`."""
        with translated(f"searching runs of {model} opened as {journal_id}"):
            runs = list(self._runs(model, f"tags.`{Tag.JOURNAL}` = '{journal_id}'"))
        runs.sort(key=lambda r: (r.info.start_time, r.info.run_id))
        return tuple(str(r.info.run_id) for r in runs)

    def drop(self, run_id: str) -> None:
        """See `Evidence.drop`."""
        with translated(f"deleting run {run_id}"):
            self._client.delete_run(run_id)

    def resolve(self, run_id: str) -> str:
        """See `Evidence.resolve`."""
        return run_id

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        model_id: str | None = None,
        at_ms: int | None = None,
    ) -> None:
        """See `Evidence.log`."""
        from mlflow.entities import Param

        at_ms = int(time.time() * 1000) if at_ms is None else at_ms
        values = [Param(k, _param(v)) for k, v in (params or {}).items()]
        with translated(f"logging to run {run_id}"):
            if values:
                self._client.log_batch(run_id, params=values)
            for key, value in (metrics or {}).items():
                self._client.log_metric(
                    run_id, key, float(value), timestamp=at_ms, step=0, model_id=model_id
                )

    def text(self, run_id: str, name: str, content: str) -> None:
        """See `Evidence.text`."""
        with translated(f"storing {name} on run {run_id}"):
            self._client.log_text(run_id, content, name)

    def table(self, run_id: str, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """See `Evidence.table`."""
        # MLflow's own log_table appends to a table that is there, so a repeated call doubles it.
        self.text(run_id, name, _table(columns))
        with translated(f"listing table {name} on run {run_id}"):
            tags = self._client.get_run(run_id).data.tags
            tables = json.loads(tags.get(TABLES_TAG, "[]"))
            mine = {"path": name, "type": "table"}
            if mine not in tables:
                self._client.set_tag(run_id, TABLES_TAG, json.dumps([*tables, mine]))

    def read(self, run_id: str, name: str) -> str:
        """See `Evidence.read`."""
        location = str(self._run(run_id).info.artifact_uri)
        return Artifacts(location, self._uri).read_text(name)

    def _run(self, run_id: str) -> Run:
        """A run, or what a restore put in the place of one that is not on this server."""
        try:
            with translated(f"reading run {run_id}"):
                return self._client.get_run(run_id)
        except NotFound:
            with translated(f"looking for the restored run {run_id}"):
                restored = restored_run(self._client, run_id)
            if restored is None:
                raise
            return restored

    def close(
        self,
        run_id: str,
        *,
        failed: bool = False,
        tags: Mapping[str, str],
        at_ms: int | None = None,
    ) -> None:
        """See `Evidence.close`."""
        self.label(run_id, tags)
        with translated(f"ending run {run_id}"):
            self._client.set_terminated(run_id, "FAILED" if failed else "FINISHED", at_ms)

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

    def sweep(self, model: str) -> tuple[str, ...]:
        """See `Evidence.sweep`."""
        with translated(f"searching unfinished runs of {model}"):
            left = [str(r.info.run_id) for r in self._runs(model, "attributes.status = 'RUNNING'")]
        for run_id in left:
            with translated(f"ending run {run_id}"):
                self._client.set_tag(run_id, str(Tag.ERROR), INTERRUPTED)
                self._client.set_terminated(run_id, "KILLED")
        return tuple(left)

    def _runs(self, model: str, query: str) -> Iterator[Run]:
        experiment = self._client.get_experiment_by_name(experiment_name(model))
        token: str | None = None
        while experiment is not None:
            page = self._client.search_runs(
                [experiment.experiment_id], query, max_results=PAGE, page_token=token
            )
            yield from page
            token = page.token
            if not token:
                return

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
        info = self._run(run_id).info
        return f"{self._uri.rstrip('/')}/#/experiments/{info.experiment_id}/runs/{info.run_id}"


def _param(value: Any) -> str:
    text = str(value)
    return text if len(text) <= MAX_PARAM_CHARS else text[: MAX_PARAM_CHARS - 1] + "…"


def _table(columns: Mapping[str, Sequence[Any]]) -> str:
    """A table as MLflow stores and shows it: column names, and rows of plain values."""
    rows = zip(*columns.values(), strict=True)
    return json.dumps({"columns": list(columns), "data": [[_cell(v) for v in row] for row in rows]})


def _cell(value: Any) -> Any:
    if hasattr(value, "item"):  # a numpy scalar
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it
    return value if isinstance(value, bool | int | float | str | None) else str(value)


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
