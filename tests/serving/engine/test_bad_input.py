"""Whatever a caller sends is answered in OpenAI's shape with what is wrong; never 5xx, no hang."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from serving.engine.app import ReplicaApp
from serving.engine.state import Identity, Phase, ReplicaState
from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import LIMITS, MANIFEST, error

PATHS = (
    "/v1/completions",
    "/v1/chat/completions",
    "/v1/corrections",
    "/invocations",
    "/serving-endpoints/grammar/invocations",
)
LONGEST_S = 5.0


class Caller:
    """Sends to apps of its own, each request within a time that only a hang would take."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self._clients: dict[int, httpx.AsyncClient] = {}

    def __call__(
        self, path: str, content: bytes, *, most_bytes: int = LIMITS.max_body_bytes, **headers: str
    ) -> httpx.Response:
        async def ask() -> httpx.Response:
            async with asyncio.timeout(LONGEST_S):
                return await self._client(most_bytes).post(path, content=content, headers=headers)

        return self._runner.run(ask())

    def _client(self, most_bytes: int) -> httpx.AsyncClient:
        if most_bytes not in self._clients:
            limits = dataclasses.replace(LIMITS, max_body_bytes=most_bytes)
            identity = Identity(model="grammar", version=7, digest=MANIFEST.digest)
            state = ReplicaState(identity, limits, warmup_token="s")
            state.phase = Phase.READY
            app = ReplicaApp(FakeEngine(), state, MANIFEST)
            transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
            self._clients[most_bytes] = httpx.AsyncClient(
                transport=transport, base_url="http://replica"
            )
        return self._clients[most_bytes]


@pytest.fixture
def send() -> Iterator[Caller]:
    with asyncio.Runner() as runner:
        yield Caller(runner)


def check(answer: httpx.Response) -> None:
    """An answer, or a refusal of the caller's own fault in the one shape."""
    assert answer.status_code in (200, 400, 404, 413), answer.text
    if answer.status_code != 200:
        assert error(answer)["type"] == "invalid_request_error"
        assert error(answer)["message"]
        assert len(answer.content) < 2_000


NUMBERS = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.sampled_from([10**18, -1, 2**63, 2**64, 10**400])
)
SCALARS = st.one_of(st.none(), NUMBERS, st.text(max_size=20), st.sampled_from(["5", "NaN"]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["model", "prompt", "max_tokens", "temperature", "top_p", "n", "stop", "seed", "stream",
     "stream_options", "user", "text", "texts", "echo", "logit_bias", "best_of", "logprobs",
     "messages", "top_logprobs", "max_completion_tokens", "tools", "offsets", "language",
     "version", "inputs", "instances", "dataframe_split", "dataframe_records", "params",
     "client_request_id", "usage_context", "extra_params", "input"]
)  # fmt: skip
BODIES = st.dictionaries(FIELDS | st.text(max_size=6), VALUES, max_size=4)
RIGHT = {
    "/v1/completions": {"model": "grammar", "prompt": "she go"},
    "/v1/chat/completions": {
        "model": "grammar",
        "messages": [{"role": "user", "content": "she go"}],
    },
    "/v1/corrections": {"text": "He go."},
    "/invocations": {"inputs": ["He go."]},
    "/serving-endpoints/grammar/invocations": {"dataframe_records": [{"text": "He go."}]},
}


def with_text(path: str, text: str) -> str:
    """The right body of a route in JSON, with this JSON text as its text."""
    body = json.dumps(RIGHT[path])
    return body.replace("she go", text).replace("He go.", text)


FUZZ = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)


@FUZZ
@given(path=st.sampled_from(PATHS), body=BODIES, whole=st.booleans())
@example(path="/v1/completions", body={"max_tokens": float("nan")}, whole=True)
@example(path="/v1/completions", body={"max_tokens": float("inf")}, whole=True)
@example(path="/v1/completions", body={"max_tokens": 10**400}, whole=True)
@example(path="/v1/completions", body={"temperature": 10**400}, whole=True)
@example(path="/v1/corrections", body={"text": "\ud800"}, whole=True)
def test_any_json_is_answered_or_refused(
    send: Caller, path: str, body: dict[str, Any], whole: bool
) -> None:
    given_too = RIGHT[path] if whole else {}
    check(send(path, json.dumps({**given_too, **body}).encode()))


@FUZZ
@given(path=st.sampled_from(PATHS), content=st.binary(max_size=100))
def test_any_bytes_are_answered_or_refused(send: Caller, path: str, content: bytes) -> None:
    check(send(path, content))


@pytest.mark.parametrize("path", [path for path in PATHS if path.startswith("/v1")])
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "text/html; charset=latin-1",
    ],
)
def test_the_content_type_does_not_matter_the_content_does(
    send: Caller, path: str, kind: str
) -> None:
    whole = send(path, json.dumps(RIGHT[path]).encode(), **{"content-type": kind})
    assert whole.status_code == 200
    form = send(path, b"text=He+go.", **{"content-type": kind})
    assert (form.status_code, error(form)["code"]) == (400, "bad_json")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("coding", ["gzip", "br", "zstd", "deflate, gzip", "identity", "Identity"])
