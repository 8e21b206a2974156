"""The interval is checked against enumeration, closed forms and an independent approximation."""

import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize
from scipy import stats as scipy_stats

from evals import stats
from evals.stats import exact

ALPHA = 0.05


@st.composite
def counts(draw: st.DrawFn, largest_n: int = 250) -> tuple[int, int, int]:
    n = draw(st.integers(1, largest_n))
    discordant = draw(st.integers(0, n))
    wins = draw(st.integers(0, discordant))
    return wins, discordant - wins, n


def trinomial_pmf(n: int, p_win: float, p_loss: float) -> dict[tuple[int, int], float]:
    ties = 1.0 - p_win - p_loss
    return {
        (w, losses): math.comb(n, w)
        * math.comb(n - w, losses)
        * p_win**w
        * p_loss**losses
        * ties ** (n - w - losses)
        for w in range(n + 1)
        for losses in range(n - w + 1)
    }


def tango_lower(wins: int, losses: int, n: int, alpha: float) -> float:
    """Tango (1998), Stat. Med. 17, 891-908: the score interval, solved numerically."""
    z = scipy_stats.norm.isf(alpha)

    def excess(d: float) -> float:
        b = -wins - losses + (2 * n - wins + losses) * d
        c = -losses * d * (1 - d)
        q = (math.sqrt(max(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
        variance = n * (2 * q + d * (1 - d))
        return float((wins - losses - n * d) / math.sqrt(max(variance, 1e-300)) - z)

    return float(optimize.brentq(excess, -1 + 1e-9, (wins - losses) / n - 1e-9))


class TestClopperPearson:
    def test_agrees_with_the_rule_of_the_binomial_tail(self) -> None:
        for successes, n in [(1, 10), (95, 100), (398, 400)]:
            lower = stats.clopper_pearson_lower(successes, n, ALPHA)
            upper = stats.clopper_pearson_upper(successes, n, ALPHA)
            assert scipy_stats.binom.sf(successes - 1, n, lower) == pytest.approx(ALPHA)
            assert scipy_stats.binom.cdf(successes, n, upper) == pytest.approx(ALPHA)

    def test_all_right_has_the_closed_form(self) -> None:
        assert stats.clopper_pearson_lower(100, 100, ALPHA) == pytest.approx(ALPHA ** (1 / 100))
        assert stats.clopper_pearson_upper(100, 100, ALPHA) == 1.0

    def test_none_right_has_the_closed_form(self) -> None:
        assert stats.clopper_pearson_upper(0, 100, ALPHA) == pytest.approx(1 - ALPHA ** (1 / 100))
        assert stats.clopper_pearson_lower(0, 100, ALPHA) == 0.0

    def test_impossible_counts_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at most n"):
            stats.clopper_pearson_lower(11, 10, ALPHA)


class TestPairedDifferenceInterval:
    @pytest.mark.parametrize("n", [3, 7, 12])
    def test_each_bound_is_wrong_at_most_alpha_of_the_time(self, n: int) -> None:
        """Full enumeration of every result at n, over a grid of true probabilities."""
        lower = {
            (w, losses): stats.paired_difference_interval(w, losses, n, ALPHA).lower
            for w in range(n + 1)
            for losses in range(n - w + 1)
        }
        shares = np.linspace(0.0, 1.0, 21)
        for p_win, p_loss in itertools.product(shares, shares):
            if p_win + p_loss > 1.0 + 1e-12:
                continue
            d = p_win - p_loss
            pmf = trinomial_pmf(n, p_win, min(p_loss, 1.0 - p_win))
            missed = sum(chance for key, chance in pmf.items() if lower[key] > d + 1e-12)
            assert missed <= ALPHA + 1e-9, (p_win, p_loss)

    def test_the_chance_of_a_region_is_the_sum_over_its_results(self) -> None:
        n, d = 12, -0.13
        counts = np.array([[w, losses] for w in range(n + 1) for losses in range(n - w + 1)], float)
        least = float(exact.score(counts[:, 0], counts[:, 1], n, d)[40])
        region = exact.Region.of(least, n, d, (0.13, 1.0))
        for psi in (0.13, 0.3, 0.77, 1.0):
            pmf = trinomial_pmf(n, (psi + d) / 2, (psi - d) / 2)
            scores = exact.score(counts[:, 0], counts[:, 1], n, d)
            direct = sum(
                pmf[int(w), int(losses)]
                for (w, losses), found in zip(counts, scores, strict=True)
                if found >= least - 1e-9
            )
            assert region.chance(np.array([psi]))[0] == pytest.approx(direct, abs=1e-9)

    @given(st.integers(2, 200), st.floats(-0.5, -0.001), st.data())
    @settings(max_examples=40, deadline=None)
    def test_the_score_rises_with_wins_and_falls_with_losses(
        self, n: int, d: float, data: st.DataObject
    ) -> None:
        """What makes the p-value at the margin hold for all larger losses too."""
        wins = data.draw(st.integers(0, n - 1))
        losses = data.draw(st.integers(0, n - 1 - wins))
        here, won, lost = (
            float(exact.score(np.array([w], float), np.array([x], float), n, d)[0])
            for w, x in ((wins, losses), (wins + 1, losses), (wins, losses + 1))
        )
        assert lost <= here + 1e-9
        assert here <= won + 1e-9

    def test_upper_is_the_mirror_of_lower(self) -> None:
        one = stats.paired_difference_interval(7, 12, 300, ALPHA)
        other = stats.paired_difference_interval(12, 7, 300, ALPHA)
        assert one.upper == pytest.approx(-other.lower)
        assert one.lower == pytest.approx(-other.upper)

    @given(counts())
    @settings(max_examples=12, deadline=None)
    def test_holds_the_observed_difference(self, observed: tuple[int, int, int]) -> None:
        wins, losses, n = observed
        interval = stats.paired_difference_interval(wins, losses, n, ALPHA)
        assert -1.0 <= interval.lower <= (wins - losses) / n <= interval.upper <= 1.0

    @given(counts())
    @settings(max_examples=12, deadline=None)
    def test_a_loss_turned_into_a_win_never_lowers_a_bound(
        self, observed: tuple[int, int, int]
    ) -> None:
        wins, losses, n = observed
        assume(losses > 0)
        before = stats.paired_difference_interval(wins, losses, n, ALPHA)
        after = stats.paired_difference_interval(wins + 1, losses - 1, n, ALPHA)
        assert after.lower >= before.lower - 1e-7
        assert after.upper >= before.upper - 1e-7

    @given(counts())
    @settings(max_examples=12, deadline=None)
    def test_a_tie_turned_into_a_loss_never_raises_the_lower_bound(
        self, observed: tuple[int, int, int]
    ) -> None:
        wins, losses, n = observed
        assume(wins + losses < n)
        before = stats.paired_difference_interval(wins, losses, n, ALPHA).lower
        after = stats.paired_difference_interval(wins, losses + 1, n, ALPHA).lower
        assert after <= before + 1e-7

    @pytest.mark.parametrize(("n", "delta"), [(140, 0.02), (155, 0.02), (1010, 0.003)])
    def test_without_discordance_the_chance_of_no_loss_decides(self, n: int, delta: float) -> None:
        """Nothing is as good as no loss but more wins than losses; the worst case has no wins.

        At psi = delta the chance is (1 - delta)^n; the 3 of "3 / n" is -log(alpha).
        """
        passes = (1 - delta) ** n + stats.NUISANCE_GAMMA <= ALPHA
        lower = stats.paired_difference_interval(0, 0, n, ALPHA).lower
        assert (lower > -delta) == passes

    @pytest.mark.parametrize(
        ("wins", "losses", "n"),
        [(0, 0, 400), (10, 14, 1500), (30, 40, 1500), (75, 75, 1500), (120, 60, 2000)],
    )
    def test_is_as_short_as_the_score_interval(self, wins: int, losses: int, n: int) -> None:
        """Tango's holds its level on average, ours always; the price is half an example."""
        exact_lower = stats.paired_difference_interval(wins, losses, n, ALPHA).lower
        tango = tango_lower(wins, losses, n, ALPHA)
        assert abs(tango - exact_lower) <= 0.5 / n

    def test_takes_a_fraction_of_a_second_at_5000_examples(self) -> None:
        stats.paired_difference_interval(1, 1, 10, ALPHA)
        start = time.process_time()
        for wins, losses in [(0, 0), (20, 35), (250, 250), (10, 4700)]:
            stats.paired_difference_interval(wins, losses, 5000, ALPHA)
        assert (time.process_time() - start) / 4 < 0.25

    def test_gamma_must_leave_room_for_alpha(self) -> None:
        with pytest.raises(ValueError, match="gamma < alpha"):
            stats.paired_difference_interval(1, 1, 10, 0.001)

    def test_impossible_counts_are_refused(self) -> None:
        with pytest.raises(ValueError, match="at most n"):
            stats.paired_difference_interval(6, 5, 10, ALPHA)


class TestNoninferiority:
    @given(counts(), st.sampled_from([0.01, 0.02, 0.05, 0.2]))
    @settings(max_examples=12, deadline=None)
    def test_pvalue_and_interval_decide_alike(
        self, observed: tuple[int, int, int], delta: float
    ) -> None:
        lower = stats.paired_difference_interval(*observed, ALPHA).lower
        assume(abs(lower + delta) > 1e-7)
        assert (stats.noninferiority_pvalue(*observed, delta) <= ALPHA) == (lower > -delta)

    def test_pvalue_and_interval_decide_alike_on_the_smallest_suites(self) -> None:
        """Every result of up to 6 examples: bounds far from the estimate are searched for too."""
        for n in range(1, 7):
            for wins in range(n + 1):
                for losses in range(n + 1 - wins):
                    lower = stats.paired_difference_interval(wins, losses, n, ALPHA).lower
                    for delta in (0.05, 0.2, 0.5, 0.9):
                        pvalue = stats.noninferiority_pvalue(wins, losses, n, delta)
                        assert (pvalue <= ALPHA) == (lower > -delta), (wins, losses, n, delta)


class TestErrorRate:
    @pytest.mark.parametrize(("n", "psi"), [(120, 0.06), (80, 0.3), (300, 0.04)])
    def test_a_candidate_at_the_margin_passes_at_most_alpha_of_the_time(
        self, n: int, psi: float
    ) -> None:
        """No simulation: the chances of all results that pass, the true loss being the margin."""
        delta = 0.04
        reached = 0.0
        for losses in range(n + 1):
            chance = float(scipy_stats.binom.pmf(losses, n, (psi + delta) / 2))
            if chance < 1e-9:
                continue
            wins = np.arange(0, n - losses + 1)
            win_share = (psi - delta) / 2 / (1 - (psi + delta) / 2)
            chances = chance * scipy_stats.binom.pmf(wins, n - losses, win_share)
            # More wins never hurt, so those that pass are the upper ones.
            low, high = -1, n - losses + 1
            while high - low > 1:
                middle = (low + high) // 2
                passes = exact.shows_noninferiority(middle, losses, n, delta, ALPHA)
                low, high = (low, middle) if passes else (middle, high)
            reached += float(chances[high:].sum())
        assert 0.0 < reached <= ALPHA

    def test_over_a_thousand_simulated_regressions_at_the_margin(self) -> None:
        rng = np.random.default_rng(5)
        n, psi, delta = 400, 0.08, 0.03
        drawn = rng.multinomial(n, [(psi - delta) / 2, (psi + delta) / 2, 1 - psi], size=2000)
        results = [(int(w), int(losses)) for w, losses, _ in drawn]
        passing = {r for r in set(results) if exact.shows_noninferiority(*r, n, delta, ALPHA)}
        passed = sum(r in passing for r in results) / len(results)
        assert 0.01 < passed <= ALPHA + 3.1 * (ALPHA * (1 - ALPHA) / 2000) ** 0.5


class TestMcNemar:
    def test_only_losses_have_a_closed_form(self) -> None:
        assert stats.mcnemar_pvalue(0, 5) == pytest.approx(2 * 0.5**5)
        assert stats.mcnemar_pvalue(0, 0) == stats.mcnemar_pvalue(4, 4) == 1.0

    @given(st.integers(0, 40), st.integers(0, 40))
    @settings(deadline=None)
    def test_the_models_may_be_exchanged(self, wins: int, losses: int) -> None:
        one, other = stats.mcnemar_pvalue(wins, losses), stats.mcnemar_pvalue(losses, wins)
        assert one == pytest.approx(other)
        assert 0.0 < one <= 1.0
