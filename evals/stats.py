"""Exact statistics of paired right-or-wrong outcomes, as pure functions.

The one idea: of n examples answered by both models only the discordant ones carry information.
With W examples that only the candidate got right and L that only the champion got right,
S = W - L is a sum of n independent values in {-1, 0, +1}, and its tail can be computed, not
approximated. Suites hold hundreds of examples and good models differ on a handful; there normal
approximations are wrong by more than the margins they are asked about.

Left out: corpus scores such as F0.5 and GLEU, which need a bootstrap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

NUISANCE_GAMMA = 0.001
"""Error spent on the interval of the discordance rate; small against alpha = 0.05."""
_PSI_GRID = 64
_D_TOLERANCE = 1e-9

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Two one-sided bounds, each wrong with probability at most alpha."""

    lower: float
    upper: float


def clopper_pearson_lower(successes: int, n: int, alpha: float) -> float:
    """Exact one-sided lower bound of a rate (Clopper & Pearson 1934, Biometrika 26)."""
    _check_counts(successes, 0, n)
    if successes == 0:
        return 0.0
    return float(special.betaincinv(successes, n - successes + 1, alpha))


def clopper_pearson_upper(successes: int, n: int, alpha: float) -> float:
    """Exact one-sided upper bound of a rate (Clopper & Pearson 1934, Biometrika 26)."""
    _check_counts(successes, 0, n)
    if successes == n:
        return 1.0
    return float(special.betaincinv(successes + 1, n - successes, 1.0 - alpha))


def paired_difference_interval(
    wins: int, losses: int, n: int, alpha: float, gamma: float = NUISANCE_GAMMA
) -> Interval:
    """Exact one-sided bounds of d = P(only candidate right) - P(only champion right).

    Unconditional test after Berger & Boos (1994, JASA 89, 1012-1016). The nuisance parameter is
    the discordance psi = P(only candidate) + P(only champion); C is its exact two-sided interval
    at confidence 1 - gamma given wins + losses. For a difference d0 the p-value is

        p(d0) = sup { P(S >= s | d0, psi) : psi in C, psi >= |d0| } + gamma,   s = wins - losses
        P(S >= s | d0, psi) = sum_m Bin(m; n, psi) P(Bin(m, (psi + d0) / (2 psi)) >= (m + s) / 2)

    and the lower bound is inf { d0 : p(d0) > alpha }, so it exceeds the true d with probability
    at most alpha whatever psi is. Since p(d0) > alpha exactly when some psi has a tail above
    alpha - gamma, the bound is the least, over psi, of the d0 whose tail equals alpha - gamma.
    The upper bound follows by exchanging wins and losses.

    Raises:
        ValueError: counts are negative or exceed n, or not 0 < gamma < alpha < 1.
    """
    _check_counts(wins, losses, n)
    if not 0.0 < gamma < alpha < 1.0:
        raise ValueError(f"need 0 < gamma < alpha < 1, got gamma {gamma} and alpha {alpha}")
    psi_low, psi_high = _discordance_interval(wins + losses, n, gamma)
    problem = _Tail(n=n, psi_low=psi_low, psi_high=psi_high, level=alpha - gamma)
    return Interval(
        lower=max(-1.0, problem.lower_bound(wins - losses)),
        upper=min(1.0, -problem.lower_bound(losses - wins)),
    )


