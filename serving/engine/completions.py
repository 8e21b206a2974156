"""`POST /v1/completions` in OpenAI's shape.

Streaming sends several prompts one after the other; everything else runs at once. Log probabilities
cost the engine and the front end per token, so they are asked for only where the caller does.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from serving.engine import fields, gather, protocol, sampling, shapes
from serving.engine.checks import (
    check_length,
    check_model,
    check_reported,
    check_version,
    refuse_unsupported,
    token_ids,
)
from serving.engine.errors_http import invalid
from serving.engine.exchange import EVENT_STREAM_TYPE, Answer, Call
from serving.engine.metrics import Metrics
from serving.engine.state import ReplicaState

HONORED = sampling.HONORED | {"prompt"}
# OpenAI's other fields, with the values at which they do nothing.
OFF: dict[str, tuple[object, ...]] = {
    **sampling.OFF,
    "best_of": (None, 1),
    "echo": (None, False),
    "suffix": (None, ""),
}
DEFAULT_MAX_TOKENS = 16  # OpenAI's


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """A request whose every field was checked."""

    requests: tuple[protocol.GenerateRequest, ...]
    sampling: sampling.Sampling
    logprobs: int | None


class Completions:
    """The handler of the route."""

    def __init__(self, engine: protocol.Engine, state: ReplicaState, metrics: Metrics) -> None:
        self._engine = engine
        self._state = state
        self._metrics = metrics

    async def __call__(self, call: Call) -> Answer:
        """The finished completions, or their stream."""
        return await self.answer(call, call.json_object())

    async def answer(self, call: Call, body: dict[str, Any]) -> Answer:
        """The answer to a body that was read already."""
        parsed = self._parse(call.request_id, body)
        if parsed.sampling.stream:
            return Answer(stream=self._events(call, parsed), content_type=EVENT_STREAM_TYPE)
        results = await gather.all_of([self._engine.generate(r) for r in parsed.requests])
        prompt, completion = protocol.total_tokens(results)
        self._metrics.tokens(prompt=prompt, completion=completion)
        choices = [
            _choice(position * parsed.sampling.n, choice, parsed.logprobs)
            for position, result in enumerate(results)
            for choice in result.choices
        ]
        return Answer.json(
            {**self._head(call), "choices": choices, "usage": shapes.usage(prompt, completion)}
        )

    async def _events(self, call: Call, parsed: Parsed) -> AsyncGenerator[bytes, None]:
        head = self._head(call)
        if parsed.sampling.include_usage:
            head["usage"] = None
        completion = 0
        for position, request in enumerate(parsed.requests):
            offsets = [0] * request.n
            async with contextlib.aclosing(self._engine.stream(request)) as deltas:
                async for delta in deltas:
                    completion += delta.completion_tokens
                    choice = _choice(
                        position * request.n, delta, parsed.logprobs, offset=offsets[delta.index]
                    )
                    offsets[delta.index] += shapes.characters(delta.logprobs)
                    yield shapes.event({**head, "choices": [choice]})
        prompt = sum(len(request.prompt_token_ids) for request in parsed.requests)
        self._metrics.tokens(prompt=prompt, completion=completion)
        if parsed.sampling.include_usage:
            yield shapes.event({**head, "choices": [], "usage": shapes.usage(prompt, completion)})
        yield shapes.DONE

    def _head(self, call: Call) -> dict[str, Any]:
        return {
            "id": f"cmpl-{call.request_id}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": self._state.identity.model,
        }

    def _parse(self, request_id: str, body: dict[str, Any]) -> Parsed:
        refuse_unsupported(body, honored=HONORED, off=OFF)
        check_model(body, self._state.identity.model, required=True)
        check_version(body, self._state.identity.version)
        given = _prompts(body)
        how = sampling.Sampling.parse(
            body, sampling.Defaults(), most_n=self._state.limits.max_sequences
        )
        self._check_number(len(given), how.n)
        # Only now: a body of a quarter million prompts would hold the event loop for seconds.
        prompts = [self._token_ids(prompt) for prompt in given]
        longest = self._engine.max_model_len_tokens
        limit = sampling.max_tokens(body, ["max_tokens"], longest)
        max_tokens = DEFAULT_MAX_TOKENS if limit is None else limit[1]
        check_length(max(len(ids) for ids in prompts), max_tokens, longest, room="max_tokens")
        logprobs = fields.optional_integer(body, "logprobs", low=0, high=protocol.MOST_LOGPROBS)
        check_reported(len(prompts) * how.n, max_tokens, logprobs, param="logprobs")
        return Parsed(
            requests=tuple(
                how.request(request_id, ids, max_tokens=max_tokens, logprobs=logprobs)
                for ids in prompts
            ),
            sampling=how,
            logprobs=logprobs,
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
        return token_ids(self._engine, prompt, "prompt") if isinstance(prompt, str) else prompt


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


def _choice(
    first: int, made: protocol.Choice | protocol.Delta, logprobs: int | None, *, offset: int = 0
) -> dict[str, Any]:
    """One choice of an answer; `first` is the number of the prompt's first choice."""
    return {
        "index": first + made.index,
        "text": made.text,
        "logprobs": shapes.completion_logprobs(made.logprobs, most=logprobs, offset=offset),
        "finish_reason": made.finish_reason,
    }
