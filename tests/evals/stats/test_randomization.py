"""P-values by swapping agree with the exact ones where there are any."""

import dataclasses

import numpy as np
import pytest

from evals import stats
from evals.comparison import Rates
from evals.stats import randomization
from tests.evals.stats.populations import Population


@pytest.mark.parametrize(("wins", "losses"), [(3, 3), (2, 9), (10, 30), (0, 12)])
def test_of_a_rate_it_is_the_exact_test_of_mcnemar(wins: int, losses: int) -> None:
    right = np.ones(200, dtype=bool)
    candidate, champion = right.copy(), right.copy()
    champion[:wins] = False
    candidate[wins : wins + losses] = False
    found = randomization.pvalue(Rates(candidate=candidate, champion=champion).scores, seed=1)
    exact = stats.mcnemar_pvalue(wins, losses)
    error = (exact * (1 - exact) / randomization.SWAPS) ** 0.5
    assert found == pytest.approx(exact, abs=4 * error + 1 / randomization.SWAPS)


def test_equal_answers_are_no_evidence_of_anything() -> None:
    sample = Population(n=50, changed=0.0, lost=0.0).draw(np.random.default_rng(1))
    assert randomization.pvalue(sample, seed=1) == 1.0


def test_a_lost_skill_is_beyond_chance() -> None:
    sample = Population(n=300, changed=0.3, lost=1.0).draw(np.random.default_rng(2))
    assert randomization.pvalue(sample, seed=1) == pytest.approx(1 / (1 + randomization.SWAPS))


def test_equal_models_are_called_different_as_often_as_the_level_says() -> None:
    rng = np.random.default_rng(3)
    population = Population(n=80, changed=0.3, lost=0.0)
    found = [randomization.pvalue(population.draw(rng), seed=i, swaps=199) for i in range(400)]
    called = sum(p <= 0.05 for p in found) / 400
    assert called == pytest.approx(0.05, abs=3.1 * (0.05 * 0.95 / 400) ** 0.5)


def test_there_must_be_two_models() -> None:
    sample = Population(n=50, changed=0.1, lost=0.0).draw(np.random.default_rng(1))
    with pytest.raises(ValueError, match="two models"):
        randomization.pvalue(dataclasses.replace(sample, champion=None), seed=1)
