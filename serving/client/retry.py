"""Whether to send a request again, and after how long. Pure: time and chance are arguments.

A request is sent again only when that cannot do harm: it never reached the endpoint, the endpoint
said it did not take it (429, 503), or doing it twice is the same as doing it once. A correction
is such a request; a sampled completion is not. An attempt that timed out is not repeated: the
endpoint is slow, and a second copy makes it slower. Where a connection failed and there is an
address not tried yet, that one is asked at once: it has given no reason to wait.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Mapping
from dataclasses import dataclass

from serving.client import arguments, rate_limit


class FailureKind(enum.Enum):
    """Why there is no answer."""

    NOT_SENT = "not sent"
    """No connection came about: nothing was sent."""
    BROKEN = "broken"
    """The connection broke; the endpoint may or may not have done the work."""
    TIMEOUT = "timeout"
    """No answer in the time allowed for the attempt."""
    UNREADABLE = "unreadable"
    """An answer that is none, as it would be again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt without an answer."""

    kind: FailureKind
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An attempt with an answer; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often and how soon."""

    retries: int = 2
    """Attempts after the first."""
    base_s: float = 0.1
    """Longest pause before the first retry; doubles with each."""
    cap_s: float = 2.0
    """Longest pause of all, unless the endpoint asks for more."""

    def __post_init__(self) -> None:
        arguments.whole("retries", self.retries, least=0)
        if not 0 < self.base_s <= self.cap_s:
            raise ValueError(f"base_s must be above 0 and at most cap_s, found {self.base_s}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Where a call stands after an attempt."""

    attempt: int
    """Attempts made so far, without those that only moved on to another address."""
    idempotent: bool
    """Whether doing it twice is the same as doing it once."""
    remaining_s: float
    """Time left until the call's deadline."""
    unix_s: float
    """The time of day, for a Retry-After given as a date."""
    untried: bool = False
    """Whether there is an address that this call has not tried."""


def moves_on(outcome: Reply | Failure, *, untried: bool) -> bool:
    """Whether this only says to ask another address; it counts as no retry."""
    return untried and isinstance(outcome, Failure) and outcome.kind is FailureKind.NOT_SENT


def settles(outcome: Reply | Failure) -> bool:
    """Whether there is no point in another attempt that runs beside this one."""
    if isinstance(outcome, Failure):
        return False
    return outcome.status < 500 and outcome.status not in (408, 429)


def pause_s(
    policy: RetryPolicy, outcome: Reply | Failure, situation: Situation, rng: random.Random
) -> float | None:
    """Seconds to wait before the next attempt; None when there should be none."""
    if not _repeatable(outcome, situation.idempotent):
        return None
    spent = situation.attempt > policy.retries
    if spent and not moves_on(outcome, untried=situation.untried):
        return None
    if situation.untried and isinstance(outcome, Failure):
        return 0.0 if situation.remaining_s > 0 else None
    longest_s = min(policy.cap_s, policy.base_s * 2.0 ** min(situation.attempt - 1, 60))
    # All of the pause is chance: callers that failed together must not come back together.
    pause = _asked_for_s(outcome, situation.unix_s) + rng.uniform(0.0, longest_s)
    return pause if pause < situation.remaining_s else None


def _repeatable(outcome: Reply | Failure, idempotent: bool) -> bool:
    if isinstance(outcome, Failure):
        return outcome.kind is FailureKind.NOT_SENT or (
            outcome.kind is FailureKind.BROKEN and idempotent
        )
    return outcome.status in (429, 503) or (outcome.status in (502, 504) and idempotent)


def _asked_for_s(outcome: Reply | Failure, unix_s: float) -> float:
    """What the endpoint asks for, in seconds; 0 when it asks for nothing we understand."""
    said = rate_limit.read(outcome.headers, unix_s) if isinstance(outcome, Reply) else None
    return (said.wait_s or 0.0) if said is not None else 0.0
