"""OpenAI's answer shapes that completions and chat share: usage, events, log probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from serving.engine.protocol import TokenLogprob

DONE = b"data: [DONE]\n\n"


def usage(prompt: int, completion: int) -> dict[str, int]:
    """OpenAI's usage object."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }


def event(value: object) -> bytes:
    """One server-sent event."""
    return b"data: " + orjson.dumps(value) + b"\n\n"


def completion_logprobs(
    found: Sequence[TokenLogprob] | None, *, most: int | None, offset: int
) -> dict[str, Any] | None:
    """The legacy shape of `/v1/completions`. `offset`: characters of the tokens before these.

    As at OpenAI the token that was taken is always among `top_logprobs`, so a place may hold
    `most` + 1 of them, and none are given where none were asked for.
    """
    if found is None:
        return None
    offsets = []
    for each in found:
        offsets.append(offset)
        offset += len(each.token)
    return {
        "tokens": [each.token for each in found],
        "token_logprobs": [each.logprob for each in found],
        "top_logprobs": (
            [{**dict(each.top), each.token: each.logprob} for each in found] if most else None
        ),
        "text_offset": offsets,
    }


def chat_logprobs(found: Sequence[TokenLogprob] | None) -> dict[str, Any] | None:
    """The shape of `/v1/chat/completions`."""
    if found is None:
        return None
    content = [
        {
            **_entry(each.token, each.logprob),
            "top_logprobs": [_entry(token, logprob) for token, logprob in each.top],
        }
        for each in found
    ]
    return {"content": content, "refusal": None}


def characters(found: Sequence[TokenLogprob] | None) -> int:
    """How many characters the tokens have together."""
    return sum(len(each.token) for each in found or ())


def _entry(token: str, logprob: float) -> dict[str, Any]:
    return {
        "token": token,
        "logprob": logprob,
        "bytes": list(token.encode("utf-8", errors="replace")),
    }
