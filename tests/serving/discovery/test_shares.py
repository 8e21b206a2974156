"""What one model's traffic may be, and what a step of a rollout leaves of it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.discovery import shares


def traffic_of(weights: dict[int, int], mirrored: dict[int, float]) -> shares.ModelTraffic:
    return shares.ModelTraffic(
        model="m",
        weights=tuple(shares.Weight(version=v, percent=p) for v, p in weights.items()),
        mirrors=tuple(shares.Mirror(version=v, fraction=f) for v, f in mirrored.items()),
    )


@pytest.mark.parametrize("fraction", [0.0, -0.1, 1.01, 0.00009, math.nan, math.inf])
def test_fractions_out_of_range_are_refused(fraction: float) -> None:
    with pytest.raises(ValueError, match=r"must be 0\.0001 to 1"):
        shares.Mirror(version=1, fraction=fraction)


def test_a_version_may_be_mirrored_with_some_of_the_traffic_but_not_with_all() -> None:
    assert traffic_of({1: 90, 2: 10}, {2: 1.0}).mirrors
    assert traffic_of({1: 100, 2: 0}, {2: 0.1, 3: 0.1}).mirrors
    with pytest.raises(ValueError, match="version 1 of 'm' has all of the traffic"):
        traffic_of({1: 100, 2: 0}, {2: 0.1, 1: 0.1})


def test_mirrors_are_few_and_none_is_listed_twice() -> None:
    with pytest.raises(ValueError, match="4 mirrored versions at most, found 5"):
        traffic_of({1: 100}, dict.fromkeys(range(2, 7), 0.1))
    twice = (shares.Mirror(version=2, fraction=0.1),) * 2
    with pytest.raises(ValueError, match=r"versions \[2\] of 'm' are mirrored more than once"):
        shares.ModelTraffic(model="m", weights=shares.whole("m", 1).weights, mirrors=twice)


@st.composite
def splits(draw: st.DrawFn) -> dict[int, int]:
    """Shares of some of the versions 1 to 5."""
    versions = draw(st.lists(st.integers(1, 5), unique=True, min_size=1))
    cuts = [draw(st.integers(0, 100)) for _ in versions[1:]]
    lows, highs = [0, *sorted(cuts)], [*sorted(cuts), 100]
    return {v: high - low for v, low, high in zip(versions, lows, highs, strict=True)}


@given(splits(), splits(), st.dictionaries(st.integers(1, 6), st.floats(0.0001, 1), max_size=3))
def test_a_step_keeps_every_mirror_that_still_makes_sense_and_no_other(
    before: dict[int, int], step: dict[int, int], mirrored: dict[int, float]
) -> None:
    mirrored = {v: f for v, f in mirrored.items() if before.get(v) != 100}
    after = shares.after_step(traffic_of(before, mirrored), traffic_of(step, {}))
    stay = {
        version: fraction
        for version, fraction in mirrored.items()
        if step.get(version) != 100 and not (version in before and version not in step)
    }
    assert {m.version: m.fraction for m in after.mirrors} == stay
    assert {w.version: w.percent for w in after.weights} == step


def test_the_first_shares_of_a_model_have_no_mirrors() -> None:
    assert shares.after_step(None, shares.whole("m", 1)) == shares.whole("m", 1)
