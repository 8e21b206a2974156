"""Metrics that say yes or no of one example."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evals import metrics
from tests.evals.metrics import build

EXAMPLE = build.example("He go home .", "He goes home .", "He went home .")


def yes(name: str, output: str) -> bool:
    statistics = metrics.get(name).statistics(EXAMPLE, output)
    assert statistics in {(0.0, 1.0), (1.0, 1.0)}
    return statistics[0] == 1.0


def test_exact_is_any_reference() -> None:
    assert yes("exact", "He  went home .")
    assert not yes("exact", "He go home .")


@pytest.mark.parametrize("name", ["change_rate", "false_positive"])
def test_changed_is_other_than_the_source(name: str) -> None:
    assert yes(name, "He goes home .")
    assert not yes(name, " He go  home .\n")


@pytest.mark.parametrize(
    ("output", "is_runaway"),
    [
        ("", True),
        (" \n\u3000", True),
        ("He goes home .", False),
        ("no", False),
        ("x" * 48, False),
        ("x" * 49, True),  # twice the 14 characters of the longest accepted text, and 20
        (" ".join(["He goes home ."] * 9), True),
    ],
)
def test_blank_and_endless_outputs_are_runaway(output: str, is_runaway: bool) -> None:
    assert yes("runaway", output) is is_runaway


def test_a_blank_output_is_fine_where_the_source_is_blank() -> None:
    assert metrics.get("runaway").statistics(build.example(" "), "") == (0.0, 1.0)


def test_rates_of_sums() -> None:
    rate = metrics.get("change_rate")
    totals = np.array([[1.0, 4.0], [0.0, 3.0], [2.0, 2.0]])
    assert list(np.asarray(rate.value(totals))) == [0.25, 0.0, 1.0]


def test_a_rate_of_nothing_is_not_a_number() -> None:
    assert math.isnan(float(metrics.get("exact").value(np.zeros(2))))


def test_length_ratio_is_characters_out_per_characters_in() -> None:
    ratio = metrics.get("length_ratio")
    totals = metrics.total(ratio, [EXAMPLE, build.example("abcd")], ["He go  home .", "ab"])
    assert list(totals) == [14.0, 16.0]
    assert float(ratio.value(totals)) == 14 / 16
    assert math.isnan(float(ratio.value(np.zeros(2))))
