"""A promise judged by few requests: against exact chances, whatever the promise."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.edge.admin import LatencyBucket
from serving.edge.interval import Interval
from serving.slo import SLO, Sli, trial
from serving.slo.promise import LEAST_AVAILABILITY
from serving.slo.trial import Finding

objectives = st.floats(0.5, 0.99999)


def tried(requests: int, faults: int, availability: float) -> trial.Trial:
    seen = Interval(
        seconds=1.0, requests=requests, faults=faults,
        latency=(LatencyBucket(le_ms=50.0, count=requests),),
    )  # fmt: skip
    return trial.of(seen, SLO(availability=availability), Sli.AVAILABILITY)


def chance_of(finding: Finding, availability: float, share: float, requests: int) -> float:
    """The exact chance that a finding is ever made, looking after every request."""
    alive, found = {0: 1.0}, 0.0
    for asked in range(1, requests + 1):
        after: dict[int, float] = {}
        for bad, chance in alive.items():
            after[bad] = after.get(bad, 0.0) + chance * (1.0 - share)
            after[bad + 1] = after.get(bad + 1, 0.0) + chance * share
        alive = {}
        for bad, chance in after.items():
            if tried(asked, bad, availability).finding is finding:
                found += chance
            elif chance > 1e-15:
                alive[bad] = chance
    return found


@pytest.mark.parametrize("availability", [0.5, 0.9, 0.99, 0.999])
def test_kept_promise_is_found_broken_with_chance_alpha_at_most(availability: float) -> None:
    assert chance_of(Finding.BROKEN, availability, 1.0 - availability, 400) <= trial.ALPHA


@pytest.mark.parametrize("availability", [0.5, 0.9, 0.99, 0.999])
def test_fast_burn_is_found_kept_with_chance_beta_at_most(availability: float) -> None:
    fast = trial.fast_share(1.0 - availability)
    assert chance_of(Finding.KEPT, availability, fast, 400) <= trial.BETA


def test_no_request_says_nothing() -> None:
    found = tried(0, 0, 0.999)
    assert (found.finding, found.log_ratio, found.rate) == (Finding.LIKELY, 0.0, None)


@given(availability=objectives, requests=st.integers(1, 10_000))
def test_one_fault_is_never_enough(availability: float, requests: int) -> None:
    assert tried(requests, 1, availability).finding is not Finding.BROKEN


@given(availability=st.floats(0.97, 0.99999))
def test_two_faults_of_three_requests_are_enough(availability: float) -> None:
    assert tried(3, 2, availability).finding is Finding.BROKEN


@given(availability=objectives)
def test_fast_is_faster_than_promised_and_less_than_all(availability: float) -> None:
    budget = 1.0 - availability
    assert budget < trial.fast_share(budget) < 1.0


@given(availability=objectives)
def test_so_many_without_a_fault_show_it_and_one_fewer_do_not(availability: float) -> None:
    enough = tried(0, 0, availability).to_show
    assert tried(enough, 0, availability).finding is Finding.KEPT
    assert tried(enough - 1, 0, availability).finding is Finding.LIKELY


@pytest.mark.parametrize("availability", [LEAST_AVAILABILITY, math.nextafter(1.0, 0.0)])
def test_promises_at_the_ends_of_what_can_be_promised_are_judged_too(availability: float) -> None:
    assert tried(0, 0, availability).finding is Finding.LIKELY
    assert tried(10**18, 0, availability).finding is Finding.KEPT
    assert tried(10**18, 10**18, availability).finding is Finding.BROKEN


@pytest.mark.parametrize("change", [lambda n, b: (n + 1, b + 1), lambda n, b: (n, b + 1)])
@given(availability=objectives, requests=st.integers(1, 10_000), share=st.floats(0, 0.99))
def test_a_fault_more_speaks_against_it(
    change: Callable[[int, int], tuple[int, int]], availability: float, requests: int, share: float
) -> None:
    bad = math.floor(share * requests)
    before = tried(requests, bad, availability).log_ratio
    assert tried(*change(requests, bad), availability).log_ratio > before
