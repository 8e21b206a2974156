"""A call, step by step, with time and answers in the test's hand."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from serving.client import core, errors, retry, types

ANSWER = {
    "model": "grammar",
    "version": 3,
    "corrected": "She goes.",
    "edits": [{"start": 4, "end": 6, "original": "go", "replacement": "goes"}],
    "finish_reason": "stop",
    "request_id": "r-1",
    "a field of a later version": 1,
}


class Clock:
    """Moves when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def config(**changes: Any) -> core.Config:
    given: dict[str, Any] = {
        "base_url": "http://127.0.0.1:8000",
        "timeout_s": 10.0,
        "deadline_s": 30.0,
        "policy": retry.RetryPolicy(retries=2),
        "api_key": None,
        "model": None,
    }
    return core.Config(**{**given, **changes})


def reply(status: int, data: object = None, **headers: str) -> retry.Reply:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return retry.Reply(status=status, headers=headers, body=body)


def drive(
    flow: core.Flow[core.T], *outcomes: retry.Reply | retry.Failure, clock: Clock | None = None
) -> tuple[core.T, list[core.Send], list[float]]:
    """Run a call; each attempt gets the next outcome, and waiting moves the clock."""
    sent: list[core.Send] = []
    pauses: list[float] = []
    left = list(outcomes)
    answer: retry.Reply | retry.Failure | None = None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as done:
            assert not left
            return done.value, sent, pauses
        if isinstance(step, core.Send):
            sent.append(step)
            answer = left.pop(0)
        else:
            pauses.append(step.delay_s)
            answer = None
            if clock is not None:
                clock.now_s += step.delay_s


def chance(clock: Clock | None = None) -> core.Chance:
    fixed = clock or Clock()
    return core.Chance(monotonic_s=fixed, unix_s=fixed, rng=random.Random(3))


def test_a_correction_is_read_and_printed_as_its_text() -> None:
    found, sent, _ = drive(core.correct(config(), chance(), "She go."), reply(200, ANSWER))
    assert str(found) == "She goes."
    assert found.edits == (types.Edit(start=4, end=6, original="go", replacement="goes"),)
    assert (found.model, found.version, found.request_id) == ("grammar", 3, "r-1")
    assert (sent[0].method, sent[0].path) == ("POST", "/v1/corrections")
    assert json.loads(sent[0].content) == {"text": "She go."}


def test_the_request_id_stays_and_the_time_left_shrinks_over_retries() -> None:
    clock = Clock()
    flow = core.correct(config(timeout_s=30.0), chance(clock), "a")
    _, sent, pauses = drive(
        flow,
        reply(503, {}, **{"retry-after": "5"}),
        reply(503, {}, **{"retry-after": "5"}),
        reply(200, ANSWER),
        clock=clock,
    )
    assert len({step.headers["x-request-id"] for step in sent}) == 1
    left_ms = [int(step.headers["x-request-timeout-ms"]) for step in sent]
    assert left_ms[0] == 30_000
    assert left_ms[1] == int((30.0 - pauses[0]) * 1000)
    assert left_ms[2] < 20_000
    assert [step.timeout_s * 1000 for step in sent] == pytest.approx(left_ms, abs=1)


def test_an_attempt_never_gets_more_than_its_own_limit() -> None:
    _, sent, _ = drive(core.correct(config(timeout_s=2.0), chance(), "a"), reply(200, ANSWER))
    assert sent[0].headers["x-request-timeout-ms"] == "2000"


def test_key_and_model_travel_in_headers() -> None:
    settings = config(api_key="secret", model="grammar")
    _, sent, _ = drive(core.correct(settings, chance(), "a"), reply(200, ANSWER))
    assert sent[0].headers["authorization"] == "Bearer secret"
    assert sent[0].headers["x-liftlock-model"] == "grammar"


