"""Exact statistics of paired right-or-wrong outcomes.

The one idea: of n examples answered by both models only the discordant ones carry information.
With W examples that only the candidate got right and L that only the champion got right, the chance
of every result (W, L) can be computed for any truth, not approximated. Suites hold hundreds of
examples and good models differ on a handful; there normal approximations are wrong by more than the
margins they are asked about.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

from evals.stats.interval import Interval

NUISANCE_GAMMA = 0.001
"""Error spent on the interval of the discordance rate; small against alpha = 0.05."""
_PSI_GRID = 24
_D_TOLERANCE = 1e-7
_TIE = 1e-9
"""Statistics closer than this are equal; they differ by rounding only."""

Floats = npt.NDArray[np.float64]


def clopper_pearson_lower(successes: int, n: int, alpha: float) -> float:
    """Exact one-sided lower bound of a rate (Clopper & Pearson 1934, Biometrika 26)."""
    check_counts(successes, 0, n)
    if successes == 0:
        return 0.0
    return float(special.betaincinv(successes, n - successes + 1, alpha))


def clopper_pearson_upper(successes: int, n: int, alpha: float) -> float:
    """Exact one-sided upper bound of a rate (Clopper & Pearson 1934, Biometrika 26)."""
    check_counts(successes, 0, n)
    if successes == n:
        return 1.0
    return float(special.betaincinv(successes + 1, n - successes, 1.0 - alpha))


def score(wins: Floats, losses: Floats, n: int, difference: float) -> Floats:
    """Tango's statistic of "the true difference is this", near normal if it is; shapes broadcast.

    Tango 1998, Statistics in Medicine 17, 891-908: (W - L - n d) / sqrt(n (2 q + d (1 - d))), with
    q the chance of a loss that is likeliest under the difference d.
    """
    d = difference
    b = -wins - losses + (2 * n - wins + losses) * d
    c = -losses * d * (1.0 - d)
    q = (np.sqrt(np.maximum(b * b - 8 * n * c, 0.0)) - b) / (4 * n)
    variance = n * (2.0 * q + d * (1.0 - d))
    return np.asarray((wins - losses - n * d) / np.sqrt(np.maximum(variance, 1e-300)))


def paired_difference_interval(
    wins: int, losses: int, n: int, alpha: float, gamma: float = NUISANCE_GAMMA
) -> Interval:
    """Exact one-sided bounds of d = P(only candidate right) - P(only champion right).

    The lower bound is where `noninferiority_pvalue` of d = -delta reaches alpha, so it exceeds the
    true d with probability at most alpha whatever the discordance is. The upper bound follows by
    exchanging wins and losses.

    Raises:
        ValueError: counts are negative or exceed n, or not 0 < gamma < alpha < 1.
    """
    check_counts(wins, losses, n)
    if not 0.0 < gamma < alpha < 1.0:
        raise ValueError(f"need 0 < gamma < alpha < 1, got gamma {gamma} and alpha {alpha}")
    return Interval(
        lower=_lower_bound(_Observed(wins=wins, losses=losses, n=n, gamma=gamma), alpha),
        upper=-_lower_bound(_Observed(wins=losses, losses=wins, n=n, gamma=gamma), alpha),
    )


def noninferiority_pvalue(
    wins: int, losses: int, n: int, delta: float, gamma: float = NUISANCE_GAMMA
) -> float:
    """Exact p-value of "the candidate is worse by delta or more".

    Unconditional test: the chance, if the true difference is d = -delta, of a result whose score
    (Tango 1998) is at least the observed one. It depends on the discordance psi = P(only
    candidate) + P(only champion), and the largest is taken (Hsueh, Liu and Chen 2001, Biometrics
    57, 478-483), over the exact interval of psi at confidence 1 - gamma given wins + losses, with
    gamma added (Berger & Boos 1994, JASA 89, 1012-1016). Larger losses than delta have smaller
    chances, because the score rises with wins and falls with losses.
    """
    check_counts(wins, losses, n)
    return _Observed(wins=wins, losses=losses, n=n, gamma=gamma).pvalue(-delta)


def shows_noninferiority(wins: int, losses: int, n: int, delta: float, alpha: float) -> bool:
    """Whether `noninferiority_pvalue` is at most alpha."""
    return noninferiority_pvalue(wins, losses, n, delta) <= alpha


def mcnemar_pvalue(wins: int, losses: int) -> float:
    """Exact two-sided p-value of "neither model is better" (McNemar 1947, Psychometrika 12).

    Given the number of discordant examples, each is as likely to be won as lost.
    """
    if wins + losses == 0:
        return 1.0
    return float(stats.binomtest(wins, wins + losses).pvalue)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """One result, and how much error may go into the interval of its discordance."""

    wins: int
    losses: int
    n: int
    gamma: float

    def pvalue(self, difference: float) -> float:
        """Largest chance of a result as good as this one, over the likely discordances."""
        low, high = discordance_interval(self.wins + self.losses, self.n, self.gamma)
        if high <= abs(difference):
            return self.gamma  # a difference this large is outside the interval
        low = max(low, abs(difference))
        counts = np.array([self.wins, self.losses], dtype=np.float64)
        observed = float(score(counts[:1], counts[1:], self.n, difference)[0])
        region = Region.of(observed, self.n, difference, (low, high))
        return min(1.0, region.largest_chance(low, high) + self.gamma)


def _lower_bound(observed: _Observed, alpha: float) -> float:
    estimate = (observed.wins - observed.losses) / observed.n
    if estimate <= -1.0:
        return -1.0

    def excess(difference: float) -> float:
        return observed.pvalue(difference) - alpha

    low, high = _below(excess, estimate, observed.n), estimate - _D_TOLERANCE
    if low <= -1.0:
        return -1.0
    return float(optimize.brentq(excess, low, high, xtol=_D_TOLERANCE)) - _D_TOLERANCE


def _below(excess: Callable[[float], float], estimate: float, n: int) -> float:
    """A difference below the estimate that is refuted, or -1 if there is none."""
    step, least = 4.0 / n, -1.0 + _D_TOLERANCE
    while (low := max(estimate - step, least)) > least:
        if excess(low) <= 0.0:
            return low
        step *= 2.0
    return least if excess(least) <= 0.0 else -1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """All results whose score under a difference is at least some value.

    As for each number of losses the least number of wins, since the score rises with wins.
    """

    n: int
    difference: float
    losses: Floats
    least_wins: Floats

    @classmethod
    def of(cls, least_score: float, n: int, difference: float, psi: tuple[float, float]) -> Region:
        """The region, without losses that are next to impossible for every psi in the range."""
        lowest, highest = ((share - abs(difference)) / 2.0 for share in psi)
        losses = likely_counts(n, max(lowest, 0.0), min(highest + abs(difference), 1.0))
        low, high = np.full_like(losses, -1.0), n - losses + 1.0
        for _ in range(math.ceil(math.log2(n + 2)) + 1):
            middle = np.floor((low + high) / 2.0)
            enough = score(np.maximum(middle, 0.0), losses, n, difference) >= least_score - _TIE
            is_open = high - low > 1.0
            high = np.where(is_open & enough, middle, high)
            low = np.where(is_open & ~enough, middle, low)
        return cls(n=n, difference=difference, losses=losses, least_wins=high)

    def chance(self, psi: Floats, truth: float | None = None) -> Floats:
        """Chance of the region for each discordance psi >= |truth|; shape of psi.

        `truth` is the true difference; None is the one that the scores are of.
        """
        d = self.difference if truth is None else truth
        loss = np.clip((psi - d) / 2.0, 0.0, 1.0)[:, None]
        win = np.clip((psi + d) / 2.0, 0.0, 1.0)[:, None]
        share = np.clip(win / np.maximum(1.0 - loss, 1e-300), 0.0, 1.0)
        of_losses = _binomial_pmf(self.losses[None, :], self.n, loss)
        of_wins = _binomial_tail(self.least_wins[None, :], self.n - self.losses[None, :], share)
        return np.asarray((of_losses * of_wins).sum(axis=1))

    def largest_chance(self, low: float, high: float) -> float:
        """Over psi in the range, from a grid refined once.

        The interval's width follows the spread of the discordant count, which is the scale on
        which the chance varies, so the grid resolves it at every n.
        """
        found = 0.0
        for _ in range(2):
            grid = np.linspace(low, high, _PSI_GRID)
            chances = self.chance(grid)
            best = int(chances.argmax())
            found = max(found, float(chances[best]))
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, _PSI_GRID - 1)]
        return found


def discordance_interval(discordant: int, n: int, gamma: float) -> tuple[float, float]:
    """Exact two-sided interval of the share of discordant examples, at confidence 1 - gamma."""
    return (
        clopper_pearson_lower(discordant, n, gamma / 2.0),
        clopper_pearson_upper(discordant, n, gamma / 2.0),
    )


def likely_counts(n: int, low: float, high: float) -> Floats:
    """The counts that hold all but 1e-9 of Bin(n, p) for every p in the range.

    By Bernstein's inequality a deviation t has chance below exp(-t^2 / (2 var + 2 t / 3)), and
    t = 7 sd + 15 keeps that under 1e-9 at every variance.
    """
    below, above = (7.0 * math.sqrt(n * p * (1.0 - p)) + 15.0 for p in (low, high))
    first = max(0, math.floor(n * low - below))
    last = min(n, math.ceil(n * high + above))
    return np.arange(first, last + 1, dtype=np.float64)


def _binomial_pmf(m: Floats, n: int, p: Floats) -> Floats:
    """P(Bin(n, p) = m); shapes broadcast."""
    ways = special.gammaln(n + 1.0) - special.gammaln(m + 1.0) - special.gammaln(n - m + 1.0)
    return np.asarray(np.exp(ways + special.xlogy(m, p) + special.xlog1py(n - m, -p)))


def _binomial_tail(k: Floats, m: Floats, p: Floats) -> Floats:
    """P(Bin(m, p) >= k), through the regularized incomplete beta function; shapes broadcast."""
    inside = (k > 0) & (k <= m)
    tail = special.betainc(np.where(inside, k, 1.0), np.where(inside, m - k + 1.0, 1.0), p)
    return np.where(inside, tail, (k <= 0).astype(float))


def check_counts(wins: int, losses: int, n: int) -> None:
    """Raises ValueError unless these can be counts among n examples."""
    if n < 1 or wins < 0 or losses < 0 or wins + losses > n:
        raise ValueError(
            f"counts must be at least 0 and add up to at most n >= 1, got {wins}, {losses}, n {n}"
        )
