"""Several claims at once.

A promotion asks that *every* gate is met, an intersection-union test that needs no correction. A
sentence of the kind "some suite regressed" picks the worst of many and does; that is what this is
for.
"""

from __future__ import annotations

from collections.abc import Sequence


def holm(pvalues: Sequence[float]) -> tuple[float, ...]:
    """Adjusted p-values in the order given (Holm 1979), for claims that *some* gate differs."""
    order = sorted(range(len(pvalues)), key=lambda index: pvalues[index])
    adjusted = [0.0] * len(pvalues)
    running = 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(pvalues) - rank) * pvalues[index]))
        adjusted[index] = running
    return tuple(adjusted)
