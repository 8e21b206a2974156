"""Versions and the ledger, asked again while MLflow is away. Nothing of theirs is kept locally.

Each call may be repeated where only the answer was lost: registration looks for the digest first,
tags, descriptions and aliases are set to what they should be, a ledger entry is set once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from registry.checkpoint import Checkpoint
from registry.ledger import Item, Log
from registry.model import ModelVersion
from registry.patience import Patience
from registry.store import Ledger, Registration, Versions


class Runs(Protocol):
    """What is needed of evidence that may be waiting."""

    def flush(self) -> None:
        """Enters what waits, if MLflow answers."""
        ...

    def resolve(self, run_id: str) -> str:
        """The record's id of a run; waits for it."""
        ...

    def settle(self, text: str) -> str:
        """A text with the record's ids of runs; waits for them."""
        ...


class NothingWaits:
    """`Runs` of who writes no evidence."""

    def flush(self) -> None:
        """See `Runs.flush`."""

    def resolve(self, run_id: str) -> str:
        """See `Runs.resolve`."""
        return run_id

    def settle(self, text: str) -> str:
        """See `Runs.settle`."""
        return text


class PatientVersions:
    """`registry.store.Versions` that waits for the record."""

    def __init__(self, versions: Versions, runs: Runs, patience: Patience) -> None:
        self._versions = versions
        self._runs = runs
        self._patience = patience

    def register(self, model: str, checkpoint: Checkpoint, what: Registration) -> ModelVersion:
        """See `Versions.register`."""
        mine = dataclasses.replace(
            what, run_id=self._runs.resolve(what.run_id), tags=self._settled(what.tags)
        )
        return self._patience.wait_for(
            f"registering {checkpoint.directory} as {model}",
            lambda: self._versions.register(model, checkpoint, mine),
        )

    def again(self, version: ModelVersion, tags: Mapping[str, str]) -> ModelVersion:
        """See `Versions.again`."""
        settled = self._settled(tags)
        return self._patience.wait_for(
            f"registering version {version.version} of {version.model} once more",
            lambda: self._versions.again(version, settled),
        )

    def find(self, model: str, digest: str) -> ModelVersion | None:
        """See `Versions.find`."""
        return self._patience.wait_for(
            f"looking for a version of {model}", lambda: self._versions.find(model, digest)
        )

    def get(self, model: str, version: int) -> ModelVersion:
        """See `Versions.get`."""
        return self._patience.wait_for(
            f"reading version {version} of {model}", lambda: self._versions.get(model, version)
        )

    def download(self, version: ModelVersion, target: Path) -> None:
        """See `Versions.download`."""
        self._patience.wait_for(
            f"downloading version {version.version} of {version.model}",
            lambda: self._versions.download(version, target),
        )

    def tag(self, version: ModelVersion, tags: Mapping[str, str]) -> None:
        """See `Versions.tag`."""
        settled = self._settled(tags)
        self._patience.wait_for(
            f"tagging version {version.version} of {version.model}",
            lambda: self._versions.tag(version, settled),
        )

    def describe(self, model: str, version: int | None, text: str) -> None:
        """See `Versions.describe`."""
        settled = self._runs.settle(text)
        self._patience.wait_for(
            f"describing {model}", lambda: self._versions.describe(model, version, settled)
        )

    def mirror(self, model: str, aliases: Mapping[str, int | None]) -> None:
        """See `Versions.mirror`."""
        self._patience.wait_for(
            f"setting aliases of {model}", lambda: self._versions.mirror(model, aliases)
        )

    def sweep(self, model: str) -> tuple[str, ...]:
        """See `Versions.sweep`."""
        return self._patience.wait_for(
            f"deleting unfinished uploads of {model}", lambda: self._versions.sweep(model)
        )

    def _settled(self, tags: Mapping[str, str]) -> dict[str, str]:
        return {k: self._runs.settle(v) for k, v in tags.items()}


class PatientLedger:
    """`registry.store.Ledger` that waits for the record."""

    def __init__(self, ledger: Ledger, runs: Runs, patience: Patience) -> None:
        self._ledger = ledger
        self._runs = runs
        self._patience = patience

    def read(self, model: str) -> Log:
        """See `Ledger.read`."""
        return self._patience.wait_for(
            f"reading the ledger of {model}", lambda: self._ledger.read(model)
        )

    def append(self, model: str, item: Item) -> None:
        """See `Ledger.append`; the evidence that justifies an entry is in the record before it."""
        self._runs.flush()
        self._patience.wait_for(
            f"writing ledger entry {item.seq} of {model}", lambda: self._ledger.append(model, item)
        )

    def models(self) -> tuple[str, ...]:
        """See `Ledger.models`."""
        return self._patience.wait_for("listing ledgers", self._ledger.models)

    def beat(self, model: str, epoch: int, text: str) -> None:
        """See `Ledger.beat`; not waited for, since the next sign of life says the same."""
        self._ledger.beat(model, epoch, text)

    def beats(self, model: str) -> Mapping[int, str]:
        """See `Ledger.beats`."""
        return self._patience.wait_for(
            f"reading who works on {model}", lambda: self._ledger.beats(model)
        )
