"""Overlapping edits of one annotator are read in ways that can be made."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from evals.m2 import Edit
from evals.metrics import readings
from tests.evals.metrics import build
from tests.evals.metrics.build import edit


def test_edits_that_do_not_overlap_have_one_reading() -> None:
    edits = (edit(0, 1, "x"), edit(1, 1, "y"), edit(1, 3, "z"), edit(3, 3, "w"))
    assert readings.readings(edits) == (edits,)
    assert readings.readings(()) == ((),)


def test_edits_on_one_span_stay_together() -> None:
    edits = (edit(1, 2, "x"), edit(1, 2, "y"), edit(2, 2, "p"), edit(2, 2, "q"))
    assert readings.readings(edits) == (edits,)


def test_a_wide_edit_or_the_narrow_ones_inside_it() -> None:
    wide, first, inside = edit(1, 4, "c b a"), edit(1, 2, "x"), edit(2, 2, "y")
    alone = edit(6, 7, "z")
    assert readings.readings((first, wide, inside, alone)) == (
        (wide, alone),
        (first, inside, alone),
    )


def test_insertion_beside_a_wide_edit_does_not_part_what_overlaps() -> None:
    before, wide, inside = edit(4, 4, ","), edit(4, 6, "b a"), edit(5, 6, "x")
    assert readings.readings((before, inside, wide)) == ((before, wide), (before, inside))


def test_each_overlap_is_decided_by_itself() -> None:
    def pair(at: int) -> tuple[Edit, Edit]:
        return edit(at, at + 2, "x"), edit(at, at + 1, "y")

    two = readings.readings((*pair(0), *pair(5)))
    assert len(two) == 4
    many = readings.readings(tuple(one for at in range(0, 50, 5) for one in pair(at)))
    assert [{one.end - one.start for one in reading} for reading in many] == [{2}, {1}]


@given(build.gold_edits(5), st.randoms(use_true_random=False))
def test_readings_hold_no_overlap_and_do_not_depend_on_order(
    edits: tuple[Edit, ...], order: random.Random
) -> None:
    found = readings.readings(edits)
    assert 1 <= len(found) <= 2**readings.MAX_CHOICES
    for reading in found:
        covered: dict[int, tuple[int, int]] = {}
        for one in reading:
            for token in range(one.start, one.end):
                assert covered.setdefault(token, (one.start, one.end)) == (one.start, one.end)
    assert {one for reading in found for one in reading} <= set(edits)
    shuffled = order.sample(edits, k=len(edits))
    assert {frozenset(one) for one in readings.readings(shuffled)} == set(map(frozenset, found))
