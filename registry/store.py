"""The seams to the record: versions, evidence, ledger. MLflow is behind all three."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from registry.checkpoint import Checkpoint
from registry.ledger import LedgerEntry
from registry.model import ModelVersion, StageEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What is said about a checkpoint when it is registered."""

    name: str
    """Name of the logged model, such as the directory's."""
    run_id: str
    """The run that registers or made it."""
    tags: Mapping[str, str] = field(default_factory=dict)
    pointer: str | None = None
    """Object-store URI of the files; None uploads them."""


class Versions(Protocol):
    """Registered checkpoints."""

    def register(self, model: str, checkpoint: Checkpoint, what: Registration) -> ModelVersion:
        """Registers a checkpoint; the same digest again returns the same version."""
        ...

    def find(self, model: str, digest: str) -> ModelVersion | None:
        """The version with this checkpoint digest."""
        ...

    def get(self, model: str, version: int) -> ModelVersion:
        """One version; NotFound where there is none."""
        ...

    def download(self, version: ModelVersion, target: Path) -> None:
        """Puts the checkpoint's files into an existing empty directory."""
        ...

    def tag(self, version: ModelVersion, tags: Mapping[str, str]) -> None:
        """Sets tags of a version."""
        ...

    def describe(self, model: str, version: int | None, text: str) -> None:
        """Sets the Markdown description of a version, or of the model itself."""
        ...

    def mirror(self, model: str, aliases: Mapping[str, int | None]) -> None:
        """Makes the aliases be what is given; None removes one."""
        ...


class Evidence(Protocol):
    """Runs: one per promotion, one child per stage."""

    def open(self, model: str, name: str, tags: Mapping[str, str], parent: str | None) -> str:
        """Starts a run and returns its id."""
        ...

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        model_id: str | None = None,
    ) -> None:
        """Adds set-once parameters and metrics."""
        ...

    def text(self, run_id: str, name: str, content: str) -> None:
        """Stores a text artifact (HTML, Markdown, JSON, SVG)."""
        ...

    def table(self, run_id: str, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Stores a table that the UI can show."""
        ...

    def read(self, run_id: str, name: str) -> str:
        """Reads a text artifact back; NotFound where there is none."""
        ...

    def close(self, run_id: str, *, failed: bool = False, tags: Mapping[str, str]) -> None:
        """Ends a run."""
        ...

    def label(self, run_id: str, tags: Mapping[str, str]) -> None:
        """Sets tags of a run."""
        ...

    def find(self, model: str, stage: str, inputs_digest: str) -> StageEvidence | None:
        """The newest finished stage with the same inputs."""
        ...

    def recent(self, model: str, stage: str, limit: int) -> tuple[StageEvidence, ...]:
        """The newest runs of a stage, ended in any way, newest first."""
        ...

    def url(self, run_id: str) -> str:
        """Where a person can see the run."""
        ...


class Ledger(Protocol):
    """The append-only sequence of promotions of a model."""

    def entries(self, model: str) -> tuple[LedgerEntry, ...]:
        """All entries, oldest first, verified."""
        ...

    def append(self, model: str, entry: LedgerEntry) -> None:
        """Claims the entry's number; RecordConflict where another writer was first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The three seams of one tracking server."""

    versions: Versions
    evidence: Evidence
    ledger: Ledger
    address: str
    """Where a person opens the UI."""