COMPLETION = {
    "model": "grammar",
    "choices": [{"text": " done", "finish_reason": "length"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}
MODELS = {"data": [{"id": "grammar", "version": 3}, {"id": "other"}]}


def test_a_completion_asks_for_the_models_name_when_it_has_none() -> None:
    flow = core.complete(config(), chance(), "p", {"max_tokens": 2, "seed": None})
    found, sent, _ = drive(
        flow, reply(200, MODELS), reply(200, COMPLETION, **{"x-liftlock-version": "3"})
    )
    assert str(found) == " done"
    assert (found.version, found.prompt_tokens, found.completion_tokens) == (3, 3, 2)
    assert json.loads(sent[1].content) == {"model": "grammar", "prompt": "p", "max_tokens": 2}


@pytest.mark.parametrize(("temperature", "attempts"), [(0.0, 2), (1.0, 1), (None, 1)])
def test_only_a_greedy_completion_is_repeated_after_a_broken_connection(
    temperature: float | None, attempts: int
) -> None:
    broken = retry.Failure(kind=retry.FailureKind.BROKEN, reason="reset")
    flow = core.complete(config(model="m"), chance(), "p", {"temperature": temperature})
    if attempts == 1:
        with pytest.raises(errors.ConnectionFailed):
            drive(flow, broken)
    else:
        assert len(drive(flow, broken, reply(200, COMPLETION))[1]) == attempts


def test_models_are_listed_with_their_versions() -> None:
    found, _, _ = drive(core.models(config(), chance()), reply(200, MODELS))
    assert found == (types.Model(id="grammar", version=3), types.Model(id="other", version=None))


def test_an_unhappy_endpoint_is_a_result_and_a_silent_one_an_error() -> None:
    well, _, _ = drive(core.health(config(), chance()), reply(200, {}))
    assert well.ok
    settings = config(policy=retry.RetryPolicy(retries=0))
    ill, _, _ = drive(
        core.health(settings, chance()), reply(503, {"error": {"message": "draining"}})
    )
    assert not ill.ok
    assert "draining" in ill.detail
    silent = retry.Failure(kind=retry.FailureKind.NOT_SENT, reason="refused")
    with pytest.raises(errors.ConnectionFailed):
        drive(core.health(settings, chance()), silent)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.BadRequest),
        (401, errors.NotAllowed),
        (403, errors.NotAllowed),
        (404, errors.NotFound),
        (408, errors.DeadlineExceeded),
        (413, errors.BadRequest),
        (429, errors.Overloaded),
        (500, errors.ServerFault),
        (502, errors.ServerFault),
        (503, errors.Overloaded),
        (504, errors.DeadlineExceeded),
        (302, errors.ServerFault),
    ],
)
def test_each_refusal_has_its_error_with_the_endpoints_own_words(
    status: int, kind: type[errors.ClientError]
) -> None:
    said = {"error": {"message": "text must not be empty", "type": "t", "code": "c"}}
    settings = config(policy=retry.RetryPolicy(retries=0))
    with pytest.raises(kind, match="text must not be empty") as raised:
        drive(core.correct(settings, chance(), ""), reply(status, said))
    assert raised.value.status == status
    assert raised.value.request_id in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "error", "advice"),
    [
        (retry.FailureKind.NOT_SENT, errors.ConnectionFailed, "Is the endpoint running there"),
        (retry.FailureKind.TIMEOUT, errors.DeadlineExceeded, "Allow more with timeout_s"),
    ],
)
def test_no_answer_is_an_error_that_says_what_to_do(
    kind: retry.FailureKind, error: type[errors.ClientError], advice: str
) -> None:
    settings = config(policy=retry.RetryPolicy(retries=0))
    with pytest.raises(error, match=f"because.*{advice}"):
        drive(core.correct(settings, chance(), "a"), retry.Failure(kind=kind, reason="because"))


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b"\xff", b"null"])
def test_an_answer_that_is_none_is_the_servers_fault(body: bytes) -> None:
    with pytest.raises(errors.ServerFault, match="Is the address that of a liftlock endpoint"):
        drive(core.correct(config(), chance(), "a"), reply(200, body))


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway", b'{"error": 3}', b"\xff\xfe"])
def test_a_refusal_without_a_message_still_says_something(body: bytes) -> None:
    with pytest.raises(errors.ServerFault, match="status 500"):
        drive(core.correct(config(), chance(), "a"), reply(500, body))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("base_url", "127.0.0.1:8000"),
        ("base_url", "http://"),
        ("base_url", "ftp://host"),
        ("base_url", "http://host:port"),
        ("timeout_s", 0.0),
        ("deadline_s", -1.0),
        ("api_key", "k\u00e9y"),
        ("model", "m\u00f6del"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        config(**{field: value})
