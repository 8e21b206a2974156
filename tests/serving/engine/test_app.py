"""Every answer a replica can give that is not a completion or a correction."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import httpx
import pytest

from serving.engine.app import ReplicaApp
from serving.engine.state import Limits, Phase, ReplicaState
from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import error

COMPLETION = {"model": "grammar", "prompt": "she go"}


async def test_too_many_sentences_are_refused(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/corrections", json={"text": "He go. " * 6})
    assert (answer.status_code, error(answer)["code"]) == (413, "too_many_sentences")
    answer = await http.post("/v1/corrections", json={"texts": [" "] * 6})
    assert (answer.status_code, error(answer)["code"]) == (413, "too_many_sentences")


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/corrections"])
async def test_another_model_is_not_found(http: httpx.AsyncClient, path: str) -> None:
    key = "prompt" if path == "/v1/completions" else "text"
    answer = await http.post(path, json={"model": "gpt-4", key: "a"})
    assert (answer.status_code, error(answer)["code"]) == (404, "model_not_found")
    assert error(answer)["param"] == "model"


async def test_an_unknown_path_is_not_found(http: httpx.AsyncClient) -> None:
    answer = await http.get("/v1/chat")
    assert (answer.status_code, error(answer)["code"]) == (404, "unknown_path")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("GET", "/v1/completions", "POST"), ("POST", "/healthz", "GET"), ("PUT", "/metrics", "GET")],
)
async def test_a_wrong_method_names_the_right_one(
    http: httpx.AsyncClient, method: str, path: str, allowed: str
) -> None:
    answer = await http.request(method, path)
    assert (answer.status_code, error(answer)["code"]) == (405, "wrong_method")
    assert answer.headers["allow"] == allowed


async def test_a_late_request_is_stopped_in_the_engine(
    http: httpx.AsyncClient, engine: FakeEngine, state: ReplicaState
) -> None:
    engine.delay_s = 5.0
    answer = await http.post(
        "/v1/completions", json=COMPLETION, headers={"x-request-timeout-ms": "20"}
    )
    assert (answer.status_code, error(answer)["type"]) == (408, "timeout_error")
    assert engine.aborted == [engine.requests[0].request_id]
    assert (engine.running, state.in_flight) == (0, 0)


async def test_one_late_sentence_stops_them_all(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.delay_s = 5.0
    answer = await http.post(
        "/v1/corrections", json={"text": "Ah. Be c. De."}, headers={"x-request-timeout-ms": "20"}
    )
    assert answer.status_code == 408
    assert len(engine.aborted) == 3
    assert engine.running == 0


async def test_a_late_stream_ends_with_an_error_event(
    http: httpx.AsyncClient, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = engine.stream

    async def stalls(request: Any) -> Any:
        async for delta in original(request):
            yield delta
            await asyncio.sleep(5.0)

    monkeypatch.setattr(engine, "stream", stalls)
    answer = await http.post(
        "/v1/completions",
        json={**COMPLETION, "stream": True},
        headers={"x-request-timeout-ms": "30"},
    )
    events = answer.text.strip().split("\n\n")
    assert answer.status_code == 200
    assert "deadline_exceeded" in events[-1]
    assert "[DONE]" not in answer.text


@pytest.mark.parametrize("value", ["0", "-5"])
async def test_a_request_that_comes_late_is_not_started(
    http: httpx.AsyncClient, engine: FakeEngine, value: str
) -> None:
    answer = await http.post(
        "/v1/completions", json=COMPLETION, headers={"x-request-timeout-ms": value}
    )
    assert answer.status_code == 408
    assert engine.requests == []


@pytest.mark.parametrize("value", ["soon", "1.5", "", "9" * 400])
async def test_a_deadline_that_is_no_number_is_refused(http: httpx.AsyncClient, value: str) -> None:
    answer = await http.post(
        "/v1/completions", json=COMPLETION, headers={"x-request-timeout-ms": value}
    )
    assert (answer.status_code, error(answer)["param"]) == (400, "x-request-timeout-ms")


async def test_a_full_replica_says_when_to_come_back(
    http: httpx.AsyncClient, engine: FakeEngine, state: ReplicaState
) -> None:
    engine.delay_s = 0.1
    answers = await asyncio.gather(
        *(http.post("/v1/completions", json=COMPLETION) for _ in range(5))
    )
    full = [answer for answer in answers if answer.status_code == 429]
    assert len(full) == 3
    assert full[0].headers["retry-after"] == "1"
    assert error(full[0])["type"] == "rate_limit_error"
    assert state.in_flight == 0


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.CLOSED])
async def test_a_replica_out_of_service_is_unavailable(
    http: httpx.AsyncClient, state: ReplicaState, phase: Phase
) -> None:
    state.phase = phase
    answer = await http.post("/v1/completions", json=COMPLETION)
    assert (answer.status_code, error(answer)["type"]) == (503, "unavailable_error")
    ready = await http.get("/readyz")
    assert ready.status_code == 503


async def test_a_starting_replica_answers_its_own_warm_up(
    http: httpx.AsyncClient, state: ReplicaState
) -> None:
    state.phase = Phase.STARTING
    for token, status in (("secret", 200), ("guess", 503)):
        headers = {"x-liftlock-warmup": token}
        answer = await http.post("/v1/completions", json=COMPLETION, headers=headers)
        assert answer.status_code == status


async def test_a_leaving_replica_still_answers_but_is_not_ready(
    http: httpx.AsyncClient, state: ReplicaState
) -> None:
    state.phase = Phase.LEAVING
    answer = await http.post("/v1/completions", json=COMPLETION)
    assert (answer.status_code, answer.headers["connection"]) == (200, "close")
    assert (await http.get("/readyz")).status_code == 503
    assert (await http.get("/healthz")).status_code == 200


async def test_a_dead_engine_is_an_error_everywhere(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.dead = True
    answers = [
        await http.post("/v1/completions", json=COMPLETION),
        await http.post("/v1/completions", json={**COMPLETION, "stream": True}),
        await http.post("/v1/corrections", json={"text": "A b. C d."}),
        await http.get("/healthz"),
        await http.get("/readyz"),
    ]
    assert [answer.status_code for answer in answers] == [503] * 5
    assert {answer.headers["retry-after"] for answer in answers} == {"1"}
    assert {error(answer)["code"] for answer in answers} == {"engine_dead"}


async def test_a_bug_is_an_answer_with_its_request_id_and_a_log_line(
    http: httpx.AsyncClient,
    engine: FakeEngine,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(text: str) -> tuple[int, ...]:
        raise ZeroDivisionError("secret inside")

    monkeypatch.setattr(engine, "encode", broken)
    with caplog.at_level(logging.ERROR):
        answer = await http.post(
            "/v1/completions", json=COMPLETION, headers={"x-request-id": "abc"}
        )
    assert (answer.status_code, error(answer)["code"]) == (500, "internal_error")
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] == "abc"
    assert "request_id=abc" in caplog.text


async def test_every_answer_says_who_gave_it(http: httpx.AsyncClient, state: ReplicaState) -> None:
    answers = [
        await http.post("/v1/completions", json=COMPLETION),
        await http.post("/v1/completions", json={**COMPLETION, "stream": True}),
        await http.post("/v1/completions", content=b"{"),
        await http.get("/nowhere"),
        await http.get("/v1/completions"),
        await http.get("/metrics"),
    ]
    for answer in answers:
        assert answer.headers["x-liftlock-model"] == "grammar"
        assert answer.headers["x-liftlock-version"] == "7"
        assert answer.headers["x-liftlock-digest"] == state.identity.digest
        assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("given", "echoed"), [("abc-123", True), ("a" * 129, False), ("a b", False), ("é", False)]
)
async def test_only_a_safe_request_id_is_echoed(
    http: httpx.AsyncClient, given: str, echoed: bool
) -> None:
    answer = await http.get("/healthz", headers={"x-request-id": given.encode("latin-1")})
    assert (answer.headers["x-request-id"] == given) is echoed


async def test_models_lists_the_one_served(http: httpx.AsyncClient) -> None:
    served = (await http.get("/v1/models")).json()["data"]
    assert [(m["id"], m["version"], m["max_model_len"]) for m in served] == [("grammar", 7, 64)]


async def test_metrics_count_answers_tokens_and_load(http: httpx.AsyncClient) -> None:
    await http.post("/v1/completions", json=COMPLETION)
    await http.post("/v1/completions", content=b"{")
    await http.get("/some/path/made/up")
    lines = (await http.get("/metrics")).text.splitlines()
    assert 'liftlock_requests_total{code="200",route="/v1/completions"} 1.0' in lines
    assert 'liftlock_requests_total{code="400",route="/v1/completions"} 1.0' in lines
    assert 'liftlock_requests_total{code="404",route="other"} 1.0' in lines
    assert 'liftlock_request_seconds_count{route="/v1/completions"} 2.0' in lines
    assert 'liftlock_tokens_total{kind="prompt"} 2.0' in lines
    assert 'liftlock_tokens_total{kind="completion"} 2.0' in lines
    assert "liftlock_in_flight 0.0" in lines
    assert "liftlock_waiting 0.0" in lines


async def test_a_caller_that_leaves_is_stopped_in_the_engine(
    app: ReplicaApp, engine: FakeEngine, state: ReplicaState
) -> None:
    engine.delay_s = 5.0
    leave = asyncio.Event()
    sent: list[Any] = []
    body = {"type": "http.request", "body": b'{"text": "He go."}', "more_body": False}
    messages = [body]

    async def receive() -> Any:
        if messages:
            return messages.pop()
        await leave.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/v1/corrections", "headers": []}
    request = asyncio.create_task(app(scope, receive, send))
    for _ in range(20):
        await asyncio.sleep(0)
    assert engine.running == 1
    assert state.in_flight == 1
    leave.set()
    await request
    assert (len(engine.aborted), engine.running, state.in_flight, sent) == (1, 0, 0, [])


async def test_only_http_is_spoken(app: ReplicaApp) -> None:
    async def never() -> Any:
        raise AssertionError

    with pytest.raises(ValueError, match="websocket"):
        await app({"type": "websocket"}, never, never)


def test_limits_name_the_bad_field() -> None:
    with pytest.raises(ValueError, match="max_in_flight must be above 0, got 0"):
        Limits(max_in_flight=0)
