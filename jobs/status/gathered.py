"""Everything that one look has read, before anything is made of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

from jobs.status.facts import OwnerState, Waiting
from jobs.status.ports import Kept, Unfinished
from jobs.status.reading import Known, Unread
from pipelines import ownership
from pipelines.config import PromotionConfig
from registry.ledger import Log
from registry.model import StageEvidence
from serving.edge.history import Counted
from serving.edge.interval import Interval
from serving.edge.status import EdgeStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """An owner's sign of life as it was watched; seconds of the watcher's clock."""

    epoch: int
    said: str
    since_s: float
    """When watching began."""
    now_s: float
    changed_s: float | None = None
    """When it was last seen to change; None where it was not."""
    lives: bool | None = None
    """Whether its process lives; None where that cannot be known from here."""

    def again(self, said: str, *, now_s: float, lives: bool | None) -> Heard:
        """After another look."""
        changed_s = now_s if said != self.said else self.changed_s
        return dataclasses.replace(self, said=said, now_s=now_s, changed_s=changed_s, lives=lives)

    @property
    def state(self) -> OwnerState:
        """What that says of the owner."""
        if self.said.endswith(ownership.RELEASED):
            return OwnerState.RELEASED
        if self.lives is not None:
            return OwnerState.LIVES if self.lives else OwnerState.GONE
        last_s = self.since_s if self.changed_s is None else self.changed_s
        if self.now_s - last_s >= ownership.LEASE_S:
            return OwnerState.SILENT
        return OwnerState.UNSEEN if self.changed_s is None else OwnerState.LIVES


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One version's traffic since the reading before."""

    interval: Interval
    ejected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """Everything that one look has read."""

    model: str
    at: str
    at_ms: int
    endpoint: str
    record: str | Unread
    models: Known[tuple[str, ...]]
    log: Known[Log]
    settings: Known[PromotionConfig]
    """Of the champion."""
    evidence: Known[str]
    last: Known[tuple[StageEvidence, str | None]]
    """The attempt that ended last, and where a person sees it."""
    work: Known[Unfinished]
    heard: Known[Heard]
    edge: Known[EdgeStatus]
    traffic: Known[Mapping[int, Seen]]
    counted: Known[Counted]
    journal: Known[tuple[Waiting, ...]]
    kept: Known[Kept]
    """What this machine last knew; None where the record itself was read."""

    @property
    def unread(self) -> dict[str, str]:
        """The sources that could not be read, with the reason."""
        named = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {n: v.reason for n, v in named.items() if isinstance(v, Unread)}
