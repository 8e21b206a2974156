"""How many examples show how small a margin, before anything is run and after.

Two models are assumed to be equally good in truth. What then decides is how much they differ
example by example: the share of discordant examples for a rate, the standard error of the paired
difference for a corpus score.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from evals.stats import exact

_FEW_DISCORDANT = 8
_SHARES_OF_SPREAD = (-1.0, -0.6, -0.3, -0.1, 0.1, 0.3, 0.6, 1.0)
_NEGLIGIBLE = 1e-7


def required_n(psi: float, delta: float, alpha: float, power: float) -> int:
    """Examples needed to show non-inferiority within delta when the true difference is 0.

    n = (z_alpha + z_beta)^2 psi / delta^2: the normal approximation for paired proportions
    (Lu & Bean 1995, Stat. Med. 14, 1831-1839), with psi the share of discordant examples.
    The exact test needs more where few are discordant; `examples_needed` says how many.
    """
    if not 0.0 <= psi <= 1.0 or not 0.0 < delta <= 1.0:
        raise ValueError(f"need 0 <= psi <= 1 and 0 < delta <= 1, got {psi} and {delta}")
    z = float(stats.norm.isf(alpha) + stats.norm.ppf(power))
    return max(1, math.ceil(z * z * psi / (delta * delta)))


def power(n: int, psi: float, delta: float, alpha: float) -> float:
    """Chance that n examples show non-inferiority within delta, the true difference being 0.

    With few discordant examples by enumeration of all results that the exact test passes. With
    more, the results that pass are, to within a point of power, those above one score.
    """
    if n * psi <= _FEW_DISCORDANT:
        return _enumerated_power(n, psi, delta, alpha)
    least = _critical_score(n, psi, delta, alpha)
    region = exact.Region.of(least, n, -delta, (psi, psi))
    return min(1.0, float(region.chance(np.array([psi]), truth=0.0)[0]))


def _critical_score(n: int, psi: float, delta: float, alpha: float) -> float:
    """The score that parts results that pass from those that fail, seen near the expected count.

    At one discordant count scores are far apart; those of some counts together are close.
    """
    middle, spread = n * psi, math.sqrt(n * psi * (1.0 - psi))
    passing, failing = [], []
    counts = {round(middle + spread * share) for share in _SHARES_OF_SPREAD}
    for m in sorted(min(max(count, 1), n) for count in counts):
        wins = _least_passing_wins(m, n, delta, alpha)
        if wins <= m:
            passing.append(_score(wins, m, n, delta))
        if wins > 0:
            failing.append(_score(wins - 1, m, n, delta))
    if not passing:
        return math.inf
    return (min(passing) + max(failing)) / 2.0 if failing else min(passing)


def _score(wins: int, discordant: int, n: int, delta: float) -> float:
    counts = np.array([wins, discordant - wins], dtype=np.float64)
    return float(exact.score(counts[:1], counts[1:], n, -delta)[0])


def _enumerated_power(n: int, psi: float, delta: float, alpha: float) -> float:
    total = 0.0
    for m in exact.likely_counts(n, psi, psi).astype(int).tolist():
        chance = float(stats.binom.pmf(m, n, psi))
        if chance > _NEGLIGIBLE:
            wins = _least_passing_wins(m, n, delta, alpha)
            total += chance * float(stats.binom.sf(wins - 1, m, 0.5))
    return min(1.0, total)


def _least_passing_wins(discordant: int, n: int, delta: float, alpha: float) -> int:
    """Of so many discordant examples, how many must be won; one more than all if that fails too."""
    low, high = -1, discordant + 1
    while high - low > 1:
        middle = (low + high) // 2
        if exact.shows_noninferiority(middle, discordant - middle, n, delta, alpha):
            high = middle
        else:
            low = middle
    return high


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
    while exact.noninferiority_pvalue(0, 0, high, delta) > alpha:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if exact.noninferiority_pvalue(0, 0, middle, delta) <= alpha:
            high = middle
        else:
            low = middle
    return high


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """What limits how well a paired difference of corpus scores is known.

    Both are in units of the score and per example: over n examples the standard error of the
    difference is sqrt(n spread^2 + step^2) / n, and its bounds move out by step / n.
    """

    spread: float
    """Standard deviation of what one example adds to n times the difference; where examples come
    in clusters, that of a cluster over the square root of its mean size."""
    step: float
    """What the unit that is supposed to be lost unseen takes from n times the difference."""


def score_power(n: int, noise: Noise, delta: float, alpha: float) -> float:
    """Chance that n examples show non-inferiority within delta for a true difference of 0.

    The normal approximation of what `bootstrap.paired` does: estimate and bound differ by the
    supposed loss and by z_alpha standard errors.
    """
    error = _standard_error(n, noise)
    room = delta - noise.step / n
    if error == 0.0:
        return float(room > 0.0)
    return float(stats.norm.cdf(room / error - stats.norm.isf(alpha)))


def score_examples_needed(noise: Noise, delta: float, alpha: float, wanted_power: float) -> int:
    """The least n at which `score_power` reaches the wanted power.

    With no step it is (z_alpha + z_beta)^2 spread^2 / delta^2.

    Raises:
        ValueError: not delta > 0.
    """
    if not delta > 0.0:
        raise ValueError(f"need delta > 0, got {delta}")
    z = max(float(stats.norm.isf(alpha) + stats.norm.ppf(wanted_power)), 0.0)

    def shortfall(n: float) -> float:
        return noise.step / n + z * _standard_error(n, noise) - delta

    high = 1.0
    while shortfall(high) > 0.0:
        high *= 2.0
    if high == 1.0:
        return 1
    return math.ceil(float(optimize.brentq(shortfall, high / 2.0, high)))


def _standard_error(n: float, noise: Noise) -> float:
    return math.sqrt(n * noise.spread**2 + noise.step**2) / n


def limit_power(n: int, share: float, limit: float, alpha: float) -> float:
    """Exact chance that n examples show a true share to be at most a limit."""
    most = _most_allowed(n, limit, alpha)
    return 0.0 if most is None else float(stats.binom.cdf(most, n, share))


def limit_examples_needed(
    share: float, limit: float, alpha: float, wanted_power: float
) -> int | None:
    """About the least n at which `limit_power` reaches the wanted power.

    None where no number will do: the share is not below the limit.
    """
    if share >= limit:
        return None
    high = 1
    while limit_power(high, share, limit, alpha) < wanted_power:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if limit_power(middle, share, limit, alpha) >= wanted_power:
            high = middle
        else:
            low = middle
    return high


def _most_allowed(n: int, limit: float, alpha: float) -> int | None:
    """The largest count whose upper bound is at most the limit; None if even 0 is too many."""
    low, high = -1, n + 1
    while high - low > 1:
        middle = (low + high) // 2
        within = middle <= n and exact.clopper_pearson_upper(min(middle, n), n, alpha) <= limit
        low, high = (middle, high) if within else (low, middle)
    return None if low < 0 else low
