"""`POST /v1/chat/completions` in OpenAI's shape.

The one idea: the prompt is the checkpoint's business. The tokenizer's chat template makes it where
there is one. Where there is none, the model is a correction model: the last user message goes into
the manifest's prompt template under the manifest's generation settings, so that a chat client gets
the very correction that `/v1/corrections` would make of a single sentence, and white space that
belongs to the template is not part of the answer.

Left out: tools, audio, images, structured output; each is refused by name.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from registry.manifest import Manifest
from serving.engine import fields, messages, protocol, sampling, shapes
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

HONORED = sampling.HONORED | {"messages", "max_completion_tokens", "top_logprobs"}
# OpenAI's other fields, with the values at which they do nothing; the first few never do anything
# to the text.
OFF: dict[str, tuple[object, ...]] = {
    **sampling.OFF,
    "audio": (None,),
    "function_call": (None, "none", "auto"),
    "functions": (None, []),
    "metadata": (None, {}),
    "modalities": (None, ["text"]),
    "parallel_tool_calls": (None, True, False),
    "prediction": (None,),
    "reasoning_effort": (None,),
    "response_format": (None, {"type": "text"}),
    "service_tier": (None, "auto", "default"),
    "store": (None, False),
    "tool_choice": (None, "none", "auto"),
    "tools": (None, []),
    "verbosity": (None,),
    "web_search_options": (None,),
}
_LIMITS = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prompt:
    """A conversation as the model reads it, and what holds where the caller says nothing."""

    token_ids: tuple[int, ...]
    defaults: sampling.Defaults
    max_tokens: int
    is_correction: bool
    """Whether the manifest's template made it: white space around the answer is the template's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parsed:
    request: protocol.GenerateRequest
    sampling: sampling.Sampling
    is_correction: bool


