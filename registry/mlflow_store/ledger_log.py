"""The ledger as set-once parameters of one run per model, and its owners' signs of life as tags."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from registry import ledger
from registry.errors import RecordConflict, RecordDenied
from registry.mlflow_store.translating import translated
from registry.model import Tag

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

SUFFIX = "-ledger"
FOUNDING_S = 5.0
"""How long the founder of a ledger may take for its second call before another steps in."""
SETTLE_S = 0.5
_BEAT = f"{Tag.BEAT}."


def ledger_experiment(model: str) -> str:
    """The experiment that holds a model's ledger; give only the service user write access to it."""
    return f"{model}{SUFFIX}"


def find_run(client: MlflowClient, model: str) -> Run | None:
    """The run that is a model's ledger: of several the oldest. Ties break by id, so that everybody
    agrees."""
    experiment = client.get_experiment_by_name(ledger_experiment(model))
    if experiment is None:
        return None
    runs = client.search_runs(
        [experiment.experiment_id], f"tags.`{Tag.LEDGER}` = '{model}'", max_results=100
    )
    return min(runs, key=lambda r: (r.info.start_time, r.info.run_id), default=None)


class MlflowLedger:
    """`registry.store.Ledger` on MLflow."""

    def __init__(self, client: MlflowClient) -> None:
        self._client = client

    def read(self, model: str) -> ledger.Log:
        """See `Ledger.read`."""
        with translated(f"reading the ledger of {model}"):
            run = find_run(self._client, model)
        return ledger.parse(run.data.params) if run is not None else ledger.Log()

    def append(self, model: str, item: ledger.Item) -> None:
        """See `Ledger.append`."""
        run = self._run(model)
        try:
            with translated(f"writing ledger entry {item.seq} of {model}"):
                self._client.log_param(run.info.run_id, item.key, item.to_json())
                stored = self._client.get_run(run.info.run_id).data.params.get(item.key)
        except RecordConflict as exc:
            raise RecordConflict(
                f"ledger entry {item.seq} of {model} was written by another command first; "
                "nothing was recorded for this one. See `liftlock status`, then run it again"
            ) from exc
        if stored != item.to_json():  # a proxy that answers 200 to everything has written nothing
            raise RecordDenied(
                f"ledger entry {item.seq} of {model} was accepted, but it is not there when read "
                "back; check that an MLflow server, and nothing else, answers at the tracking "
                "address"
            )

    def models(self) -> tuple[str, ...]:
        """See `Ledger.models`."""
        with translated("listing ledgers"):
            found = self._client.search_experiments(filter_string=f"name LIKE '%{SUFFIX}'")
        return tuple(sorted(str(e.name).removesuffix(SUFFIX) for e in found))

    def beat(self, model: str, epoch: int, text: str) -> None:
        """See `Ledger.beat`."""
        run = self._run(model)
        with translated(f"giving a sign of life for {model}"):
            self._client.set_tag(run.info.run_id, f"{_BEAT}{epoch:06d}", text)

    def beats(self, model: str) -> Mapping[int, str]:
        """See `Ledger.beats`."""
        with translated(f"reading who works on {model}"):
            run = find_run(self._client, model)
        tags = run.data.tags if run is not None else {}
        return {int(k.removeprefix(_BEAT)): v for k, v in tags.items() if k.startswith(_BEAT)}

    def _run(self, model: str) -> Run:
        with translated(f"opening the ledger of {model}"):
            return find_run(self._client, model) or self._create(model)

    def _create(self, model: str) -> Run:
        """Founds the ledger. An experiment's name is unique, so its maker alone makes the run."""
        name = ledger_experiment(model)
        try:
            with translated(f"creating experiment {name}"):
                experiment = str(self._client.create_experiment(name))
        except RecordConflict:
            found = self._await_founder(model)
            if found is not None:
                return found
            experiment = str(self._client.get_experiment_by_name(name).experiment_id)
        made = self._client.create_run(
            experiment, tags={Tag.LEDGER.value: model}, run_name=f"{model} ledger"
        )
        self._client.set_terminated(made.info.run_id)  # it takes parameters all the same
        time.sleep(SETTLE_S)  # lets a rival that stepped in too become visible
        return find_run(self._client, model) or made

    def _await_founder(self, model: str) -> Run | None:
        """The run of whoever was first; None if it was killed between its two calls."""
        give_up_s = time.monotonic() + FOUNDING_S
        while time.monotonic() < give_up_s:
            found = find_run(self._client, model)
            if found is not None:
                return found
            time.sleep(0.1)
        return None
