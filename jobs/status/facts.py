"""A model's status as data. What was not measured or could not be read is None, never zero.

Why something could not be read stands in `Status.unread`, by the name of its source.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from registry.ledger import LedgerEntry, Waiver
from serving.slo import SLO
from serving.slo.burn import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What came of requests over the last `seconds`, as the edge counted them."""

    seconds: float
    requests: int
    faults: int
    latency_ms: float | None
    """The `latency_quantile` of their times; None where none was measured."""
    latency_quantile: float

    @property
    def fault_share(self) -> float | None:
        """Server faults per request; None without requests."""
        return self.faults / self.requests if self.requests else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One version behind the edge."""

    version: int
    weight: int
    """Per cent of the traffic, as Envoy splits it."""
    endpoints: tuple[str, ...]
    """Ready replicas."""
    asked: int | None
    """Replicas that the settings it is served with ask for; None where those are not known."""
    draining: int | None
    ejected: int | None
    """Ready replicas that Envoy leaves out because they fail."""
    now: Traffic | None
    mirrored: float = 0.0
    """The fraction of the model's requests that it gets copies of."""

    @property
    def ready(self) -> int:
        """How many replicas may take requests."""
        return len(self.endpoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """The edge and what is behind it."""

    url: str
    versions: tuple[Version, ...]
    source_age_s: float | None
    last_error: str | None
    refused: tuple[str, ...]
    """Replicas left out because of what they publish."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The last promotion or rollback that ended."""

    name: str
    ending: str
    """`promoted`, `already champion`, `refused`, `rolled back`, `failed` or another ending of the
    record."""
    why: str
    version: int | None
    actor: str | None
    is_undecided: bool
    """Refused because its gates showed neither that it is good enough nor that it is not."""
    run_id: str
    url: str | None
    ended_at: str


class WorkState(enum.StrEnum):
    """Whether somebody is at it."""

    RUNNING = "running"
    """Its owner lives."""
    INTERRUPTED = "interrupted"
    """Its owner is gone or silent; the same command goes on where it stopped."""
    UNKNOWN = "unknown"
    """Not ended, and no sign of life was due yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A promotion or rollback that has not ended."""

    name: str
    state: WorkState
    actor: str | None
    run_id: str
    started_at: str
    stage: str | None
    """The stage it is at; None between two."""
    stage_since: str
    seconds: float
    """In that stage, by this machine's clock."""
    version: int | None
    """The candidate, once it is known."""
    steps: tuple[int, ...]
    """Per cents of traffic that its rollout goes through."""


class OwnerState(enum.StrEnum):
    """What is known of whoever claimed the model last."""

    LIVES = "lives"
    """Its process runs on this machine, or its sign of life changed while it was watched."""
    UNSEEN = "unseen"
    """No sign of life yet, and not watched for long enough to say more."""
    SILENT = "silent"
    """No sign of life for a whole lease; another command may take over."""
    GONE = "gone"
    """Its process, of this very machine, has ended."""
    RELEASED = "released"
    """It has let go; nobody owns the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Whoever claimed the model last."""

    owner: str
    """The process: host, boot, pid and start."""
    actor: str
    doing: str
    epoch: int
    claimed_at: str
    state: OwnerState
    said: str
    """Its last sign of life, in its own words and by its own clock; empty where there is none."""
    beat_age_s: float | None
    """Seconds since it was seen to change, by this machine's clock; None where it was not."""
    watched_s: float
    """For how long it was watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frozen:
    """Who froze the model, and why."""

    actor: str
    reason: str
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Something that was done without the record and is still to be entered."""

    text: str
    version: int | None = None
    """What it put in charge, where it is a rollback."""
    is_refused: bool = False
    """Whether the record was asked and refused it, so that a person has to look at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Everything that status shows of one model."""

    model: str
    at: str
    """UTC, when this was looked at."""
    endpoint: str
    record: str | None
    """Address of the tracking server; None where it cannot be read."""
    champion: LedgerEntry | None = None
    previous: LedgerEntry | None = None
    waiver: Waiver | None = None
    """What the champion was let through on, although a gate did not pass."""
    entries: int | None = None
    """Entries in the ledger; None where it cannot be read."""
    is_copy: bool = False
    """Whether champion, previous and slo are as this machine last knew them."""
    evidence: str | None = None
    """Where a person sees the champion's run."""
    slo: SLO | None = None
    edge: Edge | None = None
    """None while it does not run."""
    now: Traffic | None = None
    """All versions together."""
    budget: tuple[Standing, ...] = ()
    """How each part of the promise stands; empty where the promise is not known."""
    last: Attempt | None = None
    work: Work | None = None
    owner: Owner | None = None
    frozen: Frozen | None = None
    journal: tuple[Waiting, ...] = ()
    """Oldest first."""
    waiting: tuple[str, ...] = ()
    """What waits for whom, as sentences."""
    problems: tuple[str, ...] = ()
    known: tuple[str, ...] | None = None
    """Every model that the record knows; None where that cannot be read."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """Sources that could not be read, with the reason."""

    @property
    def in_charge(self) -> int | None:
        """The version that should serve, also by rollbacks that the ledger does not know of yet."""
        done = [w.version for w in self.journal if w.version is not None]
        champion = self.champion.version if self.champion is not None else None
        return done[-1] if done else champion

    @property
    def is_unknown(self) -> bool:
        """Whether neither the record nor the edge nor the journal has heard of the model."""
        if self.known is None or self.model in self.known or self.journal:
            return False
        return self.edge is None or not self.edge.versions
