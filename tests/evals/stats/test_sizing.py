"""Power and sizes: closed forms, simulation, and the two agreeing."""

import numpy as np
import pytest

from evals import stats
from evals.stats import bootstrap, exact, sizing
from evals.stats.sizing import Noise
from tests.evals.stats.populations import Population

ALPHA = 0.05


class TestPower:
    def test_required_n_is_the_published_formula(self) -> None:
        assert stats.required_n(0.05, 0.02, ALPHA, 0.8) == 773
        assert stats.required_n(0.01, 0.01, ALPHA, 0.8) == 619

    def test_exact_power_is_below_the_normal_approximation_and_near_it(self) -> None:
        exact = stats.power(773, 0.05, 0.02, ALPHA)
        assert 0.6 < exact < 0.8

    def test_power_is_the_share_of_simulated_results_that_pass(self) -> None:
        rng = np.random.default_rng(1)
        n, psi, delta = 200, 0.03, 0.04
        discordant = rng.binomial(n, psi, size=2000)
        wins = rng.binomial(discordant, 0.5)
        results = list(zip(wins.tolist(), (discordant - wins).tolist(), strict=True))
        passing = {
            result
            for result in set(results)
            if stats.noninferiority_pvalue(*result, n, delta) <= ALPHA
        }
        share = sum(result in passing for result in results) / len(results)
        assert stats.power(n, psi, delta, ALPHA) == pytest.approx(share, abs=4 * 0.5 / 2000**0.5)

    def test_power_without_discordance_is_certain_or_nil(self) -> None:
        assert stats.power(149, 0.0, 0.02, ALPHA) == 0.0
        assert stats.power(150, 0.0, 0.02, ALPHA) == 1.0

    @pytest.mark.parametrize(("n", "psi", "delta"), [(200, 0.06, 0.04), (500, 0.05, 0.02)])
    def test_the_quick_power_is_the_enumerated_one_to_about_a_point(
        self, n: int, psi: float, delta: float
    ) -> None:
        enumerated = sizing._enumerated_power(n, psi, delta, ALPHA)
        assert stats.power(n, psi, delta, ALPHA) == pytest.approx(enumerated, abs=0.015)


class TestExamplesNeeded:
    def test_reaches_the_wanted_power_and_not_much_more(self) -> None:
        n = stats.examples_needed(0.03, 0.05, ALPHA)
        assert n >= stats.required_n(0.03, 0.05, ALPHA, 0.8)
        assert stats.power(n, 0.03, 0.05, ALPHA) >= 0.8
        assert stats.power(int(n * 0.85), 0.03, 0.05, ALPHA) < 0.8

    def test_even_without_discordance_some_examples_are_needed(self) -> None:
        n = stats.examples_needed(0.0, 0.02, ALPHA)
        assert stats.noninferiority_pvalue(0, 0, n, 0.02) <= ALPHA
        assert stats.noninferiority_pvalue(0, 0, n - 1, 0.02) > ALPHA


class TestScorePower:
    def test_without_a_step_it_is_the_textbook_size(self) -> None:
        noise = Noise(spread=0.3, step=0.0)
        z = 1.6448536 + 0.8416212
        assert sizing.score_examples_needed(noise, 0.02, ALPHA, 0.8) == pytest.approx(
            z * z * 0.09 / 0.0004, abs=1
        )

    def test_without_spread_about_three_in_n_must_fit_the_margin(self) -> None:
        needed = sizing.score_examples_needed(Noise(spread=0.0, step=1.0), 0.02, ALPHA, 0.8)
        assert 3 / 0.02 < needed < 4 / 0.02

    @pytest.mark.parametrize("noise", [Noise(spread=0.3, step=0.0), Noise(spread=0.2, step=2.0)])
    def test_the_needed_number_has_the_wanted_power_and_one_less_has_not(
        self, noise: Noise
    ) -> None:
        n = sizing.score_examples_needed(noise, 0.03, ALPHA, 0.9)
        assert sizing.score_power(n, noise, 0.03, ALPHA) >= 0.9
        assert sizing.score_power(n - 1, noise, 0.03, ALPHA) < 0.9

    def test_a_margin_must_be_positive(self) -> None:
        with pytest.raises(ValueError, match="delta > 0"):
            sizing.score_examples_needed(Noise(spread=0.1, step=0.1), 0.0, ALPHA, 0.8)

    def test_equal_models_pass_as_often_as_predicted(self) -> None:
        passed, predicted = passes(Population(n=200, changed=0.3, lost=0.0), 0.05, 150)
        assert passed == pytest.approx(predicted, abs=0.15)
        assert 0.4 < predicted < 0.95

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("population", "delta"),
        [
            (Population(n=200, changed=0.3, lost=0.0), 0.05),
            (Population(n=600, changed=0.1, lost=0.0), 0.015),
            (Population(n=600, changed=0.2, lost=0.0, per_document=10), 0.03),
        ],
    )
    def test_over_a_thousand_samples_the_prediction_is_within_five_points(
        self, population: Population, delta: float
    ) -> None:
        passed, predicted = passes(population, delta, 1000)
        assert passed == pytest.approx(predicted, abs=0.05)


def passes(population: Population, delta: float, samples: int) -> tuple[float, float]:
    """Share of samples of equal models that pass, and the mean of what each predicts of it."""
    rng = np.random.default_rng(9)
    passed, predicted = [], []
    for seed in range(samples):
        found = bootstrap.estimate(population.draw(rng), alpha=ALPHA, seed=seed, resamples=400)
        passed.append(found.interval.lower > -delta)
        predicted.append(sizing.score_power(population.n, found.noise, delta, ALPHA))
    return float(np.mean(passed)), float(np.mean(predicted))


class TestLimits:
    def test_power_is_the_chance_of_few_enough(self) -> None:
        n, share, limit = 400, 0.02, 0.05
        rng = np.random.default_rng(2)
        drawn = rng.binomial(n, share, 4000)
        passes = [exact.clopper_pearson_upper(int(k), n, ALPHA) <= limit for k in drawn]
        found = sizing.limit_power(n, share, limit, ALPHA)
        assert found == pytest.approx(np.mean(passes), abs=0.03)

    def test_a_share_at_the_limit_passes_at_most_alpha_of_the_time(self) -> None:
        assert sizing.limit_power(500, 0.05, 0.05, ALPHA) <= ALPHA

    def test_too_few_to_show_anything_have_no_power(self) -> None:
        assert sizing.limit_power(20, 0.0, 0.05, ALPHA) == 0.0

    def test_the_needed_number_reaches_the_power(self) -> None:
        n = sizing.limit_examples_needed(0.02, 0.05, ALPHA, 0.8)
        assert n is not None
        assert sizing.limit_power(n, 0.02, 0.05, ALPHA) >= 0.8
        assert sizing.limit_power(n // 2, 0.02, 0.05, ALPHA) < 0.8

    def test_a_share_above_the_limit_can_never_be_shown_below_it(self) -> None:
        assert sizing.limit_examples_needed(0.05, 0.05, ALPHA, 0.8) is None
