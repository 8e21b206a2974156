"""What a metric is: additive statistics of one example, and a value of their sum.

The one idea: nothing but the statistics is stored per example. Any value, any interval and any
slice can be computed from them afterwards without the texts, and a bootstrap over `n` examples is
`value(weights @ statistics)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evals.suite import Example

Floats = NDArray[np.float64]


class Metric(Protocol):
    """A pure function of one example, and how its sums become a number."""

    @property
    def name(self) -> str:
        """The key in the registry."""

    @property
    def higher_is_better(self) -> bool:
        """The direction of a gate."""

    @property
    def is_rate(self) -> bool:
        """Whether statistics are (0 or 1, 1), so that exact paired tests apply."""

    def statistics(self, example: Example, output: str) -> tuple[float, ...]:
        """What one output adds to the sums; always the same number of figures.

        Raises:
            SuiteInvalid: the example lacks what the metric compares with.
        """

    def value(self, totals: Floats) -> Floats | float:
        """The value of sums of shape (..., k), in shape (...); nan where it has none."""


def total(metric: Metric, examples: Iterable[Example], outputs: Iterable[str]) -> Floats:
    """The summed statistics of at least one example, shape (k,)."""
    pairs = zip(examples, outputs, strict=True)
    rows = np.array([metric.statistics(example, output) for example, output in pairs])
    sums: Floats = rows.sum(axis=0)
    return sums


def ratio(numerator: Floats, denominator: Floats, *, empty: float) -> Floats | float:
    """Elementwise quotient, `empty` where the denominator is 0."""
    zero = denominator == 0
    quotient: Floats = np.where(zero, empty, numerator / np.where(zero, 1.0, denominator))
    return quotient
