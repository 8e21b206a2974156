"""When a second attempt is sent beside one that is slow, and how many such attempts may be.

Hedging (Dean and Barroso, "The tail at scale", 2013): the request is sent a second time after a
delay that most answers beat, and whichever answers first is taken. It costs extra load, most of
all when everything is slow, so each second attempt takes a token, each call brings a fraction of
one, and an endpoint that says it is full empties the bucket. Pure apart from the state it owns.
"""

from __future__ import annotations

import bisect
import collections
import math
import threading
from dataclasses import dataclass

from serving.client import arguments

_WINDOW = 500
_FEWEST = 20
"""With fewer latencies than this a quantile says nothing, and nothing is hedged."""
_MOST_TOKENS = 10.0
"""Most second attempts in one burst."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedge:
    """How a client hedges: after which delay, and up to which share of its calls."""

    delay_s: float | None = None
    """Seconds until the second attempt; None: the `quantile` of the latencies seen lately."""
    quantile: float = 0.95
    """Share of the answers that come before the second attempt is sent."""
    budget: float = 0.05
    """Most second attempts per call, over time. 0.05 is at most 5 % more load."""

    def __post_init__(self) -> None:
        if self.delay_s is not None:
            arguments.of_type("delay_s", self.delay_s, int, float)
        arguments.of_type("quantile", self.quantile, int, float)
        arguments.of_type("budget", self.budget, int, float)
        if self.delay_s is not None and not (math.isfinite(self.delay_s) and self.delay_s >= 0):
            raise ValueError(f"delay_s must be None or at least 0, found {self.delay_s}")
        if not 0 < self.quantile < 1:
            raise ValueError(f"quantile must be between 0 and 1, found {self.quantile}")
        if not 0 < self.budget <= 1:
            raise ValueError(f"budget must be above 0 and at most 1, found {self.budget}")


class Hedging:
    """A client's hedging: the latencies it saw and the tokens it has. Safe between threads."""

    def __init__(self, hedge: Hedge) -> None:
        self._hedge = hedge
        # One to begin with: else a client of few calls would never hedge.
        self._tokens = 1.0
        self._recent: collections.deque[float] = collections.deque()
        self._ordered: list[float] = []
        self._lock = threading.Lock()

    def call_begins(self) -> float | None:
        """Counts a call; seconds until its second attempt, None where there is to be none."""
        with self._lock:
            self._tokens = min(_MOST_TOKENS, self._tokens + self._hedge.budget)
            if self._hedge.delay_s is not None:
                return self._hedge.delay_s
            if len(self._ordered) < _FEWEST:
                return None
            return self._ordered[math.ceil(self._hedge.quantile * len(self._ordered)) - 1]

    def take(self) -> bool:
        """Whether a second attempt may be sent now; takes its token if so."""
        with self._lock:
            if self._tokens < 1.0:
                return False
            self._tokens -= 1.0
            return True

    def full(self) -> None:
        """The endpoint says it is full: extra load is the last thing it needs."""
        with self._lock:
            self._tokens = 0.0

    def saw(self, latency_s: float) -> None:
        """Learns how long a first attempt took, or had taken when its answer was not awaited.

        The latter are late by definition, so leaving them out would draw the quantile down.
        """
        with self._lock:
            if len(self._recent) == _WINDOW:
                oldest = self._recent.popleft()
                self._ordered.pop(bisect.bisect_left(self._ordered, oldest))
            self._recent.append(latency_s)
            bisect.insort(self._ordered, latency_s)
