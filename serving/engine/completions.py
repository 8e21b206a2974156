"""`POST /v1/completions` in OpenAI's shape.

The one idea: a field is honored or refused by name, never ignored. Fields that cannot change the
output (`user`) pass, as do unsupported ones at the value that means "off". Streaming sends several
prompts one after the other; everything else runs at once.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

import orjson

from serving.engine import fields, gather, protocol
from serving.engine.errors_http import ApiError, invalid
from serving.engine.exchange import EVENT_STREAM_TYPE, Answer, Call
from serving.engine.metrics import Metrics
from serving.engine.state import ReplicaState

_DONE = b"data: [DONE]\n\n"
_HONORED = frozenset(
    {"model", "prompt", "max_tokens", "temperature", "top_p", "n", "stop", "seed", "stream",
     "stream_options", "user"}
)  # fmt: skip
# OpenAI's other fields, with the values at which they do nothing.
_OFF: dict[str, tuple[object, ...]] = {
    "best_of": (None, 1),
    "echo": (None, False),
    "frequency_penalty": (None, 0),
    "logit_bias": (None, {}),
    "logprobs": (None,),
    "presence_penalty": (None, 0),
    "suffix": (None, ""),
}
_DEFAULT_MAX_TOKENS = 16  # OpenAI's


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A request whose every field was checked."""

    requests: tuple[protocol.GenerateRequest, ...]
    stream: bool
    include_usage: bool


class Completions:
    """The handler of the route."""

    def __init__(self, engine: protocol.Engine, state: ReplicaState, metrics: Metrics) -> None:
        self._engine = engine
        self._state = state
        self._metrics = metrics

    async def __call__(self, call: Call) -> Answer:
        """The finished completions, or their stream."""
        parsed = self._parse(call)
        if parsed.stream:
            return Answer(stream=self._events(call, parsed), content_type=EVENT_STREAM_TYPE)
        results = await gather.all_of([self._engine.generate(r) for r in parsed.requests])
        prompt, completion = protocol.total_tokens(results)
        self._metrics.tokens(prompt=prompt, completion=completion)
        n = parsed.requests[0].n
        choices = [
            _choice(position * n + choice.index, choice.text, choice.finish_reason)
            for position, result in enumerate(results)
            for choice in result.choices
        ]
        return Answer.json(
            {**self._head(call), "choices": choices, "usage": usage(prompt, completion)}
        )

    async def _events(self, call: Call, parsed: Parsed) -> AsyncGenerator[bytes, None]:
        head = self._head(call)
        completion = 0
        for position, request in enumerate(parsed.requests):
            async with contextlib.aclosing(self._engine.stream(request)) as deltas:
                async for delta in deltas:
                    completion += delta.completion_tokens
                    index = position * request.n + delta.index
                    choice = _choice(index, delta.text, delta.finish_reason)
                    yield _event({**head, "choices": [choice]})
        prompt = sum(len(request.prompt_token_ids) for request in parsed.requests)
        self._metrics.tokens(prompt=prompt, completion=completion)
        if parsed.include_usage:
            yield _event({**head, "choices": [], "usage": usage(prompt, completion)})
        yield _DONE

    def _head(self, call: Call) -> dict[str, Any]:
        return {
            "id": f"cmpl-{call.request_id}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self._state.identity.model,
        }

    def _parse(self, call: Call) -> Parsed:
        body = call.json_object()
        _refuse_unsupported(body)
        check_model(body, self._state.identity.model, required=True)
        fields.string(body, "user", default="")
        stream = fields.boolean(body, "stream", default=False)
        return Parsed(
            requests=self._requests(call.request_id, body),
            stream=stream,
            include_usage=_include_usage(body, stream=stream),
        )

    def _requests(
        self, request_id: str, body: dict[str, Any]
    ) -> tuple[protocol.GenerateRequest, ...]:
        given = _prompts(body)
        n = fields.integer(body, "n", default=1, low=1, high=self._state.limits.max_sequences)
        self._check_number(len(given), n)
        # Only now: a body of a quarter million prompts would hold the event loop for seconds.
        prompts = [self._token_ids(prompt) for prompt in given]
        longest = self._engine.max_model_len_tokens
        max_tokens = fields.integer(
            body, "max_tokens", default=_DEFAULT_MAX_TOKENS, low=1, high=longest
        )
        check_length(max(len(ids) for ids in prompts), max_tokens, longest)
        temperature = fields.number(body, "temperature", default=1.0, low=0.0, high=2.0)
        top_p = fields.number(body, "top_p", default=1.0, low=0.0, high=1.0)
        if top_p == 0.0:
            raise invalid(
                "top_p", "top_p must be above 0; for the likeliest token use temperature 0"
            )
        if n > 1 and temperature == 0.0:
            raise invalid(
                "n", "n above 1 needs a temperature above 0: greedy choices are all alike"
            )
        return tuple(
            protocol.GenerateRequest(
                request_id=protocol.unique_id(request_id),
                prompt_token_ids=ids,
                max_tokens=max_tokens,
                temperature=temperature,
                top_p=top_p,
                n=n,
                stop=fields.strings(body, "stop", most=4),
                seed=fields.optional_integer(body, "seed", low=-(2**63), high=2**63 - 1),
            )
            for ids in prompts
        )

    def _check_number(self, prompts: int, n: int) -> None:
        most = self._state.limits.max_sequences
        if prompts * n > most:
            raise invalid(
                "prompt",
                f"{prompts} prompts times n={n} is over the limit of {most} completions in one "
                "request",
            )

    def _token_ids(self, prompt: str | tuple[int, ...]) -> tuple[int, ...]:
        if not isinstance(prompt, str):
            return prompt
        try:
            return self._engine.encode(prompt)
        except protocol.RequestRejected as exc:
            raise invalid("prompt", str(exc), "context_length_exceeded") from exc