def _discordance_interval(discordant: int, n: int, gamma: float) -> tuple[float, float]:
    return (
        clopper_pearson_lower(discordant, n, gamma / 2.0),
        clopper_pearson_upper(discordant, n, gamma / 2.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tail:
    """P(S >= s | d, psi) over psi in [psi_low, psi_high], and where it reaches `level`."""

    n: int
    psi_low: float
    psi_high: float
    level: float

    def lower_bound(self, s: int) -> float:
        """The least, over psi, of the d whose tail is `level`: a cutting-plane search.

        Solve at one psi, look for a psi whose tail at that d is still above the level, repeat.
        """
        psi = self.psi_high
        d = self._solve(s, psi)
        while not self._highest_psi_is_worst(s, d):
            worst, tail = self._worst_psi(s, d)
            if tail <= self.level * (1.0 + 1e-9):
                break
            improved = self._solve(s, worst)
            if improved >= d - _D_TOLERANCE:
                break
            psi, d = worst, improved
        return d - _D_TOLERANCE

    def _solve(self, s: int, psi: float) -> float:
        """The d in [-psi, psi] at which the tail, increasing in d, reaches `level`."""

        def excess(d: float) -> float:
            return float(self._tails(s, d, np.array([psi]))[0]) - self.level

        if excess(-psi) >= 0.0:
            return -psi
        if excess(psi) <= 0.0:
            return psi
        return float(optimize.brentq(excess, -psi, psi, xtol=_D_TOLERANCE / 10.0))

    def _highest_psi_is_worst(self, s: int, d: float) -> bool:
        """Whether theory says the tail at (s, d) increases in psi over the whole interval.

        d(tail)/d(psi) = n/2 (P(S' = s - 1) - P(S' = s)) with S' the sum over n - 1 examples. For
        psi <= (1 + d^2) / 2 the generating polynomial of one example has real roots only, so S'
        is a shifted sum of Bernoulli variables: unimodal, its mode less than 1 from its mean
        (Darroch 1964). Above the mode the derivative is not negative.
        """
        return self.psi_high <= (1.0 + d * d) / 2.0 and s >= (self.n - 1) * d + 2.0

    def _worst_psi(self, s: int, d: float) -> tuple[float, float]:
        """The psi with the largest tail at (s, d), from a grid refined once, and that tail.

        The interval's width follows the spread of the discordant count, which is the scale on
        which the tail varies, so the grid resolves it at every n.
        """
        low, high = max(self.psi_low, abs(d)), max(self.psi_high, abs(d))
        for _ in range(2):
            grid = np.linspace(low, high, _PSI_GRID)
            tails = self._tails(s, d, grid)
            best = int(tails.argmax())
            low, high = grid[max(best - 1, 0)], grid[min(best + 1, _PSI_GRID - 1)]
        return float(grid[best]), float(tails[best])

    def _tails(self, s: int, d: float, psi: Floats) -> Floats:
        """P(S >= s | d, psi) for each psi >= |d|; shape of psi."""
        m = _likely_counts(self.n, float(psi.min()), float(psi.max()))
        needed = np.ceil((m + s) / 2.0)
        win_share = np.clip((psi + d) / np.maximum(2.0 * psi, 1e-300), 0.0, 1.0)
        inner = _binomial_tail(needed[None, :], m[None, :], win_share[:, None])
        weights = _binomial_pmf(m[None, :], self.n, psi[:, None])
        return np.asarray((weights * inner).sum(axis=1))


def _likely_counts(n: int, psi_low: float, psi_high: float) -> Floats:
    """The counts that hold all but 1e-13 of Bin(n, psi) for every psi in the range.

    By Bernstein's inequality a deviation t has chance below exp(-t^2 / (2 var + 2 t / 3)), and
    t = 8 sd + 20 keeps that under 1e-13 at every variance.
    """
    below, above = (8.0 * math.sqrt(n * p * (1.0 - p)) + 20.0 for p in (psi_low, psi_high))
    first = max(0, math.floor(n * psi_low - below))
    last = min(n, math.ceil(n * psi_high + above))
    return np.arange(first, last + 1, dtype=np.float64)


def _binomial_pmf(m: Floats, n: int, psi: Floats) -> Floats:
    """P(Bin(n, psi) = m); shapes broadcast."""
    ways = special.gammaln(n + 1.0) - special.gammaln(m + 1.0) - special.gammaln(n - m + 1.0)
    return np.asarray(np.exp(ways + special.xlogy(m, psi) + special.xlog1py(n - m, -psi)))


def _binomial_tail(k: Floats, m: Floats, q: Floats) -> Floats:
    """P(Bin(m, q) >= k), through the regularized incomplete beta function; shapes broadcast."""
    inside = (k > 0) & (k <= m)
    tail = special.betainc(np.where(inside, k, 1.0), np.where(inside, m - k + 1.0, 1.0), q)
    return np.where(inside, tail, (k <= 0).astype(float))


def noninferiority_pvalue(
    wins: int, losses: int, n: int, delta: float, gamma: float = NUISANCE_GAMMA
) -> float:
    """Exact p-value of "the candidate is worse by delta or more", Berger & Boos as above.

    It is at most alpha exactly when the lower bound of the interval at alpha exceeds -delta.
    """
    _check_counts(wins, losses, n)
    psi_low, psi_high = _discordance_interval(wins + losses, n, gamma)
    if psi_high < delta:
        return gamma  # a difference this large is outside the interval of the discordance
    problem = _Tail(n=n, psi_low=psi_low, psi_high=psi_high, level=1.0)
    s = wins - losses
    if problem._highest_psi_is_worst(s, -delta):
        return float(problem._tails(s, -delta, np.array([psi_high]))[0]) + gamma
    return min(1.0, problem._worst_psi(s, -delta)[1] + gamma)


def required_n(psi: float, delta: float, alpha: float, power: float) -> int:
    """Examples needed to show non-inferiority within delta when the true difference is 0.

    n = (z_alpha + z_beta)^2 psi / delta^2: the normal approximation for paired proportions
    (Lu & Bean 1995, Stat. Med. 14, 1831-1839), with psi the share of discordant examples.
    The exact test needs up to half as many again; `examples_needed` says how many.
    """
    if not 0.0 <= psi <= 1.0 or not 0.0 < delta <= 1.0:
        raise ValueError(f"need 0 <= psi <= 1 and 0 < delta <= 1, got {psi} and {delta}")
    z = float(stats.norm.isf(alpha) + stats.norm.ppf(power))
    return max(1, math.ceil(z * z * psi / (delta * delta)))


def power(n: int, psi: float, delta: float, alpha: float) -> float:
    """Exact chance that n examples show non-inferiority within delta, the true difference being 0.

    By enumeration: for every discordant count m the least number of wins that passes is found
    with `noninferiority_pvalue`, and its binomial tail is weighted with P(m). For a quick size
    use `required_n`.
    """
    if psi <= 0.0:
        return float(noninferiority_pvalue(0, 0, n, delta) <= alpha)
    total, wins = 0.0, 0
    for m in _likely_counts(n, psi, psi).astype(int).tolist():
        # One more loss never helps, so the least passing number of wins cannot fall with m.
        while wins <= m and not _shows_noninferiority(wins, m - wins, n, delta, alpha):
            wins += 1
        total += float(stats.binom.pmf(m, n, psi) * stats.binom.sf(wins - 1, m, 0.5))
    return total


def _shows_noninferiority(wins: int, losses: int, n: int, delta: float, alpha: float) -> bool:
    """Whether the p-value is at most alpha; most failures show at one psi already."""
    psi_high = _discordance_interval(wins + losses, n, NUISANCE_GAMMA)[1]
    if psi_high >= delta:
        problem = _Tail(n=n, psi_low=0.0, psi_high=psi_high, level=alpha)
        at_one_psi = float(problem._tails(wins - losses, -delta, np.array([psi_high]))[0])
        if at_one_psi + NUISANCE_GAMMA > alpha:
            return False
    return noninferiority_pvalue(wins, losses, n, delta) <= alpha


def examples_needed(psi: float, delta: float, alpha: float, wanted_power: float = 0.8) -> int:
    """About the least n (to 2 %) at which the exact test has the wanted power, by `power`."""
    z_alpha, z_beta = stats.norm.isf(alpha), stats.norm.ppf(wanted_power)
    n = max(required_n(psi, delta, alpha, wanted_power), _least_n_without_discordance(delta, alpha))
    while (reached := power(n, psi, delta, alpha)) < wanted_power:
        z_reached = stats.norm.ppf(max(reached, 1e-6))
        shortfall = ((z_alpha + z_beta) / max(z_alpha + z_reached, 1.0)) ** 2
        n = math.ceil(n * min(max(shortfall, 1.02), 2.0))
    return n


def _least_n_without_discordance(delta: float, alpha: float) -> int:
    """The least n that passes when the two models agree on every example."""
    high = 1
    while noninferiority_pvalue(0, 0, high, delta) > alpha:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if noninferiority_pvalue(0, 0, middle, delta) <= alpha:
            high = middle
        else:
            low = middle
    return high


def holm(pvalues: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given (Holm 1979), for claims that *some* gate differs."""
    order = sorted(range(len(pvalues)), key=lambda index: pvalues[index])
    adjusted = [0.0] * len(pvalues)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(pvalues) - rank) * pvalues[index]))
        adjusted[index] = running
    return tuple(adjusted)


def _check_counts(wins: int, losses: int, n: int) -> None:
    if n < 1 or wins < 0 or losses < 0 or wins + losses > n:
        raise ValueError(
            f"counts must be at least 0 and add up to at most n >= 1, got {wins}, {losses}, n {n}"
        )
