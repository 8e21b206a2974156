"""Whether a replica takes one more request: a pure function of what it holds and of its pace.

The one idea: an engine with `slots` places works a queue off in rounds, so a sequence that enters
behind `held` others waits (held - slots + 1) / slots rounds before its own begins. The length of a
round is observed, not configured. It fades while nothing ends, so that a replica which refused
everything after a stall finds out that the stall is over.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

_WEIGHT = 0.1
"""Of one observation; twenty of them are a tenth of a second at the rates a replica serves."""
_HALF_LIFE_S = 10.0
"""In which half of what was observed is forgotten while nothing ends."""
_SPREADS = 2.0
"""A request's own length is unknown; it is taken for a short one, this far below the mean."""
MOST_RETRY_AFTER_S = 30


class Refusal(enum.StrEnum):
    """Why a request is not taken."""

    FULL = "replica_full"
    """The replica holds as many requests as it may."""
    QUEUE_FULL = "queue_full"
    """As many sequences as may wait for the engine do."""
    TOO_LATE = "deadline_unreachable"
    """It would not be answered within its deadline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a replica holds."""

    in_flight: int
    """Requests admitted and not yet answered."""
    sequences: int
    """Prompts handed to the engine whose continuation has not ended."""
    slots: int
    """Sequences that the engine runs at once."""

    @property
    def waiting(self) -> int:
        """Sequences that the engine holds beyond those it runs."""
        return max(0, self.sequences - self.slots)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The most a replica holds."""

    max_in_flight: int
    max_waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long one sequence has lately taken once it ran."""

    mean_s: float
    spread_s: float
    """Mean distance from the mean."""
    seen_at_s: float
    """Time of the last observation, on the clock that `now_s` comes from."""

    def mean_now_s(self, now_s: float) -> float:
        """The mean, faded by the time since something ended."""
        return self.mean_s * _faded(self, now_s)

    def short_now_s(self, now_s: float) -> float:
        """How long a short sequence takes."""
        return max(0.0, self.mean_s - _SPREADS * self.spread_s) * _faded(self, now_s)


def _faded(pace: Pace, now_s: float) -> float:
    return float(0.5 ** (max(0.0, now_s - pace.seen_at_s) / _HALF_LIFE_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """None in `refusal` takes the request."""

    refusal: Refusal | None
    retry_after_s: int


def rounds(held: int, slots: int) -> float:
    """Rounds that a sequence which enters behind `held` others stays, its own included."""
    return max(1.0, (held + 1) / slots)


def observed(pace: Pace | None, *, took_s: float, stayed_rounds: float, now_s: float) -> Pace:
    """The pace after a sequence that ended `took_s` after it entered."""
    sample_s = took_s / stayed_rounds
    if pace is None:
        return Pace(mean_s=sample_s, spread_s=0.0, seen_at_s=now_s)
    off_s = sample_s - pace.mean_s
    return Pace(
        mean_s=pace.mean_s + _WEIGHT * off_s,
        spread_s=pace.spread_s + _WEIGHT * (abs(off_s) - pace.spread_s),
        seen_at_s=now_s,
    )


def stopped(pace: Pace | None, *, took_s: float, stayed_rounds: float, now_s: float) -> Pace | None:
    """The pace after a sequence that was stopped early: it would have taken at least that long."""
    known_s = 0.0 if pace is None else pace.mean_now_s(now_s)
    if took_s / stayed_rounds <= known_s:
        return pace
    return observed(pace, took_s=took_s, stayed_rounds=stayed_rounds, now_s=now_s)


def wait_s(load: Load, pace: Pace | None, now_s: float) -> float:
    """How long the next sequence waits before the engine begins it."""
    if pace is None or load.sequences < load.slots:
        return 0.0
    return pace.mean_now_s(now_s) * (load.sequences - load.slots + 1) / load.slots


def decide(
    load: Load, bounds: Bounds, pace: Pace | None, *, left_s: float, now_s: float
) -> Decision:
    """Takes or refuses a request that must be answered within `left_s`."""
    wait = wait_s(load, pace, now_s)
    if load.in_flight >= bounds.max_in_flight:
        return Decision(refusal=Refusal.FULL, retry_after_s=_retry_after_s(wait))
    if load.waiting >= bounds.max_waiting:
        return Decision(refusal=Refusal.QUEUE_FULL, retry_after_s=_retry_after_s(wait))
    needed_s = wait + (0.0 if pace is None else pace.short_now_s(now_s))
    if needed_s > left_s:
        return Decision(refusal=Refusal.TOO_LATE, retry_after_s=_retry_after_s(needed_s - left_s))
    return Decision(refusal=None, retry_after_s=0)


def _retry_after_s(seconds: float) -> int:
    """Whole seconds, since older clients read nothing else, and never "at once"."""
    return max(1, math.ceil(min(seconds, MOST_RETRY_AFTER_S)))
