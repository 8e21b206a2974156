"""Bounds of corpus scores: symmetric, repeatable, and wrong no more often than they may be."""

import dataclasses

import numpy as np
import pytest

from evals import stats
from evals.comparison import Rates
from evals.stats import bootstrap
from evals.stats.bootstrap import estimate
from evals.stats.sample import Scores
from tests.evals.stats.populations import Population

ALPHA = 0.05
SPARSE = Population(n=100, changed=0.02, lost=1.0)
"""Few examples change and all of them are lost: one sample in seven holds none."""
USUAL = Population(n=300, changed=0.1, lost=0.3)
DENSE = Population(n=300, changed=0.4, lost=0.1)
DOCUMENTS = Population(n=300, changed=0.2, lost=0.2, per_document=10)
GATHERED = Population(n=500, changed=0.05, lost=1.0, per_document=10)
FEW_DOCUMENTS = Population(n=200, changed=0.1, lost=0.5, per_document=10)


def wrong_share(population: Population, samples: int, *, suppose_unseen: bool = True) -> float:
    """How often a candidate exactly at the margin is found to be within it."""
    rng = np.random.default_rng(7)
    wrong = 0
    for seed in range(samples):
        found = estimate(
            population.draw(rng),
            alpha=ALPHA,
            seed=seed,
            resamples=400,
            suppose_unseen=suppose_unseen,
        )
        wrong += found.interval.lower > population.difference
    return wrong / samples


def allowed(samples: int) -> float:
    """The level and what chance may add to it in one of a thousand such tests."""
    return ALPHA + 3.1 * (ALPHA * (1 - ALPHA) / samples) ** 0.5


def rates(wins: int, losses: int, n: int) -> Scores:
    right = np.ones(n, dtype=bool)
    candidate, champion = right.copy(), right.copy()
    champion[:wins] = False
    candidate[wins : wins + losses] = False
    return Rates(candidate=candidate, champion=champion).scores


class TestErrorRate:
    @pytest.mark.parametrize(("population", "samples"), [(SPARSE, 150), (FEW_DOCUMENTS, 200)])
    def test_a_candidate_at_the_margin_seldom_passes(
        self, population: Population, samples: int
    ) -> None:
        assert wrong_share(population, samples) <= allowed(samples)

    def test_without_the_unseen_unit_it_would_pass_far_too_often(self) -> None:
        assert wrong_share(SPARSE, 120, suppose_unseen=False) > 2 * ALPHA

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "population", [SPARSE, USUAL, DENSE, DOCUMENTS, GATHERED, FEW_DOCUMENTS]
    )
    def test_over_a_thousand_regressions_at_the_margin(self, population: Population) -> None:
        assert wrong_share(population, 1200) <= allowed(1200)

    @pytest.mark.slow
    @pytest.mark.parametrize("population", [USUAL, DENSE, DOCUMENTS])
    def test_both_bounds_together_cover_the_truth(self, population: Population) -> None:
        rng = np.random.default_rng(11)
        covered = 0
        for seed in range(1000):
            found = estimate(population.draw(rng), alpha=ALPHA, seed=seed, resamples=400).interval
            covered += found.lower <= population.difference <= found.upper
        assert covered / 1000 >= 1 - 2 * allowed(1000)


class TestShape:
    def test_equal_evidence_gives_equal_bounds(self) -> None:
        sample = USUAL.draw(np.random.default_rng(1))
        assert estimate(sample, alpha=ALPHA, seed=3) == estimate(sample, alpha=ALPHA, seed=3)
        assert estimate(sample, alpha=ALPHA, seed=3) != estimate(sample, alpha=ALPHA, seed=4)

    def test_exchanging_the_models_turns_the_interval_around(self) -> None:
        sample = DOCUMENTS.draw(np.random.default_rng(2))
        assert sample.champion is not None
        turned = dataclasses.replace(sample, candidate=sample.champion, champion=sample.candidate)
        one = estimate(sample, alpha=ALPHA, seed=1, resamples=500)
        other = estimate(turned, alpha=ALPHA, seed=1, resamples=500)
        assert one.estimate == pytest.approx(-other.estimate)
        assert one.interval.lower == pytest.approx(-other.interval.upper)
        assert one.interval.upper == pytest.approx(-other.interval.lower)

    @pytest.mark.parametrize(("wins", "losses"), [(0, 0), (5, 9), (40, 60), (0, 30)])
    def test_of_a_rate_it_agrees_with_the_exact_bounds(self, wins: int, losses: int) -> None:
        """Within five examples: the exact bounds suppose the worst discordance besides."""
        exact = stats.paired_difference_interval(wins, losses, 500, ALPHA)
        found = estimate(rates(wins, losses, 500), alpha=ALPHA, seed=1).interval
        assert found.lower == pytest.approx(exact.lower, abs=5 / 500)
        assert found.upper == pytest.approx(exact.upper, abs=5 / 500)

    def test_nothing_lost_among_n_allows_for_three_in_n(self) -> None:
        found = estimate(rates(0, 0, 1000), alpha=ALPHA, seed=1).interval
        assert found.lower == pytest.approx(-3 / 1000, rel=0.02)
        assert found.upper == pytest.approx(3 / 1000, rel=0.02)

    def test_documents_that_go_together_widen_the_bounds(self) -> None:
        sample = GATHERED.draw(np.random.default_rng(3))
        together = estimate(sample, alpha=ALPHA, seed=1)
        apart = estimate(dataclasses.replace(sample, clusters=None), alpha=ALPHA, seed=1)
        assert together.units == 50
        assert apart.units == 500
        assert together.interval.lower < apart.interval.lower - 0.005

    def test_one_document_cannot_be_resampled(self) -> None:
        sample = dataclasses.replace(
            USUAL.draw(np.random.default_rng(4)), clusters=np.zeros(300, dtype=np.intp)
        )
        with pytest.raises(ValueError, match="at least 2 units, got 1"):
            estimate(sample, alpha=ALPHA, seed=1)

    def test_one_model_alone_has_bounds_too(self) -> None:
        sample = dataclasses.replace(USUAL.draw(np.random.default_rng(5)), champion=None)
        found = estimate(sample, alpha=ALPHA, seed=1)
        assert found.estimate == pytest.approx(sample.candidate_value)
        assert 0.0 < found.interval.lower < found.estimate < found.interval.upper < 1.0

    def test_a_resample_without_a_value_counts_as_the_worst(self) -> None:
        """Two of three examples have nothing to divide by; some resamples hold only those."""
        rows = np.array([[1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])

        def value(totals: np.ndarray) -> np.ndarray:
            with np.errstate(invalid="ignore"):
                return np.asarray(totals[..., 0] / totals[..., 1])

        sample = Scores(candidate=rows, champion=rows, lost=rows * [0.0, 1.0], value=value)
        found = estimate(sample, alpha=ALPHA, seed=1, resamples=200)
        assert found.interval.lower == -1.0
        assert found.interval.upper == 1.0


def test_seeds_depend_on_every_part() -> None:
    parts = [("a", "b"), ("a", "c"), ("ab",), ("b", "a")]
    assert len({bootstrap.seed_of(*part) for part in parts}) == len(parts)
