"""Scores of one example."""

import pytest

from evals import metrics
from evals.suite import Example, SuiteKind


def test_any_reference_counts() -> None:
    assert metrics.exact_match("It rains.", ["It is raining.", "It rains."])
    assert not metrics.exact_match("It rain.", ["It is raining.", "It rains."])


@pytest.mark.parametrize("output", ["  It  rains.\n", "It\u00a0rains.", "It\trains."])
def test_white_space_is_not_a_difference(output: str) -> None:
    assert metrics.exact_match(output, ["It rains."])


def test_unicode_composition_is_not_a_difference() -> None:
    assert metrics.exact_match("cafe\u0301", ["caf\u00e9"])
    assert metrics.left_alone("cafe\u0301 ", "caf\u00e9")


@pytest.mark.parametrize("output", ["it rains.", "It rains", "It rains!", ""])
def test_case_and_punctuation_are_differences(output: str) -> None:
    assert not metrics.exact_match(output, ["It rains."])


def test_correction_suites_are_scored_by_reference_and_clean_suites_by_source() -> None:
    example = Example(id="1", source="He sings.", references=("He is singing.",))
    assert metrics.score(SuiteKind.CORRECTION, example, "He is singing.") == 1.0
    assert metrics.score(SuiteKind.CORRECTION, example, "He sings.") == 0.0
    assert metrics.score(SuiteKind.CLEAN, example, "He sings.") == 1.0
    assert metrics.score(SuiteKind.CLEAN, example, "He is singing.") == 0.0
