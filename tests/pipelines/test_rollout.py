"""What a step of a rollout comes to: go on, hold, or take back."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.rollout import (
    GONE_S,
    Decision,
    Move,
    Observation,
    Terms,
    absent_since,
    decide,
)
from pipelines.rollout_policy import RolloutPolicy
from serving.edge.admin import LatencyBucket
from serving.edge.interval import Interval
from serving.slo import SLO, Sli, trial
from serving.slo.trial import Finding

POLICY = RolloutPolicy(bake_s=10.0, min_answers=5, step_timeout_s=60.0)
PROMISE = SLO(availability=0.999, latency_quantile=0.99, latency_ms=1_000.0)
TERMS = Terms(policy=POLICY, slo=PROMISE)
PROOF = dataclasses.replace(TERMS, policy=dataclasses.replace(POLICY, min_answers=None))
FAVOR = (Move.REVERT, Move.HOLD, Move.ADVANCE)


def counted(requests: int, faults: int = 0, slow: int = 0) -> Interval:
    buckets = ((50.0, requests - slow), (1_000.0, requests - slow), (5_000.0, requests))
    return Interval(
        seconds=1.0, requests=requests, faults=faults,
        latency=tuple(LatencyBucket(le_ms=le, count=n) for le, n in buckets),
    )  # fmt: skip


def judged(
    requests: int | None,
    faults: int = 0,
    slow: int = 0,
    *,
    ready: int | None = 1,
    absent_s: float = 0.0,
    age_s: float = 11.0,
    terms: Terms = TERMS,
) -> Decision:
    seen = None if requests is None else counted(requests, faults, slow)
    observed = Observation(counted=seen, ready_replicas=ready, absent_s=absent_s)
    return decide(terms, step_age_s=age_s, observed=observed)


@pytest.mark.parametrize(
    ("decision", "move"),
    [
        (judged(5), Move.ADVANCE),
        (judged(5, age_s=9.0), Move.HOLD),
        (judged(4), Move.HOLD),
        (judged(4, age_s=61.0), Move.REVERT),
        (judged(99, faults=3, age_s=0.0), Move.REVERT),
        (judged(99, slow=20, age_s=0.0), Move.REVERT),
        (judged(20, faults=1), Move.HOLD),
        (judged(20, faults=1, age_s=61.0), Move.REVERT),
        (judged(1_000, faults=1), Move.ADVANCE),
        (judged(99, slow=1), Move.ADVANCE),
        (judged(5, ready=0), Move.HOLD),
        (judged(5, ready=0, absent_s=GONE_S), Move.HOLD),
        (judged(5, ready=0, absent_s=GONE_S + 0.1), Move.REVERT),
        (judged(99, faults=3, ready=0), Move.REVERT),
        (judged(5, ready=None), Move.HOLD),
        (judged(None), Move.HOLD),
        (judged(None, age_s=61.0), Move.REVERT),
        (judged(0), Move.HOLD),
        (judged(5, terms=PROOF), Move.HOLD),
        (judged(400, terms=PROOF), Move.ADVANCE),
    ],
)
def test_moves(decision: Decision, move: Move) -> None:
    assert decision.move is move
    assert decision.reason


def test_replicas_are_absent_from_the_first_of_the_looks_that_all_find_none() -> None:
    looks = [(0.0, 1), (1.0, 0), (2.0, 0), (3.0, None), (4.0, 0), (5.0, 2)]
    since: float | None = None
    found = [since := absent_since(since, ready, now_s) for now_s, ready in looks]
    assert found == [None, 1.0, 1.0, None, 4.0, None]


counts = st.integers(0, 20_000)


@given(requests=counts, faults=counts, more=counts, slow=counts, age_s=st.floats(0, 100))
def test_more_faults_never_favor_it(
    requests: int, faults: int, more: int, slow: int, age_s: float
) -> None:
    many, few = min(requests, faults + more), min(requests, faults)
    slow = min(requests, slow)
    better = judged(requests, few, slow, age_s=age_s)
    worse = judged(requests, many, slow, age_s=age_s)
    assert FAVOR.index(worse.move) <= FAVOR.index(better.move)


@given(requests=counts, faults=counts, slow=counts, more=counts, age_s=st.floats(0, 100))
def test_more_slow_requests_never_favor_it(
    requests: int, faults: int, slow: int, more: int, age_s: float
) -> None:
    faults = min(requests, faults)
    better = judged(requests, faults, min(requests, slow), age_s=age_s)
    worse = judged(requests, faults, min(requests, slow + more), age_s=age_s)
    assert FAVOR.index(worse.move) <= FAVOR.index(better.move)


@given(
    age_s=st.floats(0, 1000), requests=counts, faults=counts, slow=counts, ready=st.integers(0, 5)
)
def test_goes_on_only_after_the_time_with_enough_requests_and_no_budget_in_doubt(
    age_s: float, requests: int, faults: int, slow: int, ready: int
) -> None:
    faults, slow = min(requests, faults), min(requests, slow)
    decision = judged(requests, faults, slow, ready=ready, age_s=age_s)
    if decision.move is Move.ADVANCE:
        assert {t.finding for t in decision.trials} <= {Finding.LIKELY, Finding.KEPT}
        assert requests >= 5
        assert age_s >= POLICY.bake_s
        assert ready > 0
    if age_s >= POLICY.step_timeout_s:
        assert decision.move is not Move.HOLD


@given(age_s=st.floats(0, 59.9), ready=st.none() | st.integers(1, 5))
def test_without_counts_nothing_is_decided(age_s: float, ready: int | None) -> None:
    decision = judged(None, ready=ready, age_s=age_s)
    assert (decision.move, decision.trials) == (Move.HOLD, ())


@given(faults=counts, slow=counts, requests=counts)
def test_what_the_old_version_does_changes_no_decision(
    faults: int, slow: int, requests: int
) -> None:
    other = counted(requests, min(faults, requests), min(slow, requests))
    for mine in (counted(100), counted(100, faults=50), counted(3)):
        alone = Observation(counted=mine, ready_replicas=1)
        beside = dataclasses.replace(alone, beside=other)
        first, second = (decide(TERMS, step_age_s=11.0, observed=o) for o in (alone, beside))
        assert first.move is second.move


def test_reason_says_which_half_of_the_promise_and_by_how_much() -> None:
    slow = judged(1_234, slow=500)
    assert slow.reason == (
        "latency: 500 of 1,234 slower than 1000 ms, allowed at most 1.000% (burn 40.5)"
    )
    faulty = judged(100, faults=10)
    assert faulty.reason.startswith("availability: 10 of 100 server faults, allowed at most 0.1")


def test_going_on_without_proof_says_what_would_be_one() -> None:
    assert "222 would show it" in judged(5).reason
    assert "would show" not in judged(5_000).reason


def test_a_request_that_the_edge_gave_up_on_is_slow_too() -> None:
    seen = dataclasses.replace(counted(40, faults=20), timeouts=20)
    decision = decide(
        dataclasses.replace(TERMS, slis=(Sli.LATENCY,)),
        step_age_s=0.0,
        observed=Observation(counted=seen, ready_replicas=1),
    )
    assert decision.move is Move.REVERT


def test_who_goes_back_is_not_held_up_by_the_promise() -> None:
    back = TERMS.at_once()
    assert back.policy.steps == (100,)
    assert judged(200, faults=10, slow=200, terms=back).move is Move.ADVANCE
    assert judged(10, faults=9, terms=back).move is Move.REVERT
    assert PROOF.at_once().policy.min_answers == 5


RUNS, LOOKS, PER_LOOK = 400, 40, 100


def step(terms: Terms, rng: random.Random, faulty: float, slow: float) -> Decision:
    """One step with a look after every hundred requests, to its end or its time limit."""
    requests, faults, late = 0, 0, 0
    for look in range(LOOKS + 1):
        decision = judged(
            requests, faults, late, terms=terms, age_s=look * POLICY.step_timeout_s / LOOKS
        )
        if decision.move is not Move.HOLD:
            break
        requests += PER_LOOK
        faults += sum(rng.random() < faulty for _ in range(PER_LOOK))
        late += sum(rng.random() < slow for _ in range(PER_LOOK))
    return decision


def share_broken(availability: float, latency: float) -> float:
    """How often a version is found to break a promise, by the rates that its budgets burn at."""
    long = dataclasses.replace(TERMS, policy=dataclasses.replace(POLICY, bake_s=59.0))
    rng = random.Random(17)
    chances = (
        availability * PROMISE.budget(Sli.AVAILABILITY),
        latency * PROMISE.budget(Sli.LATENCY),
    )
    ends = [step(long, rng, *chances) for _ in range(RUNS)]
    return sum(any(t.finding is Finding.BROKEN for t in e.trials) for e in ends) / RUNS


def test_version_exactly_at_its_promise_is_rarely_taken_back_however_often_one_looks() -> None:
    # Two tests of ALPHA each; three standard errors of so many runs on top.
    limit = 2 * trial.ALPHA
    assert share_broken(1.0, 1.0) <= limit + 3 * math.sqrt(limit / RUNS)


@pytest.mark.parametrize("burns", [(20.0, 0.1), (0.1, 20.0)])
def test_version_that_burns_one_budget_twenty_times_too_fast_is_nearly_always_taken_back(
    burns: tuple[float, float],
) -> None:
    assert share_broken(*burns) >= 0.98


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"steps": (10, 50)}, "exactly 100"),
        ({"steps": ()}, "exactly 100"),
        ({"steps": (50, 10, 100)}, "rise"),
        ({"steps": (0, 100)}, "at least 1"),
        ({"replicas": 0}, "replicas"),
        ({"bake_s": -1.0}, "bake_s"),
        ({"min_answers": -1}, "min_answers"),
    ],
)
def test_bad_policies_are_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        RolloutPolicy(**settings)  # type: ignore[arg-type]
