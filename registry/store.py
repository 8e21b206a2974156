"""The seams to the record: versions, evidence, ledger. MLflow is behind all three."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from registry.checkpoint import Checkpoint
from registry.ledger import Item, Log
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

    def again(self, version: ModelVersion, tags: Mapping[str, str]) -> ModelVersion:
        """Another version of the very same files, told apart by these tags; the same tags again
        return the same version."""
        ...

    def find(self, model: str, digest: str) -> ModelVersion | None:
        """The oldest version with this checkpoint digest."""
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

    def sweep(self, model: str) -> tuple[str, ...]:
        """Deletes uploads that never became a version, files and all, and says which.

        Only for the owner of the model: a registration that goes on would lose its upload.
        """
        ...


class Evidence(Protocol):
    """Runs: one per promotion, one child per stage.

    Every write may be repeated: with the same arguments it changes nothing more. `at_ms` is when
    it happened (milliseconds since 1970, UTC; None is now), which keeps a repeated metric the same
    point and a run that is entered later as long as it was. `open` alone makes a new run each time;
    whoever may have to repeat it gives a tag `Tag.JOURNAL` and looks with `opened` first.
    """

    def open(
        self,
        model: str,
        name: str,
        tags: Mapping[str, str],
        parent: str | None,
        *,
        at_ms: int | None = None,
    ) -> str:
        """Starts a run and returns its id."""
        ...

    def opened(self, model: str, journal_id: str) -> tuple[str, ...]:
        """The runs that were opened with this `Tag.JOURNAL`, oldest first."""
        ...

    def drop(self, run_id: str) -> None:
        """Deletes a run that was opened twice."""
        ...

    def resolve(self, run_id: str) -> str:
        """The id that the record itself has for a run; differs for one opened while it was away."""
        ...

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        model_id: str | None = None,
        at_ms: int | None = None,
    ) -> None:
        """Adds set-once parameters and metrics."""
        ...

    def text(self, run_id: str, name: str, content: str) -> None:
        """Stores a text artifact (HTML, Markdown, JSON, SVG)."""
        ...

    def table(self, run_id: str, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """Stores a table that the UI can show, in place of one with the same name."""
        ...

    def read(self, run_id: str, name: str) -> str:
        """Reads a text artifact back; NotFound where there is none."""
        ...

    def close(
        self,
        run_id: str,
        *,
        failed: bool = False,
        tags: Mapping[str, str],
        at_ms: int | None = None,
    ) -> None:
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

    def sweep(self, model: str) -> tuple[str, ...]:
        """Ends the runs of a dead owner as interrupted, and says which.

        Only for the owner of the model, before it opens a run of its own: every run of the model
        that has not ended is taken for a dead one's.
        """
        ...


class Ledger(Protocol):
    """The append-only sequence of what is in charge of a model, and of who may act."""

    def read(self, model: str) -> Log:
        """All items, verified."""
        ...

    def append(self, model: str, item: Item) -> None:
        """Claims the item's number; RecordConflict where another writer was first."""
        ...

    def models(self) -> tuple[str, ...]:
        """Every model that has a ledger, sorted."""
        ...

    def beat(self, model: str, epoch: int, text: str) -> None:
        """Replaces the sign of life of the owner with this epoch."""
        ...

    def beats(self, model: str) -> Mapping[int, str]:
        """The last sign of life of every owner, by epoch."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The three seams of one tracking server."""

    versions: Versions
    evidence: Evidence
    ledger: Ledger
    address: str
    """Where a person opens the UI."""
