"""What stored statistics say about one model on one suite: each metric with an interval.

The one idea: a bootstrap over examples is one product of a matrix of draws with the statistics, so
it needs neither texts nor a model and all metrics of a suite share the same draws. Where examples
come in clusters, clusters are drawn. The seed is fixed: the same outcomes print the same numbers.

A rate over examples that stand for themselves has an exact interval (Clopper and Pearson 1934), and
so has one that is 0 or 1 over clusters: a bootstrap would say that what was never seen cannot
happen. With few clusters, such as the seven paradigms of a CLAMS suite, a bootstrap is too narrow.

These are intervals of one model. Two models are compared in pairs, by the gates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals import metrics
from evals.metrics.metric import Floats, Metric
from evals.outcome import Outcomes
from evals.suite import Suite

LEVEL = 0.95
DRAWS = 2_000
SEED = 20_260
_BLOCK_CELLS = 4_000_000
"""Draws are made in blocks of about this many numbers, 32 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """One metric. Value and bounds are what the metric computes, mostly 0..1; None where it has
    none."""

    metric: str
    value: float | None
    lower: float | None
    upper: float | None


def estimates(suite: Suite, outcomes: Outcomes) -> tuple[Estimate, ...]:
    """Each metric of the suite over the examples that have an answer; none where none has."""
    answered = [
        (index, outcome.statistics)
        for index, outcome in enumerate(outcomes.outcomes)
        if all(name in outcome.statistics for name in suite.metrics)
    ]
    if not answered or not suite.metrics:
        return ()
    found = [metrics.get(name) for name in suite.metrics]
    tables = [np.array([of[metric.name] for _, of in answered], dtype=float) for metric in found]
    clusters = _clusters(suite, [index for index, _ in answered])
    values = _drawn(found, [_summed(table, clusters) for table in tables])
    count = int(clusters.max()) + 1
    return tuple(
        _estimate(metric, table, drawn, clusters=count)
        for metric, table, drawn in zip(found, tables, values, strict=True)
    )


def _clusters(suite: Suite, kept: list[int]) -> NDArray[np.intp]:
    """A number for the cluster of each example, from 0."""
    names = [
        (suite.examples[i].cluster if suite.cluster is not None else None) or f"\0{i}" for i in kept
    ]
    _, numbers = np.unique(names, return_inverse=True)
    return numbers


def _summed(table: Floats, clusters: NDArray[np.intp]) -> Floats:
    """Statistics by cluster, shape (clusters, k)."""
    sums = np.zeros((clusters.max() + 1, table.shape[1]))
    np.add.at(sums, clusters, table)
    return sums


def _drawn(found: list[Metric], tables: list[Floats]) -> list[Floats]:
    """The value of each metric in each draw; every metric sees the same draws."""
    rng = np.random.default_rng(SEED)
    count = len(tables[0])
    block = max(1, min(DRAWS, _BLOCK_CELLS // count))
    joined = np.concatenate(tables, axis=1)
    sums = []
    for start in range(0, DRAWS, block):
        rows = min(block, DRAWS - start)
        picks = rng.integers(count, size=(rows, count)) + count * np.arange(rows)[:, None]
        weights = np.bincount(picks.ravel(), minlength=rows * count).reshape(rows, count)
        sums.append(weights @ joined)
    ends = np.cumsum([table.shape[1] for table in tables])[:-1]
    split = np.split(np.concatenate(sums), ends, axis=1)
    return [np.asarray(metric.value(one)) for metric, one in zip(found, split, strict=True)]


def _estimate(metric: Metric, table: Floats, drawn: Floats, *, clusters: int) -> Estimate:
    value = float(metric.value(table.sum(axis=0)))
    if metric.is_rate and (clusters == len(table) or value in (0.0, 1.0)):
        lower, upper = _exact(round(value * clusters), clusters)
    else:
        tail = (1 - LEVEL) / 2
        lower, upper = (float(bound) for bound in np.quantile(drawn, (tail, 1 - tail)))
    return Estimate(
        metric=metric.name, value=_number(value), lower=_number(lower), upper=_number(upper)
    )


def _exact(hits: int, n: int) -> tuple[float, float]:
    from scipy import stats  # half a second, and only where rates are

    tail = (1 - LEVEL) / 2
    lower = float(stats.beta.ppf(tail, hits, n - hits + 1)) if hits else 0.0
    upper = float(stats.beta.ppf(1 - tail, hits + 1, n - hits)) if hits < n else 1.0
    return lower, upper


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
