"""What a replica counts, in Prometheus' text form, on a registry of its own.

Route and code are the only labels: both come from short fixed lists, never from the caller. Where
several front ends share a replica, prometheus_client keeps their counters in files of one folder
(its multiprocess mode, on by PROMETHEUS_MULTIPROC_DIR), so that any of them answers for all and
what a front end counted outlives it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.5, 5.0, 10.0, 30.0, 60.0)


class Metrics:
    """The counters of one replica."""

    def __init__(
        self,
        *,
        in_flight: Callable[[], int],
        waiting: Callable[[], int],
        queue_age_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
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
        self._gauges = _Gauges(
            ("liftlock_in_flight", "Requests admitted and not yet answered.", in_flight),
            ("liftlock_waiting", "Sequences beyond what the engine runs at once.", waiting),
            ("liftlock_queue_age_seconds", "How long the oldest of them has waited.", queue_age_s),
        )

    def answered(self, route: str, code: int, seconds: float) -> None:
        """One answer. A caller that left is counted under 499, which is never sent."""
        self._requests.labels(route, str(code)).inc()
        self._seconds.labels(route).observe(seconds)

    def tokens(self, *, prompt: int, completion: int) -> None:
        """Tokens of one finished completion."""
        self._tokens.labels("prompt").inc(prompt)
        self._tokens.labels("completion").inc(completion)

    def render(self) -> bytes:
        """The exposition text, of all front ends."""
        gauges = CollectorRegistry()
        gauges.register(self._gauges)
        return generate_latest(self._counted()) + generate_latest(gauges)

    def _counted(self) -> CollectorRegistry:
        folder = os.environ.get("PROMETHEUS_MULTIPROC_DIR")  # read by prometheus_client itself too
        if folder is None:
            return self._registry
        registry = CollectorRegistry()
        MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
        return registry


class _Gauges(Collector):
    """Values of the whole replica, read when asked: a file per process would add them up again."""

    def __init__(self, *read: tuple[str, str, Callable[[], float]]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, text, value in self._read:
            yield GaugeMetricFamily(name, text, value=value())
