"""Metrics: pure functions of one example, and the names that suites use for them."""

from evals.metrics.exact import VERSION, exact_match, left_alone, score
from evals.metrics.metric import Metric, total
from evals.metrics.registry import get, misfit, names
from evals.metrics.text import normalize

__all__ = [
    "VERSION",
    "Metric",
    "exact_match",
    "get",
    "left_alone",
    "misfit",
    "names",
    "normalize",
    "score",
    "total",
]
