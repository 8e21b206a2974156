"""Outcomes survive storage, and a missing score stays missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.outcome import Outcomes
from tests.evals import build

SUITE = build.suite([()] * 4)


@given(st.lists(st.sampled_from([0.0, 1.0, None]), min_size=4, max_size=4))
def test_json_round_trip_is_exact(scores: list[float | None]) -> None:
    outcomes = build.outcomes(SUITE, scores)
    assert Outcomes.from_json(outcomes.to_json()) == outcomes


def test_missing_score_is_not_zero() -> None:
    outcomes = build.outcomes(SUITE, [1.0, 1.0, 1.0, None])
    assert outcomes.missing == 1
    assert outcomes.rate is None
    assert build.outcomes(SUITE, [1.0, 1.0, 1.0, 0.0]).rate == 0.75


@pytest.mark.parametrize("text", ["[]", "{}", "null", "nonsense", '{"format": "other"}'])
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Outcomes.from_json(text)
