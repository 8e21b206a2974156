"""Addresses, fail-over and races of a call, with time and answers in the test's hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.client import calls, errors, retry, settings, steps, types
from serving.client.hedge import Hedge
from tests.serving.client.test_calls import ANSWER, Clock, correct, drive, reply, session

ADDRESSES = ("http://a", "http://b", "http://c")
GOOD = reply(200, ANSWER)
FULL = reply(503, {})
UNREACHED = retry.Failure(kind=retry.FailureKind.NOT_SENT, reason="refused")
BROKEN = retry.Failure(kind=retry.FailureKind.BROKEN, reason="reset")
LATE = retry.Failure(kind=retry.FailureKind.TIMEOUT, reason="slow")
NO_RETRIES = retry.RetryPolicy(retries=0)
Step = steps.Send | steps.Wait | steps.Race


def counts(own: settings.Session) -> list[int]:
    return [each.in_flight for each in own.edges.stats().edges]


def test_a_refused_connection_moves_on_at_once_and_costs_no_retry() -> None:
    own = session(addresses=ADDRESSES, policy=NO_RETRIES)
    found, sent, pauses = drive(correct("a", own), UNREACHED, UNREACHED, GOOD)
    assert found.version == 3
    assert {step.address for step in sent} == set(ADDRESSES)
    assert pauses == []


def test_when_every_address_was_tried_the_error_names_them() -> None:
    own = session(addresses=ADDRESSES, policy=NO_RETRIES)
    with pytest.raises(errors.ConnectionFailed) as raised:
        drive(correct("a", own), UNREACHED, UNREACHED, UNREACHED)
    assert all(address in str(raised.value) for address in ADDRESSES)
    assert counts(own) == [0, 0, 0]


def test_a_broken_connection_is_retried_elsewhere_without_a_pause() -> None:
    own = session(addresses=ADDRESSES)
    _, sent, pauses = drive(correct("a", own), BROKEN, GOOD)
    assert sent[0].address != sent[1].address
    assert pauses == []


def test_a_full_endpoint_is_given_its_pause_also_where_there_is_another() -> None:
    own = session(addresses=ADDRESSES)
    _, sent, pauses = drive(correct("a", own), reply(429, {}, **{"retry-after": "2"}), GOOD)
    assert sent[0].address != sent[1].address
    assert pauses[0] >= 2.0


def test_a_failed_address_is_not_asked_by_the_next_calls() -> None:
    own = session(addresses=ADDRESSES)
    _, sent, _ = drive(correct("a", own), UNREACHED, GOOD)
    failed = sent[0].address
    for _ in range(20):
        _, sent, _ = drive(correct("a", own), GOOD)
        assert sent[0].address != failed


def racing(**hedge: float) -> tuple[settings.Session, Clock]:
    clock = Clock()
    given = {"delay_s": 0.1, "budget": 1.0, **hedge}
    return session(clock, addresses=ADDRESSES, hedge=Hedge(**given)), clock


def race(own: settings.Session) -> tuple[steps.Flow[types.Correction], steps.Race]:
    flow = correct("a", own)
    step = flow.send(None)
    assert isinstance(step, steps.Race)
    return flow, step


def finish(flow: steps.Flow[steps.T], outcome: steps.Raced) -> steps.T:
    with pytest.raises(StopIteration) as done:
        flow.send(outcome)
    result: steps.T = done.value.value
    return result


def test_the_second_attempt_goes_elsewhere_with_the_time_that_is_left() -> None:
    own, clock = racing()
    flow, step = race(own)
    clock.now_s += 25.0
    second = step.second()
    assert second is not None
    assert second.address != step.first.address
    assert second.headers["x-request-id"] == step.first.headers["x-request-id"]
    assert second.headers["x-request-timeout-ms"] == "5000"
    assert sum(counts(own)) == 2
    assert finish(flow, steps.Raced(first=None, second=GOOD)).version == 3
    assert counts(own) == [0, 0, 0]


def test_without_a_token_there_is_no_second_attempt() -> None:
    own, _ = racing(budget=0.01)
    taken = []
    for _ in range(50):
        flow, step = race(own)
        taken.append(step.second() is not None)
        finish(flow, steps.Raced(first=GOOD, second=None))
    assert sum(taken) == 1


def test_two_failures_side_by_side_are_retried_like_one() -> None:
    own, _ = racing()
    flow, step = race(own)
    step.second()
    again = flow.send(steps.Raced(first=UNREACHED, second=BROKEN))
    assert isinstance(again, steps.Send)
    assert again.address not in (step.first.address,)
    with pytest.raises(StopIteration):
        flow.send(GOOD)


@pytest.mark.parametrize(("first", "second"), [(FULL, GOOD), (GOOD, FULL), (UNREACHED, GOOD)])
def test_the_good_answer_of_two_is_taken(first: steps.Outcome, second: steps.Outcome) -> None:
    own, _ = racing()
    flow, step = race(own)
    step.second()
    assert finish(flow, steps.Raced(first=first, second=second)).version == 3


def test_a_full_endpoint_empties_the_budget() -> None:
    own, _ = racing(budget=0.01)
    flow, _ = race(own)
    flow.send(steps.Raced(first=FULL, second=None))
    flow.close()
    _, step = race(own)
    assert step.second() is None


def test_an_address_that_always_hangs_is_passed_over_although_hedging_hides_it() -> None:
    own, _ = racing()
    hanging = ADDRESSES[0]
    for _ in range(100):
        flow, step = race(own)
        second = step.second() if step.first.address == hanging else None
        good = steps.Raced(first=None if second else GOOD, second=GOOD if second else None)
        finish(flow, good)
    assert [each.is_left_out for each in own.edges.stats().edges] == [True, False, False]


@pytest.mark.parametrize("temperature", [None, 0.7])
def test_what_may_not_be_done_twice_is_not_raced(temperature: float | None) -> None:
    own = session(model="m", addresses=ADDRESSES, hedge=Hedge(delay_s=0.0))
    flow = calls.complete(own, "p", {"temperature": temperature}, settings.Wish())
    assert isinstance(flow.send(None), steps.Send)
    flow.close()


def test_the_observed_quantile_decides_when_no_delay_is_given() -> None:
    clock = Clock()
    own = session(clock, hedge=Hedge(quantile=0.5))
    for _ in range(20):
        flow = correct("a", own)
        assert isinstance(flow.send(None), steps.Send)
        clock.now_s += 0.2
        with pytest.raises(StopIteration):
            flow.send(GOOD)
    _, step = race(own)
    assert step.after_s == pytest.approx(0.2)


OUTCOMES = st.sampled_from([GOOD, FULL, UNREACHED, BROKEN, LATE, reply(400, {})])
ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["begin", "advance", "second", "cancel"]), st.integers(0, 9), OUTCOMES
    ),
    max_size=60,
)


def advance(
    flow: steps.Flow[types.Correction], step: Step, outcome: steps.Outcome, *, began: bool
) -> Step | None:
    """The next step of a call; None where it is over."""
    answer: steps.Outcome | steps.Raced | None = outcome
    if isinstance(step, steps.Race):
        first_left = began and outcome is GOOD
        answer = steps.Raced(
            first=None if first_left else outcome, second=outcome if began else None
        )
    try:
        return flow.send(None if isinstance(step, steps.Wait) else answer)
    except (StopIteration, errors.ClientError):
        return None


@given(ACTIONS, st.booleans(), st.integers(0, 1000))
def test_no_interleaving_of_success_failure_and_cancel_leaks_a_count(
    actions: list[tuple[str, int, steps.Outcome]], hedged: bool, seed: int
) -> None:
    own = session(addresses=ADDRESSES, hedge=Hedge(delay_s=0.0, budget=1.0) if hedged else None)
    own.chance.rng.seed(seed)
    open_calls: list[tuple[steps.Flow[types.Correction], Step]] = []
    began: set[int] = set()
    for action, position, outcome in actions:
        if action == "begin":
            flow = correct("a", own)
            open_calls.append((flow, flow.send(None)))
            continue
        if not open_calls:
            continue
        flow, step = open_calls.pop(position % len(open_calls))
        if action == "cancel":
            flow.close()
            began.discard(id(flow))
            continue
        if action == "second" and isinstance(step, steps.Race) and id(flow) not in began:
            if step.second() is not None:
                began.add(id(flow))
            open_calls.append((flow, step))
            continue
        following = advance(flow, step, outcome, began=id(flow) in began)
        began.discard(id(flow))
        if following is not None:
            open_calls.append((flow, following))
    attempts = sum(not isinstance(step, steps.Wait) for _, step in open_calls)
    beside = sum(id(flow) in began for flow, _ in open_calls)
    assert sum(counts(own)) == attempts + beside
    for flow, _ in open_calls:
        flow.close()
    assert counts(own) == [0, 0, 0]


def test_the_choice_is_repeatable_with_the_same_chance_and_reaches_every_address() -> None:
    def addresses() -> list[str]:
        own = session(addresses=ADDRESSES)
        own.chance.rng.seed(9)
        return [drive(correct("a", own), GOOD)[1][0].address for _ in range(20)]

    assert addresses() == addresses()
    assert len(set(addresses())) == len(ADDRESSES)
