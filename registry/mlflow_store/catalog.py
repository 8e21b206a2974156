"""Models and unfinished runs, as MLflow lists them."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from registry.catalog import Run
from registry.mlflow_store.connect import CLIENT_ENV
from registry.mlflow_store.evidence import PARENT_TAG, experiment_name
from registry.mlflow_store.ledger_log import ledger_experiment
from registry.mlflow_store.translating import translated
from registry.model import Tag

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run as MlflowRun

MAX_RUNNING = 50
"""Commands that were killed leave runs that look unfinished; the newest ones are enough."""
MAX_STAGES = 100


def load() -> None:
    """Imports mlflow, which takes seconds, so that whoever counts time can do it before."""
    for key, value in CLIENT_ENV.items():
        os.environ.setdefault(key, value)
    import mlflow  # noqa: F401

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it announces each wait of 0 seconds


def catalog(tracking_uri: str) -> MlflowCatalog:
    """The catalog of a tracking server; nothing is asked yet."""
    load()
    from mlflow import MlflowClient

    return MlflowCatalog(MlflowClient(tracking_uri=tracking_uri, registry_uri=tracking_uri))


class MlflowCatalog:
    """`registry.catalog.Catalog` on MLflow."""

    def __init__(self, client: MlflowClient) -> None:
        self._client = client

    def models(self) -> tuple[str, ...]:
        """See `Catalog.models`."""
        found: set[str] = set()
        for suffix in (experiment_name(""), ledger_experiment("")):
            with translated("listing models"):
                listed = self._client.search_experiments(filter_string=f"name LIKE '%{suffix}'")
                while True:
                    found |= {str(e.name).removesuffix(suffix) for e in listed}
                    if not listed.token:
                        break
                    listed = self._client.search_experiments(
                        filter_string=f"name LIKE '%{suffix}'", page_token=listed.token
                    )
        return tuple(sorted(found))

    def unfinished(self, model: str) -> Run | None:
        """See `Catalog.unfinished`."""
        query = "attributes.status = 'RUNNING'"
        runs = self._search(model, query, "DESC", MAX_RUNNING)
        return next((r for r in runs if PARENT_TAG not in r.tags), None)

    def stages(self, model: str, run_id: str) -> tuple[Run, ...]:
        """See `Catalog.stages`."""
        return self._search(model, f"tags.`{PARENT_TAG}` = '{run_id}'", "ASC", MAX_STAGES)

    def _search(self, model: str, query: str, order: str, limit: int) -> tuple[Run, ...]:
        with translated(f"looking for who works on {model}"):
            experiment = self._client.get_experiment_by_name(experiment_name(model))
            if experiment is None:
                return ()
            found = self._client.search_runs(
                [experiment.experiment_id],
                query,
                max_results=limit,
                order_by=[f"attributes.start_time {order}"],
            )
        return tuple(_run(run) for run in found)


def _run(run: MlflowRun) -> Run:
    ended = run.info.end_time
    return Run(
        run_id=str(run.info.run_id),
        name=str(run.info.run_name or ""),
        stage=str(run.data.tags.get(Tag.STAGE, "")),
        is_running=str(run.info.status) == "RUNNING",
        params=dict(run.data.params),
        tags=dict(run.data.tags),
        started_at_ms=int(run.info.start_time or 0),
        ended_at_ms=int(ended) if ended else None,
    )
