"""Intervals of speed: closed forms, what drifts for everybody, coverage."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.pace import Turn, averaged, paces


def turns(arm: str, seconds: list[float], busy: float = 0.5) -> list[Turn]:
    return [
        Turn(arm=arm, round=n, requests=64, wall_s=s, busy_s=busy) for n, s in enumerate(seconds)
    ]


def test_an_interval_is_students_on_the_logarithms() -> None:
    found = averaged([1.0, math.e, math.e**2])
    half = 4.302652729911275 / math.sqrt(3)  # t of 2 degrees of freedom at 97.5 %; spread 1
    assert found.value == pytest.approx(math.e)
    assert found.lower == pytest.approx(math.exp(1 - half))
    assert found.upper == pytest.approx(math.exp(1 + half))


def test_a_drift_of_the_whole_machine_leaves_the_ratio_exact() -> None:
    drift = [1.0, 3.0, 0.5, 2.0]
    found = paces([*turns("parent", drift), *turns("v", [d / 2 for d in drift])], "parent")
    speedup = found["v"].speedup
    assert (speedup.lower, speedup.upper) == (pytest.approx(2.0), pytest.approx(2.0))
    assert speedup.is_above_one
    assert found["v"].requests_per_s.upper > 2 * found["v"].requests_per_s.lower
    assert found["parent"].speedup.value == 1.0
    assert not found["parent"].speedup.is_above_one
    assert found["v"].busy_ms_per_request.value == pytest.approx(1000 * 0.5 / 64)


def test_more_models_make_wider_intervals() -> None:
    mine = turns("a", [1.0, 1.1, 0.9])
    other = turns("parent", [1.0, 0.9, 1.1])
    few = paces([*other, *mine], "parent")["a"].speedup
    many = paces([*other, *mine, *turns("b", [1.0, 1.0, 1.1])], "parent")["a"].speedup
    assert many.lower < few.lower
    assert many.value == pytest.approx(few.value)


@pytest.mark.parametrize(
    ("given_turns", "said"),
    [
        (turns("parent", [1.0, 1.0]), "3 rounds or more, got 2"),
        ([*turns("parent", [1.0] * 3), *turns("a", [1.0] * 2)], "one turn in each round"),
        (turns("a", [1.0] * 3), "parent included"),
    ],
)
def test_turns_that_do_not_compare_are_refused(given_turns: list[Turn], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        paces(given_turns, "parent")


@given(st.lists(st.floats(0.01, 100.0), min_size=3, max_size=9))
def test_the_value_lies_inside_and_the_order_does_not_matter(values: list[float]) -> None:
    found = averaged(values)
    assert found.lower <= found.value * (1 + 1e-12)
    assert found.value <= found.upper * (1 + 1e-12)
    again = averaged(values[::-1])
    assert again.value == pytest.approx(found.value)
    assert again.upper == pytest.approx(found.upper)


def test_equal_models_are_called_faster_as_seldom_as_said() -> None:
    rng = random.Random(1)
    runs, called = 1000, 0
    for _ in range(runs):
        drawn = {
            arm: turns(arm, [math.exp(rng.gauss(0, 0.2)) for _ in range(7)])
            for arm in ("parent", "a", "b", "c")
        }
        found = paces([t for of in drawn.values() for t in of], "parent")
        called += any(found[arm].speedup.is_above_one for arm in ("a", "b", "c"))
    # One-sided 2.5 % for all together; three standard deviations of the count above it.
    assert called / runs <= 0.025 + 3 * math.sqrt(0.025 * 0.975 / runs)
