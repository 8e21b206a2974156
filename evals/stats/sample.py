"""What a resampling method gets: rows of additive statistics, and a number made of their sum.

The one idea: any score here is a function of column sums, so scoring a resample is one matrix
product, `number(weights @ rows)`, for thousands of resamples at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Value = Callable[[Floats], Floats | float]
"""Sums of shape (..., k) to values of shape (...), greater being better."""

_STEP = 1e-4
"""Relative step of the numerical derivative; sums are counts of hundreds, values of order one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Additive statistics of one suite, one row an example; shapes are (n, k).

    Raises:
        ValueError: shapes do not agree, or there is no example.
    """

    candidate: Floats
    champion: Floats | None
    """None for a first version, whose own value is asked for, not a difference."""
    lost: Floats
    """Statistics of an answer that is worth nothing, such as an empty one."""
    value: Value
    clusters: Ints | None = None
    """Number of the cluster of each example, shape (n,); None if each stands for itself."""

    def __post_init__(self) -> None:
        shape = self.candidate.shape
        others = {self.lost.shape} | ({self.champion.shape} if self.champion is not None else set())
        if len(shape) != 2 or not shape[0] or others != {shape}:
            raise ValueError(f"statistics must have one shape (n, k), got {shape} and {others}")
        if self.clusters is not None and self.clusters.shape != shape[:1]:
            raise ValueError(f"need a cluster for each of {shape[0]}, got {self.clusters.shape}")

    @property
    def n(self) -> int:
        """Examples."""
        return len(self.candidate)

    def take(self, chosen: Ints) -> Scores:
        """The same of some examples only, by position."""
        return Scores(
            candidate=self.candidate[chosen],
            champion=None if self.champion is None else self.champion[chosen],
            lost=self.lost[chosen],
            value=self.value,
            clusters=renumbered(self.clusters, chosen),
        )

    @property
    def rows(self) -> Floats:
        """Both models' statistics side by side, the candidate's first."""
        if self.champion is None:
            return self.candidate
        return np.hstack([self.candidate, self.champion])

    def number(self, totals: Floats) -> Floats:
        """The difference in value, or the value, of sums of `rows`; shape (..., ) of (..., q)."""
        k = self.candidate.shape[1]
        ours = np.asarray(self.value(totals[..., :k]))
        if self.champion is None:
            return ours
        return np.asarray(ours - self.value(totals[..., k:]))

    @property
    def candidate_value(self) -> float:
        """The candidate's value over all examples."""
        return float(self.value(self.candidate.sum(axis=0)))

    @property
    def champion_value(self) -> float | None:
        """The champion's value over all examples."""
        return None if self.champion is None else float(self.value(self.champion.sum(axis=0)))

    def units(self) -> Floats:
        """`rows` summed by cluster, shape (units, q); what is resampled."""
        return summed(self.rows, self.clusters)


def summed(rows: Floats, clusters: Ints | None) -> Floats:
    """Rows summed by cluster; themselves where there are none."""
    if clusters is None:
        return rows
    count = int(clusters.max()) + 1
    return np.stack([np.bincount(clusters, column, minlength=count) for column in rows.T], axis=1)


def renumbered(clusters: Ints | None, chosen: Ints) -> Ints | None:
    """The clusters of some examples, numbered from 0 without gaps."""
    if clusters is None:
        return None
    return np.unique(clusters[chosen], return_inverse=True)[1].astype(np.intp)


def gradient(number: Callable[[Floats], Floats], totals: Floats) -> Floats:
    """Derivative of a number in each of the sums, shape (q,), by central differences."""
    steps = _STEP * np.maximum(np.abs(totals), 1.0)
    above = totals + np.diag(steps)
    below = np.maximum(totals - np.diag(steps), 0.0)
    width = (above - below).diagonal()
    return np.asarray((number(above) - number(below)) / width)
