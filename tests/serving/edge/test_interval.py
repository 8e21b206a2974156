"""What came of requests between two readings."""

from __future__ import annotations

import dataclasses

import pytest

from serving.edge import interval
from serving.edge.admin import ClusterStats, LatencyBucket


def buckets(*counts: tuple[float, int]) -> tuple[LatencyBucket, ...]:
    return tuple(LatencyBucket(le_ms=le, count=n) for le, n in counts)


def stats(completed: int, faults: int, *latency: tuple[float, int]) -> ClusterStats:
    return ClusterStats(
        completed=completed, ok=completed - faults, client_errors=0, server_errors=faults,
        retries=0, timeouts=0, active=0, ejections_active=0, latency=buckets(*latency),
    )  # fmt: skip


def test_difference_of_two_readings_forgets_what_was_before() -> None:
    before = stats(1000, 900, (10.0, 0), (20.0, 0), (5000.0, 1000))
    after = stats(1100, 901, (10.0, 50), (20.0, 100), (5000.0, 1100))
    seen = interval.between(before, after, seconds=1.0)
    assert (seen.requests, seen.faults, seen.fault_share) == (100, 1, 0.01)
    assert seen.latency_ms(0.5) == 10.0
    assert seen.latency_ms(0.99) == pytest.approx(10 + 10 * 49 / 50)


def test_nothing_measured_is_none_and_never_zero() -> None:
    same = stats(70, 3, (10.0, 60), (20.0, 70))
    seen = interval.between(same, same, seconds=1.0)
    assert seen.requests == 0
    assert seen.fault_share is None
    assert seen.latency_ms(0.99) is None
    assert interval.quantile_ms((), 0.99) is None
    assert interval.together(()) is None


def test_counters_set_back_by_a_restart_count_from_zero() -> None:
    seen = interval.between(stats(500, 5, (10.0, 500)), stats(8, 2, (10.0, 8)), seconds=1.0)
    assert (seen.requests, seen.faults, seen.latency[0].count) == (8, 2, 8)


def test_a_restart_shows_by_faults_too_where_requests_have_caught_up() -> None:
    seen = interval.between(stats(5, 3, (10.0, 5)), stats(8, 2, (10.0, 8)), seconds=1.0)
    assert (seen.requests, seen.faults, seen.latency[0].count) == (8, 2, 8)


def test_a_restart_shows_by_latencies_too_where_requests_have_caught_up() -> None:
    before, after = stats(5, 0, (10.0, 5), (20.0, 5)), stats(8, 0, (10.0, 4), (20.0, 8))
    seen = interval.between(before, after, seconds=1.0)
    assert (seen.requests, seen.measured, seen.within(10.0)) == (8, 8, 4)


def test_requests_within_a_bound_are_those_of_the_largest_bucket_that_it_covers() -> None:
    seen = interval.between(None, stats(9, 0, (10.0, 3), (20.0, 7), (50.0, 9)), seconds=1.0)
    assert [seen.within(ms) for ms in (5.0, 10.0, 19.0, 20.0, 1e9)] == [0, 3, 3, 7, 9]
    assert seen.measured == 9


def test_what_the_edge_gave_up_on_is_counted_of_the_interval_alone() -> None:
    before = dataclasses.replace(stats(10, 4, (10.0, 6)), timeouts=4)
    after = dataclasses.replace(stats(20, 6, (10.0, 14)), timeouts=6)
    seen = interval.between(before, after, seconds=1.0)
    assert (seen.faults, seen.timeouts, seen.measured) == (2, 2, 8)


def test_versions_together_are_one_histogram() -> None:
    nothing = stats(0, 0)
    slow = interval.between(nothing, stats(10, 0, (10.0, 0), (100.0, 10)), seconds=1.1)
    fast = interval.between(nothing, stats(90, 1, (10.0, 90), (100.0, 90)), seconds=1.0)
    both = interval.together((slow, fast))
    assert both is not None
    assert (both.requests, both.faults, both.seconds) == (100, 1, 1.1)
    assert both.latency == buckets((10.0, 90), (100.0, 100))
    assert both.latency_ms(0.9) == 10.0
    assert both.latency_ms(0.95) == pytest.approx(55.0)


@pytest.mark.parametrize("quantile", [0.01, 0.5, 0.99, 1.0])
def test_quantile_of_evenly_spread_times_is_exact(quantile: float) -> None:
    """1..100 ms, one request each: the q-quantile is 100 q, and interpolation is exact."""
    even = buckets(*((float(le), le) for le in (5, 20, 50, 75, 100)))
    assert interval.quantile_ms(even, quantile) == pytest.approx(100 * quantile)


def test_empty_buckets_are_stepped_over() -> None:
    found = buckets((1.0, 0), (2.0, 0), (5.0, 4), (10.0, 4))
    assert interval.quantile_ms(found, 0.5) == pytest.approx(3.5)
    assert interval.quantile_ms(found, 1.0) == 5.0


def test_interval_is_a_value() -> None:
    seen = interval.between(stats(0, 0), stats(1, 0), seconds=1.0)
    assert dataclasses.replace(seen) == seen
