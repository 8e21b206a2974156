"""An endpoint over HTTP, played by a function: what it is asked, and what its faults become."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from evals import endpoint, tokens
from evals.endpoint import Endpoint, Served
from evals.errors import EvaluationFailed
from evals.model import TOO_LONG, Answer, Ask
from registry.manifest import Generation

URL = "http://endpoint:8000"
SERVED = Served(model="grammar", digest="sha256:a")
GENERATION = Generation(max_tokens=64, stop=("\n",))
PAUSE_S = endpoint._pause_s
Reply = Callable[[dict[str, Any]], httpx.Response]


class Tokenizer:
    """One token a letter; BOS is 0."""

    bos_token_id = 0
    eos_token_id = 1

    def __call__(self, texts: list[str], add_special_tokens: bool = True) -> Any:
        class Encoded:
            input_ids = [[ord(letter) for letter in text] for text in texts]  # noqa: RUF012

        return Encoded()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_pause_s", lambda attempt: 0.0)
    monkeypatch.setattr(tokens, "load", lambda folder: Tokenizer())


def text_reply(body: dict[str, Any]) -> httpx.Response:
    choice = {"text": body["prompt"].upper(), "finish_reason": "stop"}
    usage = {"prompt_tokens": 3, "completion_tokens": 2}
    return httpx.Response(200, json={"choices": [choice], "usage": usage})


def likely_reply(body: dict[str, Any]) -> httpx.Response:
    of_prompt = [None, *(-float(one) for one in body["prompt"][1:])]
    logprobs = {"token_logprobs": [*of_prompt, -99.0]}  # the last is what was generated
    return httpx.Response(200, json={"choices": [{"text": "", "logprobs": logprobs}]})


class World:
    """Endpoints that are answered by a function, and what they were asked."""

    def __init__(self, reply: Reply, *, checkpoint: bool = True, served: Served = SERVED) -> None:
        self.bodies: list[dict[str, Any]] = []
        self._reply = reply
        self._lock = threading.Lock()
        self.model = Endpoint(
            f"{URL}/v1/",
            served,
            GENERATION,
            checkpoint_dir=Path("checkpoint") if checkpoint else None,
            transport=httpx.MockTransport(self._handle),
        )

    def _handle(self, request: httpx.Request) -> httpx.Response:
        assert str(request.url) == f"{URL}/v1/completions"
        body = json.loads(request.content)
        with self._lock:
            self.bodies.append(body)
        return self._reply(body)

    def ask(self, ask: Ask, inputs: list[str]) -> dict[int, Answer]:
        found: dict[int, Answer] = {}
        with self.model:
            self.model.answer(ask, inputs, found.__setitem__)
        return found


def failing(times: int, status: int, then: Reply) -> Reply:
    faults: Iterator[None] = iter([None] * times)
    lock = threading.Lock()

    def reply(body: dict[str, Any]) -> httpx.Response:
        with lock:
            is_fault = next(faults, 0) is None
        return (
            httpx.Response(status, json={"error": {"message": "busy"}}) if is_fault else then(body)
        )

    return reply


def test_every_prompt_is_asked_with_the_manifests_settings() -> None:
    world = World(text_reply)
    found = world.ask(Ask.TEXT, [f"p{n}" for n in range(300)])
    assert [found[n].text for n in range(300)] == [f"P{n}" for n in range(300)]
    assert found[0] == Answer(finish_reason="stop", text="P0", prompt_tokens=3, output_tokens=2)
    body = next(body for body in world.bodies if body["prompt"] == "p7")
    assert body == {
        "model": "grammar", "prompt": "p7", "max_tokens": 64, "temperature": 0.0, "top_p": 1.0,
        "stop": ["\n"],
    }  # fmt: skip


def test_a_likelihood_is_the_sum_over_the_sentence_after_its_first_token() -> None:
    world = World(likely_reply)
    found = world.ask(Ask.LIKELIHOOD, ["ab", "c"])
    assert found[0].logprob == -float(ord("a") + ord("b"))
    assert found[1].logprob == -float(ord("c"))
    asked = sorted(tuple(body["prompt"]) for body in world.bodies)
    assert asked == [(0, 97, 98), (0, 99)]
    assert {(body["echo"], body["max_tokens"]) for body in world.bodies} == {(True, 1)}


@pytest.mark.parametrize(
    "error",
    [
        {"message": "too many tokens", "code": "context_length_exceeded"},
        {"message": "This model's maximum context length is 256 tokens. However, you ..."},
    ],
)
def test_what_the_context_cannot_hold_has_no_answer(error: dict[str, str]) -> None:
    world = World(lambda body: httpx.Response(400, json={"error": error}))
    assert world.ask(Ask.TEXT, ["long"]) == {0: Answer(finish_reason=TOO_LONG)}


def test_an_answer_that_was_shortened_for_want_of_room_is_none() -> None:
    for context, reason in ((67, "stop"), (66, TOO_LONG), (None, "stop")):
        served = Served(model="grammar", digest=None, context_tokens=context)
        found = World(text_reply, served=served).ask(Ask.TEXT, ["three tokens, they say"])
        assert found[0].finish_reason == reason


def test_a_refusal_is_quoted_with_the_prompt() -> None:
    world = World(lambda body: httpx.Response(400, json={"error": {"message": "no such field"}}))
    with pytest.raises(EvaluationFailed, match=r"answered 400: no such field; .* 'some prompt'"):
        world.ask(Ask.TEXT, ["some prompt"])


def test_a_busy_endpoint_is_asked_again() -> None:
    world = World(failing(5, 429, text_reply))
    assert world.ask(Ask.TEXT, ["a"])[0].text == "A"
    assert len(world.bodies) == 6


def test_an_endpoint_that_stays_away_ends_the_evaluation_and_what_was_had_stays_good() -> None:
    def reply(body: dict[str, Any]) -> httpx.Response:
        if body["prompt"] == "gone":
            raise httpx.ConnectError("refused")
        return text_reply(body)

    world, found = World(reply), {}
    with world.model, pytest.raises(EvaluationFailed, match=r"6 attempts, last ConnectError"):
        world.model.answer(Ask.TEXT, ["a", "gone"], found.__setitem__)
    assert set(found) <= {0}


def test_a_change_of_what_is_served_is_noticed() -> None:
    def reply(body: dict[str, Any]) -> httpx.Response:
        other = httpx.Response(200, headers={"x-liftlock-digest": "sha256:b"})
        return other if body["prompt"] == "b" else text_reply(body)

    with pytest.raises(EvaluationFailed, match="served sha256:a at first and serves sha256:b now"):
        World(reply).ask(Ask.TEXT, ["a", "b"])


@pytest.mark.parametrize("content", [b"not json", b"{}", b'{"choices": []}', b"[]"])
def test_another_shape_is_named(content: bytes) -> None:
    world = World(lambda body: httpx.Response(200, content=content))
    with pytest.raises(EvaluationFailed, match="another shape than OpenAI's"):
        world.ask(Ask.TEXT, ["a"])


def test_halves_of_characters_become_question_marks() -> None:
    content = b'{"choices": [{"text": "a\\ud800b", "finish_reason": "stop"}]}'
    world = World(lambda body: httpx.Response(200, content=content))
    assert world.ask(Ask.TEXT, ["a"])[0].text == "a?b"


def test_an_endpoint_that_can_say_probabilities_is_asked_once_whether_it_can() -> None:
    world = World(likely_reply)
    with world.model:
        assert world.model.cannot(Ask.LIKELIHOOD) is None
        assert world.model.cannot(Ask.LIKELIHOOD) is None
        assert world.model.cannot(Ask.TEXT) is None
    assert len(world.bodies) == 1


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (
            httpx.Response(400, json={"error": {"message": "echo=True is not supported"}}),
            "echo=True",
        ),
        (httpx.Response(200, json={"choices": [{"text": "Yes", "logprobs": None}]}), "has none"),
        (
            httpx.Response(200, json={"choices": [{"logprobs": {"token_logprobs": [None]}}]}),
            "0 log-probabilities",
        ),
    ],
)
def test_an_endpoint_that_cannot_is_taken_at_its_word(reply: httpx.Response, told: str) -> None:
    world = World(lambda body: reply)
    with world.model:
        reason = world.model.cannot(Ask.LIKELIHOOD)
    assert reason is not None
    assert reason.startswith("the endpoint gives no log-probabilities of prompts")
    assert told in reason


def test_without_a_tokenizer_there_are_no_likelihoods() -> None:
    world = World(likely_reply, checkpoint=False)
    assert "for its tokenizer" in str(world.model.cannot(Ask.LIKELIHOOD))
    assert world.bodies == []


def models(*listed: dict[str, Any]) -> httpx.MockTransport:
    return httpx.MockTransport(lambda request: httpx.Response(200, json={"data": list(listed)}))


class TestLook:
    def test_finds_the_one_model_and_its_digest(self) -> None:
        ours = models({"id": "g", "digest": "sha256:a", "max_model_len": 512})
        found = endpoint.look(URL, model=None, transport=ours)
        assert found == Served(model="g", digest="sha256:a", context_tokens=512)
        plain = endpoint.look(f"{URL}/v1", model=None, transport=models({"id": "g"}))
        assert plain == Served(model="g", digest=None)

    def test_several_models_must_be_chosen_from(self) -> None:
        both = models({"id": "a"}, {"id": "b"})
        assert endpoint.look(URL, model="b", transport=both).model == "b"
        for wrong in (None, "c"):
            with pytest.raises(EvaluationFailed, match="serves a, b; choose one by --served-model"):
                endpoint.look(URL, model=wrong, transport=both)

    def test_something_else_that_listens_is_no_endpoint(self) -> None:
        for reply in (
            httpx.Response(404),
            httpx.Response(200, text="<html>"),
            httpx.Response(200, json=[]),
        ):
            transport = httpx.MockTransport(lambda request, reply=reply: reply)  # type: ignore[misc]
            with pytest.raises(EvaluationFailed, match="does not list models"):
                endpoint.look(URL, model=None, transport=transport)


def test_pauses_grow_to_a_limit() -> None:
    pauses = [[PAUSE_S(attempt) for _ in range(200)] for attempt in range(1, 12)]
    assert all(0.25 <= one <= 0.5 for one in pauses[0])
    assert max(max(of) for of in pauses) <= endpoint.LONGEST_PAUSE_S
    assert len({round(one, 9) for one in pauses[-1]}) > 100
