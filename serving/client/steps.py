"""What a call asks of whoever drives it: the vocabulary of the client without I/O.

The one idea: a call is a generator. It yields `Send`, `Wait` or `Race`, is sent back what came of
it, and returns its result or raises. Whoever drives it decides how bytes and time pass, and closes
it when it is left early, so that whatever it holds is given back.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from serving.client import retry, sse

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Make one attempt, in `timeout_s` at most; send back an Outcome."""

    method: str
    address: str
    path: str
    headers: Mapping[str, str]
    content: bytes
    timeout_s: float
    opens: bool = False
    """Whether a good answer is a stream: then its first event is waited for, and Opened sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Let time pass; send back None."""

    delay_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Make one attempt, and a second beside it where the first takes long; send back Raced."""

    first: Send
    after_s: float
    second: Callable[[], Send | None]
    """The second attempt, asked for when it is due; None where there is to be none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A stream that has begun."""

    headers: Mapping[str, str]
    events: list[str]
    """Data of the events that came so far."""
    parser: sse.Parser
    """Reads the rest."""
    response: Any
    """The driver's own."""
    chunks: Any
    """The driver's own: the bytes still to come."""


Outcome = retry.Reply | retry.Failure | Opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Raced:
    """What came of a race; None is an attempt that was not made or not waited for."""

    first: Outcome | None
    second: Outcome | None


Flow = Generator[Send | Wait | Race, Outcome | Raced | None, T]
