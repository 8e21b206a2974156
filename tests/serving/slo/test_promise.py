"""What is promised."""

from __future__ import annotations

import math
from typing import Any

import pytest

from serving.slo import SLO, Sli


def test_the_budget_is_what_the_objective_leaves() -> None:
    slo = SLO(availability=0.999, latency_quantile=0.95, window_days=7)
    assert slo.budget(Sli.AVAILABILITY) == pytest.approx(0.001)
    assert slo.budget(Sli.LATENCY) == pytest.approx(0.05)
    assert slo.window_s == 7 * 86_400


@pytest.mark.parametrize(
    "given",
    [
        {"latency_quantile": 0.4}, {"latency_quantile": 1.0}, {"latency_ms": 0.0},
        {"availability": 1.0}, {"availability": 0.0}, {"window_days": 0},
        {"expected_peak_rps": 0.0}, {"availability": 0.009}, {"latency_ms": math.nan},
        {"latency_ms": math.inf}, {"expected_peak_rps": math.nan},
    ],
)  # fmt: skip
def test_a_promise_that_cannot_be_is_refused_by_name(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(given))):
        SLO(**given)
