"""The pick of a sweep and the front, as pure functions."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.pace import Measured
from evals.verdict import GateStatus
from pipelines.pick import Candidate, front, pareto, pick
from pipelines.recipe import Aim

PARENT_BYTES = 1000


def candidate(
    name: str, value: float, *, half: float = 0.05, size: int = 600,
    status: GateStatus | None = GateStatus.PASS,
) -> Candidate:  # fmt: skip
    speed = Measured(value=value, lower=value - half, upper=value + half)
    return Candidate(name=name, status=status, speedup=speed, size_bytes=size, quality_points=0.0)


def picked(found: list[Candidate], aim: Aim = Aim.THROUGHPUT) -> str | None:
    return pick(found, aim, parent_bytes=PARENT_BYTES).name


def test_the_fastest_that_passes_is_picked() -> None:
    found = [
        candidate("fast but worse", 2.0, status=GateStatus.FAIL),
        candidate("undecided", 1.9, status=GateStatus.UNDERPOWERED),
        candidate("good", 1.5),
        candidate("slower", 1.2),
    ]
    assert picked(found) == "good"


def test_one_not_measurably_faster_is_not_picked_unless_memory_is_the_aim() -> None:
    found = [candidate("a", 1.04), candidate("b", 0.5, size=500)]
    answer = pick(found, Aim.THROUGHPUT, parent_bytes=PARENT_BYTES)
    assert answer.name is None
    assert "none is measurably faster than its parent; the fastest, a," in answer.reason
    memory = pick(found, Aim.MEMORY, parent_bytes=PARENT_BYTES)
    assert memory.name == "b"
    assert memory.reason.endswith("taken for its size, not its speed")


def test_what_is_not_smaller_is_not_picked_for_memory() -> None:
    answer = pick([candidate("a", 2.0, size=1000)], Aim.MEMORY, parent_bytes=PARENT_BYTES)
    assert answer.name is None
    assert "none is smaller" in answer.reason


@pytest.mark.parametrize("aim", list(Aim))
def test_nothing_passes_nothing_is_picked(aim: Aim) -> None:
    found = [
        candidate("a", 2.0, status=GateStatus.FAIL),
        candidate("b", 2.0, status=GateStatus.UNDERPOWERED),
        candidate("c", 2.0, status=None),
    ]
    answer = pick(found, aim, parent_bytes=PARENT_BYTES)
    assert answer.name is None
    assert answer.reason == "no variant passes the gate: 1 failed, 1 could not be decided"


def test_what_was_not_measured_is_not_picked_for_speed() -> None:
    assert picked([dataclasses.replace(candidate("a", 2.0), speedup=None)]) is None


candidates = st.lists(
    st.builds(
        candidate,
        st.text("abcdef", min_size=1, max_size=3),
        st.floats(0.2, 4.0),
        half=st.floats(0.0, 0.15),
        size=st.integers(1, 2000),
        status=st.sampled_from([*GateStatus, None]),
    ),
    max_size=8,
    unique_by=lambda c: c.name,
)


@given(candidates, st.sampled_from(list(Aim)))
def test_whatever_is_picked_passes_and_nothing_that_qualifies_beats_it(
    found: list[Candidate], aim: Aim
) -> None:
    by_name = {c.name: c for c in found}
    name = picked(found, aim)
    ok = [c for c in found if c.status is GateStatus.PASS and c.speedup is not None]
    if aim is Aim.MEMORY:
        ok = [c for c in ok if c.size_bytes < PARENT_BYTES]
    else:
        ok = [c for c in ok if c.speedup is not None and c.speedup.lower > 1.0]
    assert (name is None) == (not ok)
    if name is not None:
        best = by_name[name]
        assert best in ok
        for other in ok:
            assert best.speedup is not None
            assert other.speedup is not None
            if aim is Aim.MEMORY:
                assert best.size_bytes <= other.size_bytes
            else:
                assert best.speedup.value >= other.speedup.value
    assert picked(found[::-1], aim) == name


points = st.lists(st.tuples(*[st.integers(0, 4)] * 3), max_size=12)


@given(points)
def test_the_front_is_what_nothing_beats_and_beats_all_the_rest(
    found: list[tuple[int, int, int]],
) -> None:
    def beats(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
        return a != b and all(x >= y for x, y in zip(a, b, strict=True))

    on = [found[i] for i in front(found)]
    assert (not found) == (not on)
    for point in found:
        assert (point in on) == (not any(beats(other, point) for other in found))
        assert point in on or any(beats(other, point) for other in on)


def test_points_of_different_kinds_have_no_front() -> None:
    with pytest.raises(ValueError, match="argument"):
        front([(1.0, 2.0), (1.0,)])


def test_the_front_of_variants_weighs_speed_size_and_quality() -> None:
    found = [
        candidate("fast", 2.0, size=900),
        candidate("small", 1.0, size=500),
        candidate("beaten", 0.9, size=900),
        dataclasses.replace(candidate("good", 0.5, size=1000), quality_points=3.0),
        dataclasses.replace(candidate("unmeasured", 9.0), quality_points=None),
    ]
    assert pareto(found) == {"fast", "small", "good"}
