"""What status reads from, as small seams: the record, the edge, the journal, the process table.

The real ones are in jobs.status.live; tests bring their own. None of them starts or changes
anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from jobs import placing
from jobs.status.facts import Waiting
from pipelines.config import PromotionConfig
from registry.catalog import Run
from registry.ledger import LedgerEntry, Log
from registry.model import StageEvidence
from serving.edge import admin, history
from serving.edge.status import EdgeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """A promotion or rollback that nobody has ended, its stages so far, and its settings."""

    run: Run
    stages: tuple[Run, ...]
    config: PromotionConfig | None


class RecordPort(Protocol):
    """What is read from an open record."""

    @property
    def address(self) -> str: ...
    def models(self) -> tuple[str, ...]: ...
    def log(self, model: str) -> Log: ...
    def beats(self, model: str) -> Mapping[int, str]: ...
    def settings(self, model: str, entry: LedgerEntry) -> PromotionConfig: ...
    def attempts(self, model: str) -> Sequence[StageEvidence]: ...
    def unfinished(self, model: str) -> Unfinished | None: ...
    def url(self, run_id: str) -> str: ...


class Records(Protocol):
    """The way to an open record, in steps that are timed one by one."""

    def reach(self) -> None:
        """Raises where nobody answers; quick."""

    def load(self) -> None:
        """Imports what reading takes; seconds of this machine's time, not of the server's."""

    def open(self) -> RecordPort:
        """Connects."""


class EdgePort(Protocol):
    """What is read from the edge of this home."""

    def models(self) -> tuple[str, ...]: ...
    def status(self) -> EdgeStatus | None: ...
    def counts(self, model: str) -> Mapping[int, admin.ClusterStats] | None: ...
    def counted(self, model: str) -> history.Counted | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The ledger and the champion's settings as this machine last knew them."""

    log: Log
    config: PromotionConfig | None


class JournalPort(Protocol):
    """What this disk keeps of and for the record."""

    def models(self) -> tuple[str, ...]: ...
    def waiting(self, model: str) -> tuple[Waiting, ...]: ...
    def kept(self, model: str) -> Kept | None: ...


def cannot_tell(owner: str) -> bool | None:
    """Whether an owner's process lives, where that cannot be known."""
    return None


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Everything that a look needs."""

    records: Records
    edge: EdgePort
    journal: JournalPort
    endpoint: Callable[[], str]
    process_lives: Callable[[str], bool | None] = cannot_tell
    """Whether an owner's process lives; None where that cannot be known from here."""
    now: Callable[[], str] = placing.now
    now_ms: Callable[[], int] = _now_ms
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
