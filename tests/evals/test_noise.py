"""The noise floor of a model against itself."""

import dataclasses

import pytest

from evals import stats
from evals.errors import EvidenceMismatch
from evals.noise import noise_floor
from tests.evals import build

SUITE = build.corpus(200)


def test_two_equal_runs_have_an_upper_bound_only() -> None:
    run = build.texts(SUITE, build.fixed_but(SUITE, set()))
    found = noise_floor(run, run)
    assert (found.n, found.differing, found.flips) == (200, 0, 0)
    assert found.interval.lower == 0.0
    assert found.interval.upper == pytest.approx(stats.clopper_pearson_upper(0, 200, 0.05))


def test_outputs_that_differ_are_counted_apart_from_answers_that_change_sides() -> None:
    outputs = build.fixed_but(SUITE, {1, 2, 3})
    first = build.texts(SUITE, outputs)
    other = [text + " too" if i in (1, 2) else text for i, text in enumerate(outputs)]
    other[5] = SUITE.examples[5].source
    other[6] = "  " + other[6].replace(" ", "  ")
    found = noise_floor(first, build.texts(SUITE, other))
    assert (found.differing, found.flips) == (3, 1)
    assert "of 200 outputs of the same model, 3 differ between two runs, 1.5 %" in found.sentence
    assert "1 change sides" in found.sentence


def test_runs_of_two_models_are_no_noise() -> None:
    run = build.texts(SUITE, build.fixed_but(SUITE, set()))
    other = dataclasses.replace(run, checkpoint_digest=build.CHAMPION)
    with pytest.raises(EvidenceMismatch, match="two runs of one model"):
        noise_floor(run, other)
    with pytest.raises(EvidenceMismatch, match="two runs of one model"):
        noise_floor(run, dataclasses.replace(run, outcomes=run.outcomes[::-1]))