def test_a_compressed_body_is_refused_with_what_to_do(send: Caller, path: str, coding: str) -> None:
    content = json.dumps(RIGHT[path]).encode()
    answer = send(path, content, **{"content-encoding": coding})
    if coding.lower() == "identity":
        assert answer.status_code == 200
        return
    assert (answer.status_code, error(answer)["code"]) == (415, "unsupported_media_type")
    assert "content-encoding" in error(answer)["message"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("unit", ["a", "a ", "A. ", " ", "\n", "😀", "\\u0000"])
def test_a_text_of_a_megabyte_is_refused_in_time(send: Caller, path: str, unit: str) -> None:
    text = (unit * (999_000 // len(unit.encode()))).replace("\n", "\\n")
    body = with_text(path, text).encode()[:1_000_000]
    started_s = time.process_time()
    answer = send(path, body, most_bytes=1_000_000)
    assert time.process_time() - started_s < LONGEST_S
    if unit.strip() or path.endswith("/completions"):
        assert answer.status_code in (400, 413), answer.text
    check(answer)
    longer = send(path, body + b" " * 100_000, most_bytes=1_000_000)
    assert (longer.status_code, error(longer)["code"]) == (413, "body_too_large")


def test_a_quarter_million_prompts_are_refused_before_one_is_tokenized(
    send: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def never(self: FakeEngine, text: str) -> tuple[int, ...]:
        raise AssertionError("tokenized")

    monkeypatch.setattr(FakeEngine, "encode", never)
    body = json.dumps({"model": "grammar", "prompt": ["a"] * 190_000}).encode()
    answer = send("/v1/completions", body, most_bytes=1_000_000)
    assert (answer.status_code, error(answer)["param"]) == (400, "prompt")


@pytest.mark.parametrize("path", PATHS)
def test_what_the_caller_sent_is_echoed_in_part_only(send: Caller, path: str) -> None:
    long = "x" * 1_500
    for body in (
        {**RIGHT[path], "model": long},
        {**RIGHT[path], long: 1},
        {**RIGHT[path], "echo": long},
    ):
        answer = send(path, json.dumps(body).encode())
        assert answer.status_code in (400, 404)
        assert len(answer.content) < 1_000


@pytest.mark.parametrize("depth", [500, 5_000, 200_000])
@pytest.mark.parametrize("path", PATHS)
def test_deep_nesting_is_refused(send: Caller, path: str, depth: int) -> None:
    for opening, closing in ((b"[", b"]"), (b'{"text":', b"}")):
        content = opening * depth + b"1" + closing * depth
        answer = send(path, content, most_bytes=10_000_000)
        assert answer.status_code == 400
        check(answer)


@pytest.mark.parametrize("nested", ["[" * 1_000 + "]" * 1_000, '{"a":' * 1_000 + "1" + "}" * 1_000])
@pytest.mark.parametrize("field", ["tools", "logit_bias", "messages", "prompt", "nowhere"])
@pytest.mark.parametrize("path", PATHS)
def test_a_field_that_is_nested_deeply_is_refused(
    send: Caller, path: str, field: str, nested: str
) -> None:
    body = {name: value for name, value in RIGHT[path].items() if name != field}
    content = json.dumps(body)[:-1] + f', "{field}": {nested}}}'
    answer = send(path, content.encode(), most_bytes=1_000_000)
    assert answer.status_code == 400
    check(answer)


def test_a_message_that_is_nested_deeply_is_refused(send: Caller) -> None:
    message = '{"role": "user", "content": "a", "tool_calls": ' + "[" * 1_000 + "]" * 1_000 + "}"
    body = f'{{"model": "grammar", "messages": [{message}]}}'
    check(send("/v1/chat/completions", body.encode(), most_bytes=1_000_000))


@pytest.mark.parametrize("size", [70_000, 1_000_000])
def test_a_huge_header_does_no_harm(send: Caller, size: int) -> None:
    answer = send("/v1/corrections", b'{"text": "He go."}', cookie="c" * size)
    assert answer.status_code == 200
    answer = send("/v1/corrections", b'{"text": "He go."}', **{"x-request-timeout-ms": "9" * size})
    assert answer.status_code == 400
    assert len(answer.content) < 1_000


@pytest.mark.parametrize("length", ["9" * 5_000, "-1", "1e9", "²", "9" * 20])
async def test_a_content_length_that_is_none_is_no_fault_of_ours(
    app: ReplicaApp, length: str
) -> None:
    sent: list[Any] = []

    messages = [{"type": "http.request", "body": b'{"text": "He go."}', "more_body": False}]

    async def receive() -> Any:
        if not messages:
            await asyncio.sleep(60)  # the caller waits for its answer
        return messages.pop()

    async def take(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-length", length.encode("latin-1"))]
    scope = {"type": "http", "method": "POST", "path": "/v1/corrections", "headers": headers}
    async with asyncio.timeout(LONGEST_S):
        await app(scope, receive, take)
    assert sent[0]["status"] in (200, 413)


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"])
async def test_other_methods_are_told_the_right_one(http: httpx.AsyncClient, method: str) -> None:
    for path in PATHS:
        answer = await http.request(method, path)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
        assert error(answer)["code"] == "wrong_method"


async def test_a_caller_that_never_sends_its_body_is_let_go(app: ReplicaApp) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        await asyncio.sleep(60)

    async def take(message: Any) -> None:
        sent.append(message)

    headers = [(b"x-request-timeout-ms", b"30")]
    scope = {"type": "http", "method": "POST", "path": "/v1/corrections", "headers": headers}
    async with asyncio.timeout(LONGEST_S):
        await app(scope, receive, take)
    assert sent[0]["status"] == 408


async def test_an_engine_out_of_memory_is_an_answer(
    http: httpx.AsyncClient, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(text: str) -> tuple[int, ...]:
        raise MemoryError

    monkeypatch.setattr(engine, "encode", full)
    answer = await http.post("/v1/corrections", json={"text": "He go."})
    assert (answer.status_code, error(answer)["type"]) == (500, "server_error")
