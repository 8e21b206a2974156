"""Approximate randomization: is the difference between two models more than chance?

If neither model were better, each unit's two answers might as well be swapped (Yeh 2000, "More
accurate tests for the statistical significance of result differences"; Riezler and Maxwell 2005).
A gate does not decide by it, since "no significant difference" is no evidence of quality; it backs
sentences that some suite differs.
"""

from __future__ import annotations

import numpy as np

from evals.stats.sample import Scores

SWAPS = 4_000
_CELLS = 1 << 22


def pvalue(scores: Scores, *, seed: int, swaps: int = SWAPS) -> float:
    """Two-sided p-value of "neither model is better", (1 + as far out) / (1 + swaps).

    Swapped are whole clusters where there are any.

    Raises:
        ValueError: there is no champion to swap with.
    """
    if scores.champion is None:
        raise ValueError("a p-value needs the answers of two models")
    units, k = scores.units(), scores.candidate.shape[1]
    totals = units.sum(axis=0)
    # Swapping a unit moves its difference from one side to the other; equal units do not matter.
    moves = np.hstack([units[:, k:] - units[:, :k], units[:, :k] - units[:, k:]])
    moves = moves[np.any(moves != 0.0, axis=1)]
    if not len(moves):
        return 1.0
    observed = abs(float(scores.number(totals)))
    rng = np.random.Generator(np.random.PCG64(seed))
    per_block = max(1, _CELLS // len(moves))
    extreme = 0
    for start in range(0, swaps, per_block):
        count = min(per_block, swaps - start)
        swapped = rng.integers(0, 2, size=(count, len(moves))).astype(np.float64)
        found = np.abs(scores.number(totals + swapped @ moves))
        extreme += int(np.sum(~(found < observed - 1e-12)))  # nan counts as far out
    return (1 + extreme) / (1 + swaps)
