"""Holm's correction."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals import stats


class TestHolm:
    def test_matches_a_worked_example(self) -> None:
        assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))

    @given(st.lists(st.floats(0, 1), max_size=8))
    @settings(deadline=None)
    def test_never_lowers_a_pvalue_and_keeps_the_order(self, pvalues: list[float]) -> None:
        adjusted = stats.holm(pvalues)
        assert all(a >= p for a, p in zip(adjusted, pvalues, strict=True))
        pairs = sorted(zip(pvalues, adjusted, strict=True))
        assert all(x[1] <= y[1] for x, y in itertools.pairwise(pairs))
