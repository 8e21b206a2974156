"""The ledger as set-once parameters of one run per model."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from registry import ledger
from registry.errors import RecordConflict
from registry.mlflow_store.connect import experiment_id, translated
from registry.model import Tag

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SETTLE_S = 0.5


def ledger_experiment(model: str) -> str:
    """The experiment that holds a model's ledger; give only the service user write access to it."""
    return f"{model}-ledger"


class MlflowLedger:
    """`registry.store.Ledger` on MLflow."""

    def __init__(self, client: MlflowClient) -> None:
        self._client = client

    def entries(self, model: str) -> tuple[ledger.LedgerEntry, ...]:
        """See `Ledger.entries`."""
        with translated(f"reading the ledger of {model}"):
            run = self._find(model)
        return ledger.parse(run.data.params) if run is not None else ()

    def append(self, model: str, entry: ledger.LedgerEntry) -> None:
        """See `Ledger.append`."""
        with translated(f"opening the ledger of {model}"):
            run = self._find(model) or self._create(model)
        try:
            with translated(f"writing ledger entry {entry.seq} of {model}"):
                self._client.log_param(run.info.run_id, entry.key, entry.to_json())
        except RecordConflict as exc:
            raise RecordConflict(
                f"ledger entry {entry.seq} of {model} was written by another promotion first; "
                "nothing was recorded for this one. See `liftlock status`, then run it again"
            ) from exc

    def _find(self, model: str) -> Run | None:
        experiment = self._client.get_experiment_by_name(ledger_experiment(model))
        if experiment is None:
            return None
        runs = self._client.search_runs(
            [experiment.experiment_id], f"tags.`{Tag.LEDGER}` = '{model}'", max_results=100
        )
        # One run is the ledger: the oldest. Ties break by id, so that everybody agrees.
        return min(runs, key=lambda r: (r.info.start_time, r.info.run_id), default=None)

    def _create(self, model: str) -> Run:
        experiment = experiment_id(self._client, ledger_experiment(model))
        made = self._client.create_run(
            experiment, tags={Tag.LEDGER.value: model}, run_name=f"{model} ledger"
        )
        self._client.set_terminated(made.info.run_id)  # it takes parameters all the same
        time.sleep(SETTLE_S)  # lets a rival that started in the same instant become visible
        return self._find(model) or made
