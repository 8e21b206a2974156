"""The rollout policy: when to go on, hold, or take back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rollout import Move, Observation, RolloutPolicy, decide

POLICY = RolloutPolicy(bake_s=10.0, min_answers=5, max_fault_rate=0.01, step_timeout_s=60.0)


def seen(answers: int | None, faults: int | None = 0, ready: int | None = 1) -> Observation:
    return Observation(answers=answers, faults=faults, ready_replicas=ready)


@pytest.mark.parametrize(
    ("age_s", "observed", "move"),
    [
        (11.0, seen(5), Move.ADVANCE),
        (9.0, seen(5), Move.HOLD),
        (11.0, seen(4), Move.HOLD),
        (61.0, seen(4), Move.REVERT),
        (0.0, seen(99, faults=2), Move.REVERT),
        (11.0, seen(199, faults=1), Move.ADVANCE),
        (11.0, seen(5, ready=0), Move.REVERT),
        (11.0, seen(None, None), Move.HOLD),
        (11.0, seen(5, ready=None), Move.HOLD),
        (61.0, seen(None, None), Move.REVERT),
    ],
)
def test_moves(age_s: float, observed: Observation, move: Move) -> None:
    assert decide(POLICY, step_age_s=age_s, observed=observed).move is move


@given(
    age_s=st.floats(0, 1000),
    answers=st.integers(0, 10_000),
    faults=st.integers(0, 10_000),
    ready=st.integers(0, 5),
)
def test_never_advances_on_too_many_faults_or_too_few_answers(
    age_s: float, answers: int, faults: int, ready: int
) -> None:
    decision = decide(POLICY, step_age_s=age_s, observed=seen(answers, faults, ready))
    if decision.move is Move.ADVANCE:
        assert faults <= POLICY.max_fault_rate * (answers + faults)
        assert answers >= POLICY.min_answers
        assert age_s >= POLICY.bake_s
        assert ready > 0
    assert decision.reason


@given(age_s=st.floats(60, 1000), answers=st.integers(0, 4))
def test_always_decides_by_the_time_limit(age_s: float, answers: int) -> None:
    assert decide(POLICY, step_age_s=age_s, observed=seen(answers)).move is not Move.HOLD


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"steps": (10, 50)}, "exactly 100"),
        ({"steps": ()}, "exactly 100"),
        ({"steps": (50, 10, 100)}, "rise"),
        ({"steps": (0, 100)}, "at least 1"),
        ({"replicas": 0}, "replicas"),
        ({"bake_s": -1.0}, "bake_s"),
        ({"max_fault_rate": 1.0}, "max_fault_rate"),
    ],
)
def test_bad_policies_are_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        RolloutPolicy(**settings)  # type: ignore[arg-type]
