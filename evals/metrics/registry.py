"""The metrics that a suite can name."""

from __future__ import annotations

from evals import errors
from evals.metrics.errant_english import Errant
from evals.metrics.gleu import Gleu
from evals.metrics.length import LengthRatio
from evals.metrics.maxmatch import MaxMatch
from evals.metrics.metric import Metric
from evals.metrics.rates import (
    CHANGE_RATE,
    EXACT,
    FALSE_POSITIVE,
    PAIR_ACCURACY,
    RUNAWAY,
    SCRIPT_KEPT,
)

_METRICS: tuple[Metric, ...] = (
    EXACT,
    CHANGE_RATE,
    FALSE_POSITIVE,
    Gleu(),
    MaxMatch(),
    Errant(),
    LengthRatio(),
    RUNAWAY,
    SCRIPT_KEPT,
    PAIR_ACCURACY,
)
_BY_NAME = {metric.name: metric for metric in _METRICS}


def names() -> tuple[str, ...]:
    """Every name that `get` knows."""
    return tuple(_BY_NAME)


def get(name: str) -> Metric:
    """The metric of that name.

    Raises:
        SuiteInvalid: there is none; names the known ones.
    """
    try:
        return _BY_NAME[name]
    except KeyError:
        raise errors.SuiteInvalid(
            f"there is no metric {name!r}; known are {', '.join(names())}"
        ) from None
