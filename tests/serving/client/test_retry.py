"""Retries happen where they do no harm, within the time there is."""

from __future__ import annotations

import email.utils
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.client import retry

POLICY = retry.RetryPolicy(retries=2, base_s=0.1, cap_s=2.0)
OUTCOMES = st.one_of(
    st.builds(retry.Failure, kind=st.sampled_from(retry.FailureKind), reason=st.just("because")),
    st.builds(
        retry.Reply,
        status=st.sampled_from([200, 400, 404, 408, 429, 500, 502, 503, 504]),
        headers=st.sampled_from([{}, {"retry-after": "1"}, {"retry-after": "soon"}]),
        body=st.just(b""),
    ),
)


def reply(status: int, **headers: str) -> retry.Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return retry.Reply(status=status, headers=named, body=b"")


def failure(kind: retry.FailureKind) -> retry.Failure:
    return retry.Failure(kind=kind, reason="because")


def pause(
    outcome: retry.Reply | retry.Failure,
    *,
    attempt: int = 1,
    idempotent: bool = True,
    remaining_s: float = 30.0,
) -> float | None:
    situation = retry.Situation(
        attempt=attempt, idempotent=idempotent, remaining_s=remaining_s, unix_s=1_000.0
    )
    return retry.pause_s(POLICY, outcome, situation, random.Random(1))


@pytest.mark.parametrize(
    ("outcome", "always", "when_idempotent"),
    [
        (failure(retry.FailureKind.NOT_SENT), True, True),
        (failure(retry.FailureKind.BROKEN), False, True),
        (failure(retry.FailureKind.TIMEOUT), False, False),
        (failure(retry.FailureKind.UNREADABLE), False, False),
        (reply(429), True, True),
        (reply(503), True, True),
        (reply(502), False, True),
        (reply(504), False, True),
        (reply(500), False, False),
        (reply(408), False, False),
        (reply(400), False, False),
        (reply(404), False, False),
    ],
)
def test_what_is_sent_again(
    outcome: retry.Reply | retry.Failure, always: bool, when_idempotent: bool
) -> None:
    assert (pause(outcome, idempotent=False) is not None) == always
    assert (pause(outcome, idempotent=True) is not None) == when_idempotent


def test_retries_are_limited() -> None:
    assert pause(reply(503), attempt=2) is not None
    assert pause(reply(503), attempt=3) is None


def test_a_failed_connection_moves_on_at_once_where_there_is_another_address() -> None:
    def moved(outcome: retry.Reply | retry.Failure, attempt: int, left_s: float) -> float | None:
        situation = retry.Situation(
            attempt=attempt, idempotent=True, remaining_s=left_s, unix_s=0.0, untried=True
        )
        return retry.pause_s(POLICY, outcome, situation, random.Random(1))

    assert moved(failure(retry.FailureKind.NOT_SENT), 9, 1.0) == 0.0
    assert moved(failure(retry.FailureKind.NOT_SENT), 9, 0.0) is None
    assert moved(failure(retry.FailureKind.BROKEN), 1, 1.0) == 0.0
    assert moved(failure(retry.FailureKind.BROKEN), 3, 1.0) is None
    assert moved(failure(retry.FailureKind.TIMEOUT), 1, 1.0) is None
    assert moved(reply(429, retry_after="4"), 1, 9.0) is not None


def test_retry_after_is_waited_for_in_seconds_or_until_a_date() -> None:
    seconds = pause(reply(429, retry_after="4"))
    assert seconds is not None
    assert 4.0 <= seconds <= 4.1
    date = email.utils.formatdate(1_006.0, usegmt=True)
    until = pause(reply(429, retry_after=date))
    assert until is not None
    assert 6.0 <= until <= 6.1


def test_a_pause_that_does_not_fit_the_deadline_is_not_begun() -> None:
    assert pause(reply(429, retry_after="4"), remaining_s=3.0) is None
    assert pause(reply(503), remaining_s=0.0) is None


@given(OUTCOMES, st.integers(1, 60), st.booleans(), st.floats(-5.0, 60.0), st.integers(0, 2**32))
def test_a_pause_is_never_negative_and_never_beyond_the_deadline(
    outcome: retry.Reply | retry.Failure,
    attempt: int,
    idempotent: bool,
    remaining_s: float,
    seed: int,
) -> None:
    policy = retry.RetryPolicy(retries=100)
    situation = retry.Situation(
        attempt=attempt, idempotent=idempotent, remaining_s=remaining_s, unix_s=0.0
    )
    found = retry.pause_s(policy, outcome, situation, random.Random(seed))
    assert found is None or 0.0 <= found < remaining_s
    assert found is None or found <= policy.cap_s + 1.0


def test_pauses_grow_and_are_spread() -> None:
    policy, outcome = retry.RetryPolicy(retries=9, base_s=0.1, cap_s=2.0), reply(503)

    def longest_s(attempt: int) -> float:
        situation = retry.Situation(attempt=attempt, idempotent=True, remaining_s=60.0, unix_s=0.0)
        rng = random.Random(7)
        pauses = [retry.pause_s(policy, outcome, situation, rng) or 0.0 for _ in range(500)]
        assert min(pauses) < 0.1 * max(pauses)
        return max(pauses)

    assert longest_s(1) == pytest.approx(0.1, rel=0.05)
    assert longest_s(3) == pytest.approx(0.4, rel=0.05)
    assert longest_s(8) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize("settings", [{"retries": -1}, {"base_s": 0.0}, {"base_s": 3.0}])
def test_a_senseless_policy_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        retry.RetryPolicy(**settings)  # type: ignore[arg-type]
