"""Tango's score interval of a paired difference: as short as the exact one, level on average.

Gates take the exact bounds, which order results by the same score and hold their level always;
this is here to be compared with (benchmarks/gates.py).
"""

from __future__ import annotations

import numpy as np
from scipy import optimize, stats

from evals.stats.exact import check_counts, score
from evals.stats.interval import Interval

_EDGE = 1e-9


def tango_interval(wins: int, losses: int, n: int, alpha: float) -> Interval:
    """Score bounds of d = P(only candidate right) - P(only champion right).

    Tango 1998, Statistics in Medicine 17, 891-908: the d at which the score reaches the normal
    quantile.

    Raises:
        ValueError: counts are negative or exceed n.
    """
    check_counts(wins, losses, n)
    return Interval(
        lower=_lower(wins, losses, n, alpha),
        upper=-_lower(losses, wins, n, alpha),
    )


def _lower(wins: int, losses: int, n: int, alpha: float) -> float:
    estimate = (wins - losses) / n
    if estimate <= -1.0:
        return -1.0
    z = float(stats.norm.isf(alpha))
    counts = np.array([wins, losses], dtype=np.float64)
    return float(
        optimize.brentq(
            lambda d: float(score(counts[:1], counts[1:], n, d)[0]) - z,
            -1.0 + _EDGE,
            estimate - _EDGE * 0.5,
        )
    )
