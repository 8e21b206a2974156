"""`POST /v1/chat/completions`: OpenAI's shape, with and without a chat template."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.engine.chat import Trim
from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import error

USER = {"role": "user", "content": "she go out"}
CHAT = {"model": "grammar", "messages": [USER]}


async def chat(http: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await http.post("/v1/chat/completions", json={**CHAT, **changes})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def chunks(http: httpx.AsyncClient, **changes: Any) -> list[dict[str, Any]]:
    body = {**CHAT, **changes, "stream": True}
    answer = await http.post("/v1/chat/completions", json=body)
    assert answer.headers["content-type"] == "text/event-stream"
    events = [event.removeprefix("data: ") for event in answer.text.strip().split("\n\n")]
    assert events.pop() == "[DONE]"
    return [json.loads(event) for event in events]


async def test_the_last_user_message_is_corrected(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    body = await chat(http)
    assert body["object"] == "chat.completion"
    assert body["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "she goes out", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert body["usage"] == {"prompt_tokens": 4, "completion_tokens": 3, "total_tokens": 7}
    assert engine.requests[0].prompt_token_ids == engine.encode("she go out\n")


async def test_without_a_template_the_settings_are_the_manifest_s_unless_given(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    await chat(http)
    await chat(http, temperature=0.5, max_tokens=3, n=2, seed=4, stop="x")
    found = [(r.max_tokens, r.temperature, r.n, r.seed, r.stop) for r in engine.requests]
    assert found == [(12, 0.0, 1, None, ()), (3, 0.5, 2, 4, ("x",))]


async def test_white_space_around_a_correction_is_the_template_s(http: httpx.AsyncClient) -> None:
    spaced = [{"role": "user", "content": "  she go "}]
    whole = (await chat(http, messages=spaced))["choices"][0]["message"]["content"]
    parts = [c["choices"][0]["delta"] for c in await chunks(http, messages=spaced)]
    assert whole == "".join(part.get("content") or "" for part in parts) == "she goes"


async def test_earlier_turns_are_no_part_of_a_correction(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    turns = [{"role": "user", "content": "a go"}, {"role": "assistant", "content": "a goes"}, USER]
    assert (await chat(http, messages=turns))["choices"][0]["message"]["content"] == "she goes out"
    assert engine.requests[0].prompt_token_ids == engine.encode("she go out\n")


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_a_system_message_is_refused_where_no_template_takes_it(
    http: httpx.AsyncClient, engine: FakeEngine, role: str
) -> None:
    turns = [{"role": role, "content": "Be formal."}, USER]
    answer = await http.post("/v1/chat/completions", json={**CHAT, "messages": turns})
    assert (answer.status_code, error(answer)["param"]) == (400, "messages[0].role")
    assert error(answer)["code"] == "unsupported_field"
    engine.chat = True
    assert (await http.post("/v1/chat/completions", json={**CHAT, "messages": turns})).is_success


async def test_with_a_template_all_turns_reach_the_model(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.chat = True
    turns = [
        {"role": "developer", "content": "Be formal."},
        {"role": "user", "content": [{"type": "text", "text": part} for part in ("she ", "go")]},
    ]
    body = await chat(http, messages=turns)
    assert body["choices"][0]["message"]["content"] == "she goes"
    request = engine.requests[0]
    expected = "she go\nsystem: Be formal.\nuser: she go\n"
    assert request.prompt_token_ids == engine.encode(expected)
    assert request.max_tokens == engine.max_model_len_tokens - len(request.prompt_token_ids)
    assert (request.temperature, request.stop) == (1.0, ())


async def test_what_the_template_refuses_is_refused(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.chat = True
    answer = await http.post("/v1/chat/completions", json={**CHAT, "messages": [USER, USER]})
    assert (answer.status_code, error(answer)["code"]) == (400, "rejected_by_engine")
    assert "alternate" in error(answer)["message"]


async def test_a_stream_adds_up_to_the_answer_for_each_choice(http: httpx.AsyncClient) -> None:
    found = await chunks(http, n=2, temperature=1.0)
    for index in (0, 1):
        choices = [c["choices"][0] for c in found if c["choices"][0]["index"] == index]
        assert choices[0]["delta"]["role"] == "assistant"
        assert "".join(c["delta"].get("content") or "" for c in choices) == "she goes out"
        assert [c["finish_reason"] for c in choices if c["finish_reason"]] == ["stop"]
    assert {c["object"] for c in found} == {"chat.completion.chunk"}


async def test_a_stream_tells_usage_when_asked(http: httpx.AsyncClient) -> None:
    found = await chunks(http, stream_options={"include_usage": True})
    assert (found[-1]["choices"], found[-1]["usage"]["total_tokens"]) == ([], 7)
    assert all(each["usage"] is None for each in found[:-1])


async def test_logprobs_come_in_the_chat_shape(http: httpx.AsyncClient) -> None:
    body = await chat(http, logprobs=True, top_logprobs=1)
    content = body["choices"][0]["logprobs"]["content"]
    assert [each["token"] for each in content] == ["she", " goes", " out"]
    assert content[0] == {
        "token": "she", "logprob": -0.375, "bytes": [115, 104, 101],
        "top_logprobs": [{"token": "she", "logprob": -0.375, "bytes": [115, 104, 101]}],
    }  # fmt: skip
    streamed = await chunks(http, logprobs=True, top_logprobs=1)
    parts = [c["choices"][0]["logprobs"] for c in streamed]
    assert [e for part in parts if part for e in part["content"]] == content


async def test_logprobs_without_alternatives(http: httpx.AsyncClient, engine: FakeEngine) -> None:
    content = (await chat(http, logprobs=True))["choices"][0]["logprobs"]["content"]
    assert [each["top_logprobs"] for each in content] == [[], [], []]
    await chat(http, logprobs=False)
    assert [r.logprobs for r in engine.requests] == [0, None]


async def test_what_openai_s_client_sends_back_of_an_answer_is_taken(
    http: httpx.AsyncClient,
) -> None:
    past = {
        "role": "assistant",
        "content": "hi",
        "refusal": None,
        "tool_calls": None,
        "audio": None,
    }
    await chat(http, messages=[USER, past, USER], tools=[], response_format={"type": "text"})


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"messages": None}, "messages", "missing_field"),
        ({"messages": []}, "messages", "invalid_type"),
        ({"messages": "hi"}, "messages", "invalid_type"),
        ({"messages": ["hi"]}, "messages[0]", "invalid_type"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "missing_field"),
        ({"messages": [{"content": "a"}]}, "messages[0].role", "invalid_type"),
        ({"messages": [{"role": "tool", "content": "a"}]}, "messages[0].role", "invalid_value"),
        ({"messages": [{**USER, "name": "Ann"}]}, "messages[0].name", "unsupported_field"),
        ({"messages": [{**USER, "nam": 1}]}, "messages[0].nam", "unknown_field"),
        ({"messages": [USER, {**USER, "role": "assistant"}]}, "messages[1]", "invalid_value"),
        ({"messages": [{"role": "user", "content": " "}]}, "messages[0]", "empty_text"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "invalid_type"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]},
            "messages[0].content[0]",
            "unsupported_field",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages[0].content[0]",
            "invalid_type",
        ),
        ({"messages": [{**USER, "content": "word " * 64}]}, "messages", "context_length_exceeded"),
        ({"max_tokens": 63}, "max_tokens", "context_length_exceeded"),
        ({"max_completion_tokens": 63}, "max_completion_tokens", "context_length_exceeded"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens", "invalid_value"),
        ({"logprobs": 1}, "logprobs", "invalid_type"),
        ({"top_logprobs": 1}, "top_logprobs", "invalid_value"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs", "out_of_range"),
        ({"n": 2}, "n", "invalid_value"),
        ({"tools": [{}]}, "tools", "unsupported_field"),
        ({"response_format": {"type": "json_object"}}, "response_format", "unsupported_field"),
        ({"prompt": "hi"}, "prompt", "unknown_field"),
    ],
)  # fmt: skip
async def test_a_bad_chat_field_is_refused_by_name(
    http: httpx.AsyncClient, engine: FakeEngine, changes: dict[str, Any], param: str, code: str
) -> None:
    answer = await http.post("/v1/chat/completions", json={**CHAT, **changes})
    assert answer.status_code == 400
    assert (error(answer)["param"], error(answer)["code"]) == (param, code)
    assert engine.requests == []


async def test_both_limits_may_be_given_when_they_agree(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    await chat(http, max_tokens=3, max_completion_tokens=3)
    assert engine.requests[0].max_tokens == 3


@given(st.lists(st.text("a \n\u3000", max_size=4)))
def test_trimming_pieces_is_trimming_the_whole(pieces: list[str]) -> None:
    trim = Trim()
    assert "".join(trim(piece) for piece in pieces) == "".join(pieces).strip()


async def test_more_log_probabilities_than_an_answer_may_have_are_refused(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.max_model_len_tokens = 4_000
    body = {
        **CHAT,
        "n": 8,
        "max_tokens": 1_500,
        "temperature": 1,
        "logprobs": True,
        "top_logprobs": 20,
    }
    answer = await http.post("/v1/chat/completions", json=body)
    assert (answer.status_code, error(answer)["param"]) == (400, "top_logprobs")
    assert "252000" in error(answer)["message"]
    assert not engine.requests
    assert (await http.post("/v1/chat/completions", json={**body, "n": 7})).status_code == 200
