"""A call, step by step, with time and answers in the test's hand."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from serving.client import arguments, calls, errors, retry, settings, steps, types
from serving.client.rate_limit import RateLimit

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


def session(clock: Clock | None = None, **changes: Any) -> settings.Session:
    given: dict[str, Any] = {
        "addresses": ("http://127.0.0.1:8000",),
        "timeout_s": 10.0,
        "deadline_s": 30.0,
        "policy": retry.RetryPolicy(retries=2),
    }
    fixed = clock or Clock()
    chance = settings.Chance(monotonic_s=fixed, unix_s=fixed, rng=random.Random(3))
    return settings.Session(settings.Config(**{**given, **changes}), chance)


def correct(text: str, own: settings.Session, **wish: Any) -> steps.Flow[types.Correction]:
    return calls.correct(own, text, calls.CorrectionOptions(), settings.Wish(**wish))


def complete(own: settings.Session, options: dict[str, Any]) -> steps.Flow[types.Completion]:
    return calls.complete(own, "p", options, settings.Wish())


def reply(status: int, data: object = None, **headers: str) -> retry.Reply:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return retry.Reply(status=status, headers=headers, body=body)


def drive(
    flow: steps.Flow[steps.T], *outcomes: retry.Reply | retry.Failure, clock: Clock | None = None
) -> tuple[steps.T, list[steps.Send], list[float]]:
    """Run a call; each attempt gets the next outcome, and waiting moves the clock."""
    sent: list[steps.Send] = []
    pauses: list[float] = []
    left = list(outcomes)
    answer: retry.Reply | retry.Failure | None = None
    while True:
        try:
            step = flow.send(answer)
        except StopIteration as done:
            assert not left
            return done.value, sent, pauses
        if isinstance(step, steps.Send):
            sent.append(step)
            answer = left.pop(0)
        elif isinstance(step, steps.Wait):
            pauses.append(step.delay_s)
            answer = None
            if clock is not None:
                clock.now_s += step.delay_s
        else:
            raise AssertionError("nothing is raced here")


def test_a_correction_is_read_and_printed_as_its_text() -> None:
    found, sent, _ = drive(correct("She go.", session()), reply(200, ANSWER))
    assert str(found) == "She goes."
    assert found.edits == (types.Edit(start=4, end=6, original="go", replacement="goes"),)
    assert (found.model, found.version, found.request_id) == ("grammar", 3, "r-1")
    assert (sent[0].method, sent[0].path) == ("POST", "/v1/corrections")
    assert json.loads(sent[0].content) == {"text": "She go."}


def test_the_request_id_stays_and_the_time_left_shrinks_over_retries() -> None:
    clock = Clock()
    flow = correct("a", session(clock, timeout_s=30.0))
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
    _, sent, _ = drive(correct("a", session(timeout_s=2.0)), reply(200, ANSWER))
    assert sent[0].headers["x-request-timeout-ms"] == "2000"


def test_key_and_model_travel_in_headers() -> None:
    own = session(api_key="secret", model="grammar")
    _, sent, _ = drive(correct("a", own), reply(200, ANSWER))
    assert sent[0].headers["authorization"] == "Bearer secret"
    assert sent[0].headers["x-liftlock-model"] == "grammar"


def test_what_gives_keys_is_asked_at_each_attempt_and_held_to_them() -> None:
    keys = iter(["first", "second", None, "k\u00e9y"])
    own = session(api_key=lambda: next(keys))
    _, sent, _ = drive(correct("a", own), reply(503, {}), reply(200, ANSWER))
    assert [step.headers["authorization"] for step in sent] == ["Bearer first", "Bearer second"]
    _, sent, _ = drive(correct("a", own), reply(200, ANSWER))
    assert "authorization" not in sent[0].headers
    with pytest.raises(ValueError, match="api_key must be printable ASCII"):
        drive(correct("a", own))
    assert own.edges.stats().edges[0].in_flight == 0


COMPLETION = {
    "model": "grammar",
    "choices": [{"text": " done", "finish_reason": "length"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}
MODELS = {"data": [{"id": "grammar", "version": 3}, {"id": "other"}]}


def test_a_completion_asks_for_the_models_name_when_it_has_none() -> None:
    flow = complete(session(), {"max_tokens": 2, "seed": None})
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
    flow = complete(session(model="m"), {"temperature": temperature})
    if attempts == 1:
        with pytest.raises(errors.ConnectionFailed):
            drive(flow, broken)
    else:
        assert len(drive(flow, broken, reply(200, COMPLETION))[1]) == attempts


def test_models_are_listed_with_their_versions() -> None:
    found, _, _ = drive(calls.models(session()), reply(200, MODELS))
    assert found == (types.Model(id="grammar", version=3), types.Model(id="other", version=None))


def test_an_unhappy_endpoint_is_a_result_and_a_silent_one_an_error() -> None:
    well, _, _ = drive(calls.health(session()), reply(200, {"status": "ok"}))
    assert well.ok
    own = session(policy=retry.RetryPolicy(retries=0))
    ill, _, _ = drive(calls.health(own), reply(503, {"error": {"message": "draining"}}))
    assert not ill.ok
    assert "draining" in ill.detail
    silent = retry.Failure(kind=retry.FailureKind.NOT_SENT, reason="refused")
    with pytest.raises(errors.ConnectionFailed):
        drive(calls.health(own), silent)


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
    own = session(policy=retry.RetryPolicy(retries=0))
    with pytest.raises(error, match=f"because.*{advice}"):
        drive(correct("a", own), retry.Failure(kind=kind, reason="because"))


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b"{}", b"\xff", b"null", b'"a"', b"[" * 200_000, b"1" * 9_999]
)
def test_an_answer_that_is_none_is_the_servers_fault(body: bytes) -> None:
    for flow in (
        correct("a", session()), complete(session(model="m"), {}), calls.models(session())
    ):  # fmt: skip
        with pytest.raises(errors.ServerFault, match="Is the address that of a liftlock endpoint"):
            drive(flow, reply(200, body))  # type: ignore[arg-type]
    ill, _, _ = drive(calls.health(session()), reply(200, body))
    assert not ill.ok


EDIT: dict[str, Any] = ANSWER["edits"][0]  # type: ignore[index]


@pytest.mark.parametrize(
    "change",
    [
        {"corrected": None},
        {"corrected": 3},
        {"version": "3"},
        {"version": True},
        {"version": 3.0},
        {"model": None},
        {"finish_reason": None},
        {"request_id": 7},
        {"edits": None},
        {"edits": {}},
        {"edits": ["go"]},
        {"edits": [{**EDIT, "start": "4"}]},
        {"edits": [{**EDIT, "end": None}]},
        {"edits": [{**EDIT, "original": 1}]},
    ],
)
def test_a_correction_with_a_field_of_another_type_is_the_servers_fault(
    change: dict[str, Any],
) -> None:
    with pytest.raises(errors.ServerFault, match=r"must be of type \w+, found"):
        drive(correct("a", session()), reply(200, {**ANSWER, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {"usage": None},
        {"usage": {"prompt_tokens": 3}},
        {"usage": {"prompt_tokens": 3, "completion_tokens": "2"}},
        {"choices": []},
        {"choices": {}},
        {"choices": [None]},
        {"choices": [{"text": None, "finish_reason": "stop"}]},
        {"choices": [{"text": "a", "finish_reason": None}]},
        {"model": 1},
    ],
)
def test_a_completion_with_a_field_of_another_type_is_the_servers_fault(
    change: dict[str, Any],
) -> None:
    with pytest.raises(errors.ServerFault, match=r"must be of type \w+, found"):
        drive(complete(session(model="m"), {}), reply(200, {**COMPLETION, **change}))


@pytest.mark.parametrize("data", [{}, {"data": None}, {"data": [1]}, {"data": [{"id": None}]},
                                  {"data": [{"id": "m", "version": "1"}]}])  # fmt: skip
def test_a_list_of_models_with_a_field_of_another_type_is_the_servers_fault(data: object) -> None:
    with pytest.raises(errors.ServerFault, match=r"must be of type \w+, found"):
        drive(calls.models(session()), reply(200, data))


def test_a_version_that_is_no_number_counts_as_not_said() -> None:
    strange = reply(200, COMPLETION, **{"x-liftlock-version": "three"})
    assert drive(complete(session(model="m"), {}), strange)[0].version is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("addresses", ()),
        ("addresses", ("http://a", "http://a")),
        ("addresses", ("http://a", "127.0.0.1:8000")),
        ("addresses", ("http://",)),
        ("addresses", ("ftp://host",)),
        ("addresses", ("http://host:port",)),
        ("addresses", ("http://host/?a=b",)),
        ("addresses", ("http://999.1.1.1",)),
        ("addresses", (" http://a",)),
        ("addresses", ("http://a:0",)),
        ("addresses", ("http://a:65536",)),
        ("deadline_s", float("nan")),
        ("version", 0),
        ("timeout_s", 0.0),
        ("deadline_s", -1.0),
        ("api_key", "k\u00e9y"),
        ("model", "m\u00f6del"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=r".+"):
        session(**{field: value})


@pytest.mark.parametrize(
    "address", ["http://secret@a", "http://me:secret@a", "http://me:secret@a:b", "http://a?k=secret",
                "http://a/#secret", "http://secret@a?k=secret", "http://secret@[a?k=secret"],
)  # fmt: skip
@pytest.mark.parametrize("name", ["base_url", "discovery"])
def test_a_key_in_an_address_is_refused_and_not_told(name: str, address: str) -> None:
    with pytest.raises(ValueError, match=name) as refused:
        arguments.address(name, address)
    assert "secret" not in str(refused.value)


def test_health_and_models_ask_whoever_is_there() -> None:
    for flow, data in (
        (calls.health(session(version=2)), {"status": "ok"}),
        (calls.models(session()), MODELS),
    ):
        _, sent, _ = drive(flow, reply(200, data, **{"x-liftlock-version": "3"}))  # type: ignore[arg-type]
        assert "x-liftlock-version-pin" not in sent[0].headers


@pytest.mark.parametrize("stop", ["ab", ["ab"], ("ab",)])
def test_one_stop_may_be_given_as_it_is(stop: Any) -> None:
    options = calls.completion_options(None, None, stop, None)
    _, sent, _ = drive(complete(session(model="m"), options), reply(200, COMPLETION))
    assert json.loads(sent[0].content)["stop"] == ["ab"]


def test_language_and_offsets_travel_in_the_body_where_given() -> None:
    options = calls.CorrectionOptions(language="de", offsets="utf16")
    flow = calls.correct(session(), "a", options, settings.Wish())
    _, sent, _ = drive(flow, reply(200, ANSWER))
    assert json.loads(sent[0].content) == {"text": "a", "language": "de", "offsets": "utf16"}


def test_one_deadline_spans_the_question_for_the_model_and_the_completion() -> None:
    clock = Clock()
    flow = complete(session(clock, timeout_s=30.0), {"temperature": 0})
    _, sent, pauses = drive(
        flow,
        reply(503, {}, **{"retry-after": "5"}),
        reply(200, MODELS),
        reply(200, COMPLETION),
        clock=clock,
    )
    assert int(sent[2].headers["x-request-timeout-ms"]) == int((30.0 - sum(pauses)) * 1000)


def test_a_call_may_have_a_deadline_of_its_own() -> None:
    _, sent, _ = drive(correct("a", session(), deadline_s=3.0), reply(200, ANSWER))
    assert sent[0].headers["x-request-timeout-ms"] == "3000"


def test_what_the_endpoint_says_about_rates_is_on_results_and_errors() -> None:
    said = {"x-ratelimit-limit": "10", "x-ratelimit-remaining": "9", "x-ratelimit-reset": "30"}
    found, _, _ = drive(correct("a", session()), reply(200, ANSWER, **said))
    assert found.rate_limit == RateLimit(limit=10, remaining=9, reset_s=30.0)
    full = reply(429, {}, **{"retry-after": "60"})
    with pytest.raises(errors.Overloaded) as raised:  # longer than the deadline: not waited for
        drive(correct("a", session()), full)
    assert raised.value.retry_after_s == 60.0
    assert found.rate_limit.wait_s is None


def test_an_exhausted_window_is_waited_for_within_the_deadline() -> None:
    spent = reply(429, {}, **{"ratelimit-remaining": "0", "ratelimit-reset": "4"})
    _, _, pauses = drive(correct("a", session()), spent, reply(200, ANSWER))
    assert 4.0 <= pauses[0] <= 4.1
