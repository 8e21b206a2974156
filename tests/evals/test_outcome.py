"""Outcomes survive storage, and a missing score stays missing."""

import dataclasses
import json

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


@pytest.mark.parametrize(
    "text", ["[]", "{}", "null", "nonsense", '{"format": "other"}', "[" * 100_000]
)
def test_other_documents_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Outcomes.from_json(text)


def test_statistics_survive_storage() -> None:
    plain = build.outcomes(SUITE, [1.0, 0.0, 1.0, None])
    rows = {"gleu": (1.0, 2.5), "exact": (1.0, 1.0)}
    kept = dataclasses.replace(
        plain,
        outcomes=tuple(dataclasses.replace(o, statistics=rows) for o in plain.outcomes),
    )
    assert Outcomes.from_json(kept.to_json()) == kept
    assert kept != plain


def test_outcomes_stored_before_there_were_statistics_still_load() -> None:
    plain = build.outcomes(SUITE, [1.0, 0.0, 1.0, None])
    stored = plain.to_json()
    assert "statistics" not in stored
    assert all(not o.statistics for o in Outcomes.from_json(stored).outcomes)


def test_an_answer_without_a_score_is_not_missing_if_it_has_statistics() -> None:
    (outcome, *_) = build.outcomes(SUITE, [None] * 4).outcomes
    assert outcome.is_missing
    assert not dataclasses.replace(outcome, statistics={"a": (1.0,)}).is_missing


def test_statistics_of_another_shape_are_refused() -> None:
    raw = json.loads(build.outcomes(SUITE, [1.0] * 4).to_json())
    raw["outcomes"][0]["statistics"] = [1, 2]
    with pytest.raises(ValueError, match="not a liftlock outcomes document"):
        Outcomes.from_json(json.dumps(raw))


@pytest.mark.parametrize(
    "change",
    [
        {"score": "1.0"},
        {"score": float("nan")},
        {"output": 7},
        {"finish_reason": None},
        {"statistics": {"exact": ["x"]}},
        {"statistics": {"exact": [float("inf")]}},
    ],
)
def test_values_of_another_kind_are_refused(change: dict[str, object]) -> None:
    content = json.loads(build.outcomes(SUITE, [1.0] * 4).to_json())
    content["outcomes"][2].update(change)
    with pytest.raises(ValueError, match="'e2' holds what is no"):
        Outcomes.from_json(json.dumps(content))
