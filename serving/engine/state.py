"""Who a replica is, what it holds, and whether it takes more: the only place requests are counted.

The one idea: `admit` hands back its release, so a request is in flight exactly as long as the
block runs, streaming and failures included.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from serving.engine.errors_http import ApiError, unavailable


class Phase(enum.StrEnum):
    """Where a replica is in its life; it only moves forward."""

    STARTING = "starting"
    """Answers its own warm-up requests only."""
    READY = "ready"
    """Answers everything."""
    LEAVING = "leaving"
    """Still answers everything, but says it is not ready: edges have not all let go yet."""
    CLOSED = "closed"
    """Refuses new requests and finishes those it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What is served; every answer carries it."""

    model: str
    version: int
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one replica takes before it refuses.

    Raises:
        ValueError: a field is out of its bounds; the message names field, value and bound.
    """

    max_in_flight: int = 256
    """Requests at once; a few batches of the engine, so what waits still makes its deadline."""
    max_body_bytes: int = 1_000_000
    """Size of a request body; far above any text that fits a context."""
    max_sequences: int = 128
    """Completions of one request: prompts times `n`."""
    max_sentences: int = 1_024
    """Sentences of one correction request, all its texts together."""
    max_parallel_sentences: int = 32
    """Sentences of one request in the engine at once; a document leaves room for others."""
    timeout_s: float = 60.0
    """Deadline of a request that brings none; also the longest a caller may ask for."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) <= 0:
                raise ValueError(f"limit {name} must be above 0, got {getattr(self, name)}")


class ReplicaState:
    """Phase and in-flight count of one replica. Belongs to one event loop."""

    def __init__(self, identity: Identity, limits: Limits, *, warmup_token: str) -> None:
        self.identity = identity
        self.limits = limits
        self.phase = Phase.STARTING
        self._warmup_token = warmup_token
        self._in_flight = 0

    @property
    def in_flight(self) -> int:
        """Requests admitted and not yet answered to the end."""
        return self._in_flight

    @property
    def draining(self) -> bool:
        """Whether the replica is on its way out."""
        return self.phase in (Phase.LEAVING, Phase.CLOSED)

    @contextlib.contextmanager
    def admit(self, warmup_token: str | None) -> Iterator[None]:
        """Counts a request while the block runs.

        Raises:
            ApiError: 503 in a phase that takes no requests, 429 when `max_in_flight` is reached.
        """
        self._check_phase(warmup_token)
        if self._in_flight >= self.limits.max_in_flight:
            raise ApiError(
                HTTPStatus.TOO_MANY_REQUESTS,
                "replica_full",
                f"this replica holds {self._in_flight} requests, its limit; try again in a second",
                headers=(("retry-after", "1"),),
            )
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1

    def _check_phase(self, warmup_token: str | None) -> None:
        if self.phase is Phase.CLOSED:
            raise unavailable("draining", "this replica is shutting down; send to another one")
        if self.phase is Phase.STARTING and warmup_token != self._warmup_token:
            raise unavailable("not_ready", "this replica is still warming up; try again shortly")
