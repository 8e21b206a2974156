"""What came of requests between two readings of Envoy's counters. Pure.

Envoy counts since it started; what callers notice now is the difference of two readings. Nothing
measured is None and never zero: no request in an interval says nothing about how long one takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from serving.edge.admin import ClusterStats, LatencyBucket


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """The requests of an interval."""

    seconds: float
    requests: int
    faults: int
    """Answers of 5xx, the edge's own included."""
    latency: tuple[LatencyBucket, ...]
    """Cumulative histogram of this interval's requests alone. Envoy updates it once a second, so
    it may count a few requests more or fewer than `requests`."""
    timeouts: int = 0
    """Requests the edge gave up on; they are faults, and not in the histogram."""

    @property
    def fault_share(self) -> float | None:
        """Faults per request; None without requests."""
        return self.faults / self.requests if self.requests else None

    @property
    def measured(self) -> int:
        """Requests in the histogram."""
        return self.latency[-1].count if self.latency else 0

    def within(self, bound_ms: float) -> int:
        """Requests that took at most the largest bound of the histogram that `bound_ms` covers."""
        return max((b.count for b in self.latency if b.le_ms <= bound_ms), default=0)

    def latency_ms(self, quantile: float) -> float | None:
        """The time that this share of the requests took at most; None where none was measured."""
        return quantile_ms(self.latency, quantile)


def between(before: ClusterStats | None, after: ClusterStats, *, seconds: float) -> Interval:
    """The interval between two readings.

    Counters that fell were set back by a restart and count from zero, and so do those of a cluster
    that is new.
    """
    base = before if before is not None and not _fell(before, after) else None
    earlier = {b.le_ms: b.count for b in base.latency} if base is not None else {}
    return Interval(
        seconds=seconds,
        requests=after.completed - (base.completed if base is not None else 0),
        faults=after.server_errors - (base.server_errors if base is not None else 0),
        timeouts=after.timeouts - (base.timeouts if base is not None else 0),
        latency=tuple(
            LatencyBucket(le_ms=b.le_ms, count=b.count - earlier.get(b.le_ms, 0))
            for b in after.latency
        ),
    )


def _fell(before: ClusterStats, after: ClusterStats) -> bool:
    earlier = {b.le_ms: b.count for b in before.latency}
    return (
        after.completed < before.completed
        or after.server_errors < before.server_errors
        or after.timeouts < before.timeouts
        or any(b.count < earlier.get(b.le_ms, 0) for b in after.latency)
    )


def together(intervals: Iterable[Interval]) -> Interval | None:
    """Several versions' requests of the same interval; None where there is no version."""
    listed = tuple(intervals)
    return added(listed, seconds=max(i.seconds for i in listed)) if listed else None


def added(intervals: Iterable[Interval], *, seconds: float) -> Interval:
    """The requests of several intervals, which are `seconds` together."""
    listed = tuple(intervals)
    counts: dict[float, int] = {}
    for bucket in (b for interval in listed for b in interval.latency):
        counts[bucket.le_ms] = counts.get(bucket.le_ms, 0) + bucket.count
    return Interval(
        seconds=seconds,
        requests=sum(i.requests for i in listed),
        faults=sum(i.faults for i in listed),
        timeouts=sum(i.timeouts for i in listed),
        latency=tuple(LatencyBucket(le_ms=le, count=n) for le, n in sorted(counts.items())),
    )


def quantile_ms(buckets: Sequence[LatencyBucket], quantile: float) -> float | None:
    """A quantile of a cumulative histogram, in milliseconds; None where it is empty.

    Linear within the bucket that holds the rank, as Prometheus' `histogram_quantile` does, so the
    error is at most the width of that bucket.
    """
    total = buckets[-1].count if buckets else 0
    if total <= 0:
        return None
    rank = quantile * total
    lower_ms, below = 0.0, 0
    for bucket in buckets:
        if bucket.count >= rank and bucket.count > below:
            share = (rank - below) / (bucket.count - below)
            return lower_ms + (bucket.le_ms - lower_ms) * share
        lower_ms, below = bucket.le_ms, bucket.count
    return lower_ms
