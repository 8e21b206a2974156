"""Who a replica is, what it holds, and whether it takes more: the only place requests are counted.

The one idea: `admit` hands back its release, so a request is in flight exactly as long as the
block runs, streaming and failures included.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from serving.engine import admission
from serving.engine.counts import Counts, Field
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
    max_waiting: int = 1_024
    """Sequences that wait for the engine; one request may bring many of them."""
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
    """Phase and counts of one replica, as one of its front ends sees them. Belongs to one loop.

    `slots` is how many sequences the engine runs at once.
    """

    def __init__(
        self,
        identity: Identity,
        limits: Limits,
        *,
        warmup_token: str,
        slots: int = 64,
        counts: Counts | None = None,
    ) -> None:
        self.identity = identity
        self.limits = limits
        self.phase = Phase.STARTING
        self._warmup_token = warmup_token
        self._slots = slots
        self._counts = Counts.alone() if counts is None else counts
        self._bounds = admission.Bounds(
            max_in_flight=limits.max_in_flight, max_waiting=limits.max_waiting
        )
        self._pace: admission.Pace | None = None
        self._entered_s: dict[object, float] = {}

    @property
    def in_flight(self) -> int:
        """Requests admitted and not yet answered to the end, by all front ends."""
        return self._counts.total(Field.IN_FLIGHT)

    @property
    def load(self) -> admission.Load:
        """What the replica holds."""
        return load_of(self._counts, self._slots)

    @property
    def draining(self) -> bool:
        """Whether the replica is on its way out."""
        return self.phase in (Phase.LEAVING, Phase.CLOSED)

    @contextlib.contextmanager
    def admit(self, warmup_token: str | None, left_s: float = math.inf) -> Iterator[None]:
        """Counts a request that must be answered within `left_s` while the block runs.

        Raises:
            ApiError: 503 in a phase that takes no requests, 429 when the replica is full or the
                queue before the request too long for its deadline.
        """
        self._check_phase(warmup_token)
        decision = admission.decide(
            self.load, self._bounds, self._pace, left_s=left_s, now_s=time.monotonic()
        )
        if decision.refusal is not None:
            raise _refused(decision.refusal, decision.retry_after_s, self.load, left_s)
        self._counts.add(Field.IN_FLIGHT, 1)
        try:
            yield
        finally:
            self._counts.add(Field.IN_FLIGHT, -1)

    @contextlib.contextmanager
    def in_engine(self, sequences: int) -> Iterator[None]:
        """Counts sequences in the engine while the block runs, and learns its pace from them."""
        entered_s, key = time.monotonic(), object()
        stayed = admission.rounds(self.load.sequences, self._slots)
        self._counts.add(Field.SEQUENCES, sequences)
        self._entered_s[key] = entered_s
        learn = admission.stopped
        try:
            yield
            learn = admission.observed
        finally:
            self._counts.add(Field.SEQUENCES, -sequences)
            del self._entered_s[key]
            now_s = time.monotonic()
            self._pace = learn(
                self._pace, took_s=now_s - entered_s, stayed_rounds=stayed, now_s=now_s
            )

    def note_queue_age(self) -> None:
        """Writes down since when our oldest waiting sequence waits; called a few times a second.

        The engine begins sequences in the order they come, so what waits is what came last. Of
        the places it has, we are taken to hold our share.
        """
        load, held = self.load, len(self._entered_s)
        share = 1.0 if not load.sequences else self._counts.get(Field.SEQUENCES) / load.sequences
        ours = int(self._slots * share)
        since_s = 0.0
        if load.waiting and held > ours:
            since_s = next(itertools.islice(self._entered_s.values(), ours, None))
        self._counts.put(Field.WAITING_SINCE_S, since_s)

    def queue_age_s(self) -> float:
        """How long the oldest waiting sequence of any front end has waited."""
        return queue_age_s(self._counts)

    def _check_phase(self, warmup_token: str | None) -> None:
        if self.phase is Phase.CLOSED:
            raise unavailable("draining", "this replica is shutting down; send to another one")
        if self.phase is Phase.STARTING and warmup_token != self._warmup_token:
            raise unavailable("not_ready", "this replica is still warming up; try again shortly")


def load_of(counts: Counts, slots: int) -> admission.Load:
    """What all front ends hold together."""
    return admission.Load(
        in_flight=counts.total(Field.IN_FLIGHT),
        sequences=counts.total(Field.SEQUENCES),
        slots=slots,
    )


def queue_age_s(counts: Counts) -> float:
    """How long the oldest waiting sequence of any front end has waited."""
    since_s = [each for each in counts.column(Field.WAITING_SINCE_S) if each]
    return time.monotonic() - min(since_s) if since_s else 0.0


def _refused(
    why: admission.Refusal, retry_after_s: int, load: admission.Load, left_s: float
) -> ApiError:
    """429, also where the deadline is too near: a 5xx would have the edge eject a sound replica."""
    message = {
        admission.Refusal.FULL: f"this replica holds {load.in_flight} requests, its limit",
        admission.Refusal.QUEUE_FULL: f"{load.waiting} sequences wait for the engine, its limit",
        admission.Refusal.TOO_LATE: (
            f"behind {load.waiting} waiting sequences this would not be answered within "
            f"{left_s * 1000:.0f} ms; nothing was begun"
        ),
    }[why]
    return ApiError(
        HTTPStatus.TOO_MANY_REQUESTS,
        why,
        f"{message}; try again in {retry_after_s} s",
        headers=(("retry-after", str(retry_after_s)),),
    )
