"""Two choices obey the law of the supermarket, and the simulator that of plain queues."""

from __future__ import annotations

import pytest
from scipy import stats

from serving.simulate import supermarket, tails

# Warm-ups are six relaxation times: what is left of empty queues is 0.2 %.
SMALL = tails.TailsPlan(load=0.7, queues=100, levels=3, runs=8, warmup_s=25.0, watched_s=30.0)
LARGE = tails.TailsPlan(load=0.9, queues=400, levels=5, runs=20, warmup_s=80.0, watched_s=100.0)
ALPHA = 1e-4
"""Probability that a right program fails a test here."""


def _tolerance(plan: tails.TailsPlan) -> float:
    """z that independent runs exceed with probability ALPHA on any level: Student's t, since the
    standard error is itself estimated, and Bonferroni over levels and both sides."""
    return float(stats.t.ppf(1.0 - ALPHA / (2 * plan.levels), plan.runs - 1))


def _two_choices_agree(plan: tails.TailsPlan) -> None:
    theory = supermarket.finite_tails(plan.load, plan.queues)
    for found, expected in zip(tails.measure(plan, tails.two_choices), theory, strict=False):
        assert abs(found.z(expected)) < _tolerance(plan), found


def test_two_choices_obey_the_law() -> None:
    _two_choices_agree(SMALL)


@pytest.mark.slow
def test_two_choices_obey_the_law_at_high_load() -> None:
    _two_choices_agree(LARGE)


def test_a_random_choice_obeys_that_of_single_queues_and_breaks_the_law() -> None:
    found = tails.measure(SMALL, tails.at_random)
    for tail in found:
        assert abs(tail.z(SMALL.load**tail.at_least)) < _tolerance(SMALL), tail
    law = supermarket.finite_tails(SMALL.load, SMALL.queues)
    assert found[1].z(law[1]) > _tolerance(SMALL)


@pytest.mark.parametrize("plan", [SMALL, LARGE])
def test_warm_ups_are_long_enough(plan: tails.TailsPlan) -> None:
    assert plan.warmup_s >= 6 * supermarket.relaxation_s(plan.load)


def test_queues_that_are_nearly_full_take_long_to_settle() -> None:
    # At load 0 a queue only empties, at rate 1; close to 1 nothing holds it back.
    assert supermarket.relaxation_s(1e-6) == pytest.approx(1.0, rel=0.01)
    assert supermarket.relaxation_s(0.9) < supermarket.relaxation_s(0.95)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.9, 0.99])
def test_a_share_equal_to_the_load_is_busy_in_a_fleet_of_any_size(load: float) -> None:
    assert supermarket.finite_tails(load, 10)[0] == pytest.approx(load, abs=1e-12)


def test_a_large_fleet_has_the_law_of_an_endless_one() -> None:
    found = supermarket.finite_tails(0.9, 10**9)[:3]
    assert found == pytest.approx([0.9, 0.9**3, 0.9**7], abs=1e-7)


def test_a_small_fleet_has_longer_queues() -> None:
    finite = supermarket.finite_tails(0.9, 10)
    assert all(share >= supermarket.tail(0.9, i + 1) - 1e-12 for i, share in enumerate(finite[:5]))


def test_the_finite_correction_is_the_published_one() -> None:
    # Gast and Van Houdt: mean queue at load 0.9, the same queue may be drawn twice.
    assert sum(supermarket.finite_tails(0.9, 10**9)) == pytest.approx(2.3527, abs=1e-4)
    assert sum(supermarket.finite_tails(0.9, 10, distinct=False)) == pytest.approx(2.7513, abs=1e-4)


@pytest.mark.parametrize(("load", "queues"), [(0.0, 5), (1.0, 5), (0.5, 1)])
def test_what_has_no_steady_state_is_refused(load: float, queues: int) -> None:
    with pytest.raises(ValueError, match="load must be 0 to 1 and queues at least 2"):
        supermarket.finite_tails(load, queues)
