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
from evals.suite import Example

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


def misfit(name: str, example: Example) -> str | None:
    """Why a metric cannot be computed of a suite with such examples.

    What is not installed is not missed here, but where it is needed.

    Raises:
        SuiteInvalid: there is no such metric.
    """
    found = get(name)
    try:
        found.statistics(example, "")
    except errors.SuiteInvalid as exc:
        return str(exc)
    except errors.EvaluationFailed:
        return None
    return None


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
