"""Tango's score interval."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from evals import stats

ALPHA = 0.05
counts = st.integers(1, 300).flatmap(
    lambda n: st.tuples(st.integers(0, n), st.integers(0, n), st.just(n))
).filter(lambda c: c[0] + c[1] <= c[2])  # fmt: skip


def test_without_discordance_it_has_a_closed_form() -> None:
    z = scipy_stats.norm.isf(ALPHA)
    found = stats.tango_interval(0, 0, 200, ALPHA)
    assert found.lower == pytest.approx(-(z * z) / (200 + z * z), abs=1e-6)


@given(counts)
@settings(max_examples=50, deadline=None)
def test_it_holds_the_estimate_and_stays_in_range(observed: tuple[int, int, int]) -> None:
    wins, losses, n = observed
    found = stats.tango_interval(wins, losses, n, ALPHA)
    assert -1.0 <= found.lower <= (wins - losses) / n <= found.upper <= 1.0


def test_at_the_bound_the_statistic_is_the_normal_quantile() -> None:
    """The likelihood of a loss rate q under difference d, maximized on a grid."""
    wins, losses, n = 12, 20, 300
    d = stats.tango_interval(wins, losses, n, ALPHA).lower

    def log_likelihood(q: float) -> float:
        ties = 1 - 2 * q - d
        if q + d <= 0 or ties <= 0:
            return -math.inf
        return wins * math.log(q + d) + losses * math.log(q) + (n - wins - losses) * math.log(ties)

    q = max((k / 20000 for k in range(1, 8000)), key=log_likelihood)
    statistic = (wins - losses - n * d) / math.sqrt(n * (2 * q + d * (1 - d)))
    assert statistic == pytest.approx(scipy_stats.norm.isf(ALPHA), abs=0.01)


def test_impossible_counts_are_refused() -> None:
    with pytest.raises(ValueError, match="at most n"):
        stats.tango_interval(6, 5, 10, ALPHA)
