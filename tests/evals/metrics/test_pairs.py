"""Minimal pairs: the more probable sentence is the answer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evals import errors, metrics
from evals.metrics import pairs
from tests.evals.metrics import build

PAIR = build.example("Cats sleep .", contrast="Cats sleeps .")
ACCURACY = metrics.get("pair_accuracy")


@pytest.mark.parametrize(
    ("source", "contrast", "preferred", "right"),
    [
        (-10.5, -11.0, "Cats sleep .", 1.0),
        (-11.0, -10.5, "Cats sleeps .", 0.0),
        (-10.5, -10.5, "", 0.0),
        (-10.5, -math.inf, "Cats sleep .", 1.0),
    ],
)
def test_preferred_sentence_is_the_outcome(
    source: float, contrast: float, preferred: str, right: float
) -> None:
    assert pairs.preferred(PAIR, source, contrast) == preferred
    assert ACCURACY.statistics(PAIR, preferred) == (right, 1.0)
    assert pairs.statistics(source, contrast) == (right, 1.0)


def test_accuracy_is_the_share_of_right_pairs() -> None:
    outputs = [pairs.preferred(PAIR, *sums) for sums in [(-1.0, -2.0), (-2.0, -1.0), (-1.0, -3.0)]]
    totals = metrics.total(ACCURACY, [PAIR] * 3, outputs)
    assert float(ACCURACY.value(totals)) == pytest.approx(2 / 3)
    assert ACCURACY.is_rate
    assert list(totals) == list(np.sum([(1, 1), (0, 1), (1, 1)], axis=0))


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'e1'.*nan"):
        pairs.preferred(PAIR, math.nan, -1.0)


def test_an_example_without_contrast_is_refused() -> None:
    with pytest.raises(errors.SuiteInvalid, match="'e1' is no minimal pair"):
        ACCURACY.statistics(build.example("a"), "a")
