"""Answers that changed between two models."""

from __future__ import annotations

import numpy as np
import pytest

from evals import metrics
from evals.metrics import flips
from evals.suite import SuiteKind
from tests.evals.metrics import build

EXAMPLES = [build.example("a b", "a c", "a d") for _ in range(5)]
CHAMPION = ["a c", "a c", "a b", "a b", "a x"]
CANDIDATE = ["a  c", "a d", "a c", "a b", "a y"]


def test_counts_changed_lost_and_gained() -> None:
    found = flips.compare(SuiteKind.CORRECTION, EXAMPLES, CANDIDATE, CHAMPION)
    assert found == flips.Flips(examples=5, changed=3, lost=0, gained=1)
    back = flips.compare(SuiteKind.CORRECTION, EXAMPLES, CHAMPION, CANDIDATE)
    assert back == flips.Flips(examples=5, changed=3, lost=1, gained=0)


def test_right_is_decided_by_the_kind_of_suite() -> None:
    found = flips.compare(SuiteKind.CLEAN, EXAMPLES, CANDIDATE, CHAMPION)
    assert found == flips.Flips(examples=5, changed=3, lost=1, gained=0)


def test_statistics_are_those_of_a_rate() -> None:
    statistics = flips.statistics(CANDIDATE, CHAMPION)
    assert statistics.tolist() == [[0, 1], [1, 1], [1, 1], [0, 1], [1, 1]]
    assert float(metrics.get("change_rate").value(statistics.sum(axis=0))) == 0.6


def test_a_model_against_itself_does_not_flip() -> None:
    found = flips.compare(SuiteKind.CORRECTION, EXAMPLES, CHAMPION, CHAMPION)
    assert (found.changed, found.lost, found.gained) == (0, 0, 0)
    assert flips.statistics([], []).shape == (0, 2)
    assert np.isnan(float(metrics.get("exact").value(flips.statistics([], []).sum(axis=0))))


def test_answers_of_other_suites_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        flips.statistics(["a"], [])
    with pytest.raises(ValueError, match="shorter"):
        flips.compare(SuiteKind.CLEAN, EXAMPLES, CANDIDATE, CHAMPION[:4])