class Chat:
    """The handler of the route."""

    def __init__(
        self, engine: protocol.Engine, state: ReplicaState, manifest: Manifest, metrics: Metrics
    ) -> None:
        self._engine = engine
        self._state = state
        self._manifest = manifest
        self._metrics = metrics

    async def __call__(self, call: Call) -> Answer:
        """The finished answers, or their stream."""
        return await self.answer(call, call.json_object())

    async def answer(self, call: Call, body: dict[str, Any]) -> Answer:
        """The answer to a body that was read already."""
        parsed = self._parse(call.request_id, body)
        if parsed.sampling.stream:
            return Answer(stream=self._events(call, parsed), content_type=EVENT_STREAM_TYPE)
        result = await self._engine.generate(parsed.request)
        prompt, completion = result.prompt_tokens, result.completion_tokens
        self._metrics.tokens(prompt=prompt, completion=completion)
        choices = [self._choice(choice, parsed) for choice in result.choices]
        head = self._head(call, "chat.completion")
        return Answer.json({**head, "choices": choices, "usage": shapes.usage(prompt, completion)})

    def _choice(self, choice: protocol.Choice, parsed: _Parsed) -> dict[str, Any]:
        is_correction = parsed.is_correction
        content = self._manifest.prompt.parse(choice.text) if is_correction else choice.text
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": content, "refusal": None},
            "logprobs": shapes.chat_logprobs(choice.logprobs),
            "finish_reason": choice.finish_reason,
        }

    async def _events(self, call: Call, parsed: _Parsed) -> AsyncGenerator[bytes, None]:
        request = parsed.request
        head = self._head(call, "chat.completion.chunk")
        if parsed.sampling.include_usage:
            head["usage"] = None
        trims = [Trim() for _ in range(request.n)] if parsed.is_correction else None
        completion = 0
        begun: set[int] = set()
        async with contextlib.aclosing(self._engine.stream(request)) as deltas:
            async for delta in deltas:
                if delta.index not in begun:
                    begun.add(delta.index)
                    yield shapes.event({**head, "choices": [_first(delta.index)]})
                completion += delta.completion_tokens
                text = delta.text if trims is None else trims[delta.index](delta.text)
                if text or delta.finish_reason is not None or delta.logprobs:
                    yield shapes.event({**head, "choices": [_chunk(delta, text)]})
        prompt = len(request.prompt_token_ids)
        self._metrics.tokens(prompt=prompt, completion=completion)
        if parsed.sampling.include_usage:
            yield shapes.event({**head, "choices": [], "usage": shapes.usage(prompt, completion)})
        yield shapes.DONE

    def _head(self, call: Call, kind: str) -> dict[str, Any]:
        return {
            "id": f"chatcmpl-{call.request_id}",
            "object": kind,
            "created": int(time.time()),
            "model": self._state.identity.model,
        }

    def _parse(self, request_id: str, body: dict[str, Any]) -> _Parsed:
        refuse_unsupported(body, honored=HONORED, off=OFF)
        check_model(body, self._state.identity.model, required=True)
        check_version(body, self._state.identity.version)
        longest = self._engine.max_model_len_tokens
        limit = sampling.max_tokens(body, _LIMITS, longest)
        logprobs = _logprobs(body)
        prompt = self._prompt(messages.read(body))
        how = sampling.Sampling.parse(
            body, prompt.defaults, most_n=self._state.limits.max_sequences
        )
        room, max_tokens = limit or ("messages", prompt.max_tokens)
        check_length(len(prompt.token_ids), max_tokens, longest, param="messages", room=room)
        check_reported(how.n, max_tokens, logprobs, param="top_logprobs")
        return _Parsed(
            request=how.request(
                request_id, prompt.token_ids, max_tokens=max_tokens, logprobs=logprobs
            ),
            sampling=how,
            is_correction=prompt.is_correction,
        )

    def _prompt(self, turns: list[protocol.Message]) -> _Prompt:
        try:
            ids = self._engine.encode_chat(turns)
        except protocol.RequestRejected as exc:
            raise invalid("messages", str(exc), "rejected_by_engine") from exc
        if ids is not None:
            room = max(1, self._engine.max_model_len_tokens - len(ids))
            return _Prompt(
                token_ids=ids,
                defaults=sampling.Defaults(),
                max_tokens=room,
                is_correction=False,
            )
        text = self._manifest.prompt.render(messages.text_to_correct(turns))
        settings = self._manifest.generation
        return _Prompt(
            token_ids=token_ids(self._engine, text, "messages"),
            defaults=sampling.Defaults.of(settings),
            max_tokens=settings.max_tokens,
            is_correction=True,
        )


class Trim:
    """Takes white space off both ends of a text that comes in pieces, as `str.strip` would."""

    def __init__(self) -> None:
        self._begun = False
        self._held = ""

    def __call__(self, piece: str) -> str:
        """What of the text so far can be sent; white space waits until something follows it."""
        text = self._held + piece if self._begun else piece.lstrip()
        kept = text.rstrip()
        self._begun = self._begun or bool(kept)
        self._held = text[len(kept) :] if self._begun else ""
        return kept


def _logprobs(body: dict[str, Any]) -> int | None:
    """How many alternatives to report at each token; None for no log probabilities."""
    wanted = fields.boolean(body, "logprobs", default=False)
    most = fields.optional_integer(body, "top_logprobs", low=0, high=protocol.MOST_LOGPROBS)
    if most is not None and not wanted:
        raise invalid("top_logprobs", "top_logprobs needs logprobs to be true")
    return (most or 0) if wanted else None


def _first(index: int) -> dict[str, Any]:
    """The chunk that opens a choice."""
    delta = {"role": "assistant", "content": "", "refusal": None}
    return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}


def _chunk(delta: protocol.Delta, text: str) -> dict[str, Any]:
    return {
        "index": delta.index,
        "delta": {"content": text} if text or delta.finish_reason is None else {},
        "logprobs": shapes.chat_logprobs(delta.logprobs),
        "finish_reason": delta.finish_reason,
    }
