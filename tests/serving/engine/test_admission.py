"""What is taken and what is refused, for any load, pace and deadline."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from serving.engine import admission
from serving.engine.admission import Bounds, Load, Pace, Refusal

BOUNDS = Bounds(max_in_flight=256, max_waiting=1_024)
seconds = st.floats(0.0, 1e4)
loads = st.builds(
    Load, in_flight=st.integers(0, 300), sequences=st.integers(0, 2_000), slots=st.integers(1, 512)
)
paces = st.builds(Pace, mean_s=seconds, spread_s=seconds, seen_at_s=st.just(0.0))


def taken(load: Load, pace: Pace | None, left_s: float, now_s: float = 0.0) -> bool:
    return admission.decide(load, BOUNDS, pace, left_s=left_s, now_s=now_s).refusal is None


@given(loads, paces, seconds, seconds)
def test_no_bound_is_ever_passed(load: Load, pace: Pace, left_s: float, now_s: float) -> None:
    if taken(load, pace, left_s, now_s):
        assert load.in_flight < BOUNDS.max_in_flight
        assert load.waiting < BOUNDS.max_waiting


@given(loads, paces, seconds)
def test_a_refusal_says_when_to_come_back(load: Load, pace: Pace, left_s: float) -> None:
    decision = admission.decide(load, BOUNDS, pace, left_s=left_s, now_s=0.0)
    if decision.refusal is None:
        assert decision.retry_after_s == 0
    else:
        assert 1 <= decision.retry_after_s <= admission.MOST_RETRY_AFTER_S


@given(loads, paces, seconds, seconds)
def test_more_time_never_turns_a_yes_into_a_no(
    load: Load, pace: Pace, left_s: float, more_s: float
) -> None:
    if taken(load, pace, left_s):
        assert taken(load, pace, left_s + more_s)


@given(loads, paces, seconds, st.integers(0, 500))
def test_a_longer_queue_never_turns_a_no_into_a_yes(
    load: Load, pace: Pace, left_s: float, more: int
) -> None:
    longer = Load(in_flight=load.in_flight, sequences=load.sequences + more, slots=load.slots)
    if not taken(load, pace, left_s):
        assert not taken(longer, pace, left_s)


@given(loads, paces)
def test_without_a_deadline_only_bounds_refuse(load: Load, pace: Pace) -> None:
    decision = admission.decide(load, BOUNDS, pace, left_s=math.inf, now_s=0.0)
    assert decision.refusal is not Refusal.TOO_LATE


@given(paces, st.floats(0.001, 1e4))
def test_a_replica_that_refused_everything_asks_again(pace: Pace, left_s: float) -> None:
    """Else one stall would keep an idle replica from ever learning that it is over."""
    idle = Load(in_flight=0, sequences=0, slots=8)
    assert taken(idle, pace, left_s, now_s=400.0)


@given(loads, seconds)
def test_nothing_known_refuses_nothing_for_its_deadline(load: Load, left_s: float) -> None:
    decision = admission.decide(load, BOUNDS, None, left_s=left_s, now_s=0.0)
    assert decision.refusal is not Refusal.TOO_LATE


@given(st.floats(0.01, 10.0), st.integers(1, 64), st.integers(0, 500))
def test_the_pace_is_found_whatever_the_queue(round_s: float, slots: int, held: int) -> None:
    """An engine that takes `round_s` a round: the estimate is what the next one would take."""
    stayed = admission.rounds(held, slots)
    pace = None
    for tick in range(200):
        pace = admission.observed(
            pace, took_s=round_s * stayed, stayed_rounds=stayed, now_s=float(tick)
        )
    assert pace is not None
    assert math.isclose(pace.mean_now_s(199.0), round_s, rel_tol=1e-6)
    load = Load(in_flight=0, sequences=slots + held, slots=slots)
    assert math.isclose(
        admission.wait_s(load, pace, 199.0), round_s * (held + 1) / slots, rel_tol=1e-6
    )


@given(paces, seconds, seconds)
def test_a_stopped_sequence_never_makes_the_engine_look_faster(
    pace: Pace, took_s: float, now_s: float
) -> None:
    after = admission.stopped(pace, took_s=took_s, stayed_rounds=1.0, now_s=now_s)
    assert after is not None
    assert after.mean_now_s(now_s) >= pace.mean_now_s(now_s)


def test_a_full_queue_and_a_near_deadline_have_names_of_their_own() -> None:
    pace = Pace(mean_s=1.0, spread_s=0.0, seen_at_s=0.0)
    busy = Load(in_flight=40, sequences=40, slots=8)  # 33 / 8 rounds until the next begins
    late = admission.decide(busy, BOUNDS, pace, left_s=2.0, now_s=0.0)
    assert (late.refusal, late.retry_after_s) == (Refusal.TOO_LATE, 4)
    assert taken(busy, pace, left_s=5.2)
    tight = Bounds(max_in_flight=40, max_waiting=10)
    assert admission.decide(busy, tight, pace, left_s=9.0, now_s=0.0).refusal is Refusal.FULL
    wide = Bounds(max_in_flight=41, max_waiting=32)
    full = admission.decide(busy, wide, pace, left_s=9.0, now_s=0.0)
    assert (full.refusal, full.retry_after_s) == (Refusal.QUEUE_FULL, 5)
