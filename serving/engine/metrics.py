"""What a replica counts, in Prometheus' text form, on a registry of its own.

Route and code are the only labels: both come from short fixed lists, never from the caller.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one replica."""

    def __init__(self, *, in_flight: Callable[[], int], waiting: Callable[[], int]) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "liftlock_requests", "Answers by route and code.", ("route", "code"),
            registry=self._registry,
        )  # fmt: skip
        self._seconds = Histogram(
            "liftlock_request_seconds", "From the first byte in to the last byte out.", ("route",),
            buckets=_SECONDS, registry=self._registry,
        )  # fmt: skip
        self._tokens = Counter(
            "liftlock_tokens", "Tokens read and written.", ("kind",), registry=self._registry
        )
        for name, text, read in (
            ("liftlock_in_flight", "Requests admitted and not yet answered.", in_flight),
            ("liftlock_waiting", "Requests beyond what the engine runs at once.", waiting),
        ):
            Gauge(name, text, registry=self._registry).set_function(read)

    def answered(self, route: str, code: int, seconds: float) -> None:
        """One answer. A caller that left is counted under 499, which is never sent."""
        self._requests.labels(route, str(code)).inc()
        self._seconds.labels(route).observe(seconds)

    def tokens(self, *, prompt: int, completion: int) -> None:
        """Tokens of one finished completion."""
        self._tokens.labels("prompt").inc(prompt)
        self._tokens.labels("completion").inc(completion)

    def render(self) -> bytes:
        """The exposition text."""
        return generate_latest(self._registry)
