"""`POST /v1/completions`: OpenAI's shape, over the fake engine."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from serving.engine.protocol import Choice, FinishReason, GenerateResult, TokenLogprob
from tests.fakes.engine import FakeEngine
from tests.serving.engine.conftest import error

COMPLETION = {"model": "grammar", "prompt": "she go out"}


async def complete(http: httpx.AsyncClient, **changes: Any) -> dict[str, Any]:
    answer = await http.post("/v1/completions", json={**COMPLETION, **changes})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def events(http: httpx.AsyncClient, **changes: Any) -> list[str]:
    body = {**COMPLETION, **changes, "stream": True}
    answer = await http.post("/v1/completions", json=body)
    assert answer.headers["content-type"] == "text/event-stream"
    return [event.removeprefix("data: ") for event in answer.text.strip().split("\n\n")]


async def test_one_prompt_gives_one_choice_and_usage(http: httpx.AsyncClient) -> None:
    body = await complete(http)
    assert body["object"] == "text_completion"
    assert body["model"] == "grammar"
    assert body["choices"] == [
        {"index": 0, "text": "she goes out", "logprobs": None, "finish_reason": "stop"}
    ]
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 3, "total_tokens": 6}


async def test_choices_of_several_prompts_are_numbered_through(http: httpx.AsyncClient) -> None:
    body = await complete(http, prompt=["she go", "he go"], n=2)
    found = [(choice["index"], choice["text"]) for choice in body["choices"]]
    assert found == [(0, "she goes"), (1, "she goes"), (2, "he goes"), (3, "he goes")]
    assert body["usage"]["completion_tokens"] == 8


@pytest.mark.parametrize("nested", [False, True])
async def test_a_prompt_may_be_token_ids(
    http: httpx.AsyncClient, engine: FakeEngine, nested: bool
) -> None:
    ids = list(engine.encode("she go"))
    body = await complete(http, prompt=[ids] if nested else ids)
    assert body["choices"][0]["text"] == "she goes"


async def test_token_ids_the_engine_does_not_know_are_refused(http: httpx.AsyncClient) -> None:
    for stream in (False, True):
        body = {**COMPLETION, "prompt": [999], "stream": stream}
        answer = await http.post("/v1/completions", json=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["code"] == "rejected_by_engine"


async def test_running_out_of_tokens_is_said(http: httpx.AsyncClient) -> None:
    body = await complete(http, max_tokens=1)
    assert body["choices"][0]["text"] == "she"
    assert body["choices"][0]["finish_reason"] == "length"


async def test_sampling_settings_reach_the_engine(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    await complete(http, max_tokens=5, temperature=0.5, top_p=0.5, n=2, stop="x", seed=3, user="u")
    request = engine.requests[0]
    found = (request.max_tokens, request.temperature, request.top_p, request.n, request.stop)
    assert found == (5, 0.5, 0.5, 2, ("x",))
    assert request.seed == 3


async def test_defaults_are_openai_s(http: httpx.AsyncClient, engine: FakeEngine) -> None:
    await complete(
        http, max_tokens=None, stop=None, seed=None, echo=False, best_of=1, logprobs=None
    )
    request = engine.requests[0]
    found = (request.max_tokens, request.temperature, request.top_p, request.n, request.stop)
    assert found == (16, 1.0, 1.0, 1, ())


async def test_a_stream_adds_up_to_the_completion(http: httpx.AsyncClient) -> None:
    found = await events(http)
    assert found[-1] == "[DONE]"
    choices = [json.loads(event)["choices"][0] for event in found[:-1]]
    assert "".join(choice["text"] for choice in choices) == "she goes out"
    assert [choice["finish_reason"] for choice in choices] == [None, None, None, "stop"]


async def test_a_stream_tells_usage_when_asked(http: httpx.AsyncClient) -> None:
    found = await events(http, prompt=["she go", "a"], stream_options={"include_usage": True})
    last = json.loads(found[-2])
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 6)
    assert {json.loads(event)["choices"][0]["index"] for event in found[:-2]} == {0, 1}


async def test_the_same_request_id_twice_is_two_engine_requests(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    for _ in range(2):
        await http.post("/v1/completions", json=COMPLETION, headers={"x-request-id": "same"})
    ids = [request.request_id for request in engine.requests]
    assert len(set(ids)) == 2
    assert all(each.startswith("same-") for each in ids)


@pytest.mark.parametrize(
    ("changes", "param", "code"),
    [
        ({"model": 3}, "model", "invalid_type"),
        ({"model": None}, "model", "missing_field"),
        ({"prompt": ""}, "prompt", "empty_text"),
        ({"prompt": []}, "prompt", "empty_text"),
        ({"prompt": ["she go", ""]}, "prompt", "invalid_type"),
        ({"prompt": None}, "prompt", "invalid_type"),
        ({"prompt": [1, "a"]}, "prompt", "invalid_type"),
        ({"prompt": [-1]}, "prompt", "invalid_type"),
        ({"prompt": [True]}, "prompt", "invalid_type"),
        ({"max_tokens": 0}, "max_tokens", "out_of_range"),
        ({"max_tokens": 10**6}, "max_tokens", "out_of_range"),
        ({"max_tokens": "5"}, "max_tokens", "invalid_type"),
        ({"max_tokens": True}, "max_tokens", "invalid_type"),
        ({"max_tokens": 63}, "max_tokens", "context_length_exceeded"),
        ({"prompt": "word " * 64}, "prompt", "context_length_exceeded"),
        ({"temperature": -1}, "temperature", "out_of_range"),
        ({"temperature": "hot"}, "temperature", "invalid_type"),
        ({"top_p": 0}, "top_p", "invalid_value"),
        ({"n": 9}, "n", "out_of_range"),
        ({"n": 2, "temperature": 0}, "n", "invalid_value"),
        ({"prompt": ["a", "b"], "n": 5}, "prompt", "invalid_value"),
        ({"stop": ["", "x"]}, "stop", "invalid_type"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "stop", "out_of_range"),
        ({"seed": 1.5}, "seed", "invalid_type"),
        ({"stream": "yes"}, "stream", "invalid_type"),
        ({"stream_options": {"include_usage": True}}, "stream_options", "invalid_value"),
        ({"user": 1}, "user", "invalid_type"),
        ({"echo": True}, "echo", "unsupported_field"),
        ({"logprobs": 21}, "logprobs", "out_of_range"),
        ({"logprobs": True}, "logprobs", "invalid_type"),
        ({"presence_penalty": False}, "presence_penalty", "unsupported_field"),
        ({"version": 0}, "version", "out_of_range"),
        ({"suffix": "end"}, "suffix", "unsupported_field"),
        ({"best_of": 3}, "best_of", "unsupported_field"),
        ({"presence_penalty": 0.5}, "presence_penalty", "unsupported_field"),
        ({"frequency_penalty": 0.5}, "frequency_penalty", "unsupported_field"),
        ({"logit_bias": {"5": 1}}, "logit_bias", "unsupported_field"),
        ({"max_token": 5}, "max_token", "unknown_field"),
    ],
)
async def test_a_bad_completion_field_is_refused_by_name(
    http: httpx.AsyncClient, engine: FakeEngine, changes: dict[str, Any], param: str, code: str
) -> None:
    answer = await http.post("/v1/completions", json={**COMPLETION, **changes})
    assert answer.status_code == 400
    assert (error(answer)["param"], error(answer)["code"]) == (param, code)
    assert error(answer)["type"] == "invalid_request_error"
    assert engine.requests == []


async def test_logprobs_come_in_the_legacy_shape(http: httpx.AsyncClient) -> None:
    found = (await complete(http, logprobs=2))["choices"][0]["logprobs"]
    assert found["tokens"] == ["she", " goes", " out"]
    assert found["token_logprobs"] == [-0.375, -0.625, -0.5]
    assert found["text_offset"] == [0, 3, 8]
    assert found["top_logprobs"][1] == {" goes": -0.625, " goes?": -1.625}


async def test_no_alternatives_are_given_where_none_are_asked_for(http: httpx.AsyncClient) -> None:
    found = (await complete(http, logprobs=0))["choices"][0]["logprobs"]
    assert (found["top_logprobs"], len(found["token_logprobs"])) == (None, 3)


async def test_the_token_that_was_taken_is_always_among_the_alternatives(
    http: httpx.AsyncClient, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = TokenLogprob(token="rare", logprob=-9.0, top=(("usual", -0.1),))
    choice = Choice(index=0, text="rare", finish_reason=FinishReason.STOP, logprobs=(taken,))

    async def samples(request: Any) -> GenerateResult:
        return GenerateResult(choices=(choice,), prompt_tokens=1, completion_tokens=1)

    monkeypatch.setattr(engine, "generate", samples)
    found = (await complete(http, logprobs=1))["choices"][0]["logprobs"]
    assert found["top_logprobs"] == [{"usual": -0.1, "rare": -9.0}]


async def test_logprobs_of_a_stream_have_offsets_of_their_own_choice(
    http: httpx.AsyncClient,
) -> None:
    found = await events(http, n=2, logprobs=1)
    places: dict[int, list[int]] = {0: [], 1: []}
    for each in found[:-1]:
        choice = json.loads(each)["choices"][0]
        places[choice["index"]] += choice["logprobs"]["text_offset"]
    assert places == {0: [0, 3, 8], 1: [0, 3, 8]}


async def test_more_log_probabilities_than_an_answer_may_have_are_refused(
    http: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.max_model_len_tokens = 4_000
    body = {**COMPLETION, "n": 8, "max_tokens": 1_500, "logprobs": 20}
    answer = await http.post("/v1/completions", json=body)
    assert (answer.status_code, error(answer)["param"]) == (400, "logprobs")
    assert "252000" in error(answer)["message"]
    assert not engine.requests
    assert (await http.post("/v1/completions", json={**body, "n": 7})).status_code == 200