def usage(prompt: int, completion: int) -> dict[str, int]:
    """OpenAI's usage object."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def check_model(body: dict[str, Any], served: str, *, required: bool) -> None:
    """Refuses a request meant for another model: 404, or 400 where the field must be there."""
    if "model" not in body and not required:
        return
    model = fields.string(body, "model", default=None)
    if model != served:
        raise ApiError(
            fields.NOT_FOUND, "model_not_found",
            f"this endpoint serves {served!r}, not {model!r}", param="model",
        )  # fmt: skip


def check_length(prompt: int, max_tokens: int, longest: int, *, param: str = "prompt") -> None:
    """Refuses what cannot fit the context; all three in tokens."""
    if prompt >= longest:
        raise invalid(
            param,
            f"the prompt has {prompt} tokens, the model's context holds {longest}; shorten it",
            "context_length_exceeded",
        )
    if prompt + max_tokens > longest:
        raise invalid(
            "max_tokens" if param == "prompt" else param,
            f"{prompt} prompt tokens and {max_tokens} to generate are over the model's context of "
            f"{longest} tokens; at most {longest - prompt} can be generated",
            "context_length_exceeded",
        )


def _prompts(body: dict[str, Any]) -> list[str | tuple[int, ...]]:
    """One or several prompts, each a text or token ids."""
    value = body.get("prompt")
    if isinstance(value, list) and value and all(_is_id(item) for item in value):
        value = [value]
    items = value if isinstance(value, list) else [value]
    prompts: list[str | tuple[int, ...]] = []
    for item in items:
        if isinstance(item, str) and item:
            prompts.append(item)
        elif isinstance(item, list) and item and all(_is_id(each) for each in item):
            prompts.append(tuple(item))
        else:
            break
    if not prompts or len(prompts) != len(items):
        raise invalid(
            "prompt",
            "prompt must be a text that is not empty, a list of such texts, or token ids",
            "empty_text" if value in ("", [], [""]) else "invalid_type",
        )
    return prompts


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31


def _refuse_unsupported(body: dict[str, Any]) -> None:
    for name, value in body.items():
        if name in _HONORED:
            continue
        if name not in _OFF:
            raise invalid(name, f"unknown field {name!r}; check its spelling", "unknown_field")
        if value not in _OFF[name]:
            raise invalid(
                name,
                f"{name}={value!r} is not supported here; leave it out",
                "unsupported_field",
            )


def _include_usage(body: dict[str, Any], *, stream: bool) -> bool:
    options = body.get("stream_options")
    if options is None:
        return False
    if not isinstance(options, dict) or set(options) - {"include_usage"} or not stream:
        raise invalid(
            "stream_options", 'stream_options must be {"include_usage": true} and needs stream'
        )
    return fields.boolean(options, "include_usage", default=False)


def _choice(index: int, text: str, finish_reason: protocol.FinishReason | None) -> dict[str, Any]:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _event(value: object) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"
