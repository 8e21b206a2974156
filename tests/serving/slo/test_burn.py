"""Budgets and burn rates, against figures worked out by hand."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from serving.edge.admin import LatencyBucket
from serving.edge.interval import Interval
from serving.slo import SLO, Sli, burn
from serving.slo.burn import Severity

PROMISE = SLO(availability=0.999, latency_quantile=0.99, latency_ms=1000.0, window_days=30)
MONTH_S = 30 * 86_400.0


def interval(seconds: float, requests: int, faults: int, slow: int = 0, lost: int = 0) -> Interval:
    """`lost` is what the edge gave up on; `slow` took longer than a second."""
    fast = requests - slow - lost
    buckets = ((500.0, fast), (1000.0, fast), (2000.0, requests - lost))
    return Interval(
        seconds=seconds, requests=requests, faults=faults, timeouts=lost,
        latency=tuple(LatencyBucket(le_ms=le, count=n) for le, n in buckets),
    )  # fmt: skip


def stands(seen: Mapping[float, Interval], slo: SLO = PROMISE) -> tuple[burn.Standing, ...]:
    return burn.standings(slo, seen.get)


def test_the_pairs_use_up_the_shares_of_a_monthly_budget_that_the_workbook_says() -> None:
    shares = [pair.factor * pair.long_s / MONTH_S for pair in burn.PAIRS]
    assert shares == pytest.approx([0.02, 0.05, 0.1, 0.1])
    assert all(pair.short_s == pair.long_s / 12 for pair in burn.PAIRS)


def test_a_whole_window_at_burn_one_leaves_nothing() -> None:
    availability, _ = stands({MONTH_S: interval(MONTH_S, 1_000_000, 1000)})
    assert availability.budget_left == pytest.approx(0.0)


def test_a_young_service_has_spent_only_what_it_could() -> None:
    # A day of thirty at ten times the allowed share: a third of the budget.
    availability, _ = stands({MONTH_S: interval(86_400.0, 100_000, 1000)})
    assert availability.budget_left == pytest.approx(1 - 10 / 30)


def test_requests_that_the_edge_gave_up_on_were_too_slow() -> None:
    _, latency = stands({300.0: interval(300.0, 1000, 7, slow=13, lost=7)})
    found = latency.over(300.0)
    assert found is not None
    assert (found.requests, found.bad) == (1000, 20)
    assert found.rate == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("latency_ms", "bound_ms"), [(1000.0, 1000.0), (999.0, 800.0), (0.2, 1.0), (1e6, 60_000.0)]
)
def test_requests_are_counted_by_a_bound_that_the_histogram_has(
    latency_ms: float, bound_ms: float
) -> None:
    assert burn.latency_bound_ms(SLO(latency_ms=latency_ms)) == bound_ms


def test_what_is_not_known_is_none_and_calls_nobody() -> None:
    for standing in stands({}):
        assert standing.budget_left is None
        assert {b.rate for b in standing.burns} == {None}
        assert standing.alerts == ()


def test_without_requests_no_rate_is_made_up() -> None:
    (availability, _) = stands({300.0: interval(300.0, 0, 0), MONTH_S: interval(300.0, 0, 0)})
    found = availability.over(300.0)
    assert found is not None
    assert (found.rate, found.requests, found.seen_s) == (None, 0, 300.0)
    assert availability.budget_left is None


def test_somebody_is_called_only_where_both_windows_burn() -> None:
    hot, cool = interval(300.0, 1000, 20), interval(300.0, 1000, 1)
    both = {300.0: hot, 3600.0: interval(3600.0, 10_000, 200)}
    (availability, latency) = stands(both)
    assert [p.severity for p in availability.alerts] == [Severity.PAGE]
    assert latency.alerts == ()
    for one in (both | {300.0: cool}, {300.0: hot}):
        assert stands(one)[0].alerts == ()


def test_a_factor_is_crossed_only_above_it() -> None:
    exactly = {s: interval(s, 1_000_000, 14_400) for s in (300.0, 3600.0)}
    above = {s: interval(s, 1_000_000, 14_401) for s in (300.0, 3600.0)}
    # 1 - 0.999 is a little more than 0.001, so exactly 14.4 comes out a little below.
    assert stands(exactly)[0].alerts == ()
    assert len(stands(above)[0].alerts) == 1


def test_pairs_that_could_never_fire_are_left_out() -> None:
    loose = SLO(latency_quantile=0.9)  # at most a burn of 10
    assert [p.factor for p in burn.pairs(loose, Sli.LATENCY)] == [6.0, 3.0, 1.0]
    short = SLO(window_days=1)
    assert [p.factor for p in burn.pairs(short, Sli.AVAILABILITY)] == [14.4]
    assert max(burn.windows(short)) == 86_400.0


def test_a_part_of_a_window_does_not_speak_for_it() -> None:
    (availability, _) = stands({300.0: interval(280.0, 10, 0), 1800.0: interval(280.0, 10, 0)})
    assert [b.is_whole for b in availability.burns[:2]] == [True, False]
