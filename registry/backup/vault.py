"""The seams of a backup: a tracking server as it is read, and as it is made to hold the same again.

MLflow is behind both (registry.mlflow_store); tests have one in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from registry.backup.facts import LedgerFacts, ModelFacts, RunFacts, VersionFacts


class Source(Protocol):
    """What is backed up. Runs go by the id that ledger entries know them by."""

    @property
    def address(self) -> str:
        """Where a person opens the UI."""
        ...

    def model(self, model: str) -> ModelFacts | None:
        """The registered model; None where there is none."""
        ...

    def ledger(self, model: str) -> LedgerFacts:
        """The ledger; no items where there is none."""
        ...

    def digests(self, model: str) -> Mapping[int, str]:
        """Every version's number and the checkpoint digest it is tagged with; "" without one."""
        ...

    def version(self, model: str, version: int) -> VersionFacts:
        """One version; RegistryError where it cannot be read or is not ours."""
        ...

    def run(self, run_id: str) -> RunFacts | None:
        """A run; None where it is gone."""
        ...

    def text(self, run_id: str, name: str) -> str:
        """A text artifact of a run."""
        ...


class Target(Protocol):
    """What is restored to. Every call may be repeated after one that was cut short."""

    def unfinished(self, model: str) -> str | None:
        """The digest of the backup whose restore has begun and not ended."""
        ...

    def begin(self, model: str, digest: str) -> None:
        """Makes the registered model, marked as being restored from this backup."""
        ...

    def put_run(self, model: str, run: RunFacts, text: Callable[[str], str]) -> None:
        """Makes a run; `text` gives its artifacts by name."""
        ...

    def reached(self, model: str) -> int:
        """The highest version number that was given, 0 before the first."""
        ...

    def put_version(self, model: str, version: VersionFacts) -> None:
        """Makes the next version, its weights by reference to where they lie."""
        ...

    def skip_version(self, model: str, version: int) -> None:
        """Uses up the next number: a version is made and deleted."""
        ...

    def put_ledger(self, model: str, ledger: LedgerFacts) -> None:
        """Makes the ledger, which is found by others only when it is whole."""
        ...

    def finish(self, facts: ModelFacts, digest: str) -> None:
        """Sets description, tags and aliases, and takes the mark away."""
        ...

    def weights_fault(self, model: str, version: int) -> str | None:
        """Why a version's files cannot be had or are not as they were; None where all is well."""
        ...


class Vault(Source, Target, Protocol):
    """One server, read and written."""
