"""What a replica needs from an engine, as a protocol, and the values that cross it.

The one idea: token counting, generation and death are the only things the HTTP side knows about
an engine, so a stand-in of a few lines can take its place in tests and pass the same contract.
Cancelling the task that awaits `generate` (or iterates `stream`) aborts the request in the engine.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Protocol

MOST_LOGPROBS = 20
"""Alternatives that can be asked for at each token; vLLM's own default, and OpenAI's for chat."""
LEAST_LOGPROB = -9999.0
"""Stands for minus infinity; the value that vLLM and OpenAI send for it."""


class EngineFailed(Exception):
    """The engine could not finish this request, through no fault of the caller."""


class EngineDead(EngineFailed):
    """The engine process is gone; the replica that holds it must be replaced."""


class RequestRejected(Exception):
    """The engine refused this one request; the message says why and may be shown to the caller."""


class FinishReason(enum.StrEnum):
    """Why a completion ended."""

    STOP = "stop"
    """The model ended it, or a stop string was met."""
    LENGTH = "length"
    """`max_tokens` ran out: the text is cut off."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """One prompt and how to continue it. `request_id` must be unique among requests in flight.

    `logprobs` is how many of the likeliest tokens to report at each place beside the one taken;
    None asks for no log probabilities at all, which is what costs nothing.
    """

    request_id: str
    prompt_token_ids: tuple[int, ...]
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    n: int = 1
    stop: tuple[str, ...] = ()
    seed: int | None = None
    logprobs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenLogprob:
    """A token that was taken: its text, its natural log probability, the likeliest in its place.

    `top` is in falling order and at most as long as was asked for; what the model gave no chance
    is `LEAST_LOGPROB`, since JSON has no infinity.
    """

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """One continuation of the prompt; `logprobs` holds every token that was counted."""

    index: int
    text: str
    finish_reason: FinishReason
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateResult:
    """All continuations of one prompt; `completion_tokens` is their sum."""

    choices: tuple[Choice, ...]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """The next piece of one continuation; the last piece of each carries its `finish_reason`."""

    index: int
    text: str
    completion_tokens: int
    finish_reason: FinishReason | None = None
    logprobs: tuple[TokenLogprob, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn of a conversation."""

    role: str
    content: str


class Engine(Protocol):
    """A loaded model, as one process sees it; used from one event loop."""

    @property
    def max_model_len_tokens(self) -> int:
        """The most tokens prompt and continuation may have together."""
        ...

    def encode(self, text: str) -> tuple[int, ...]:
        """Token ids of a prompt, special tokens included.

        Raises:
            RequestRejected: the text cannot fit the model whatever its tokens are.
        """
        ...

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...] | None:
        """Token ids of a conversation in the tokenizer's own chat template, up to where the
        assistant answers; None where the tokenizer has no template.

        Raises:
            RequestRejected: the template refuses the conversation, or it cannot fit the model.
        """
        ...

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        """The finished continuations.

        Raises:
            RequestRejected: the engine refused this request.
            EngineFailed: the engine could not finish it; EngineDead where it is gone.
        """
        ...

    def stream(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        """The continuations piece by piece; errors as for `generate`. Closing it aborts."""
        ...

    async def check_health(self) -> None:
        """Returns when the engine is alive.

        Raises:
            EngineDead: it is not.
        """
        ...

    def shutdown(self) -> None:
        """Stops the engine and its processes. Requests in flight fail with `EngineDead`."""
        ...


def total_tokens(results: Sequence[GenerateResult]) -> tuple[int, int]:
    """Prompt and completion tokens over several results."""
    return (
        sum(result.prompt_tokens for result in results),
        sum(result.completion_tokens for result in results),
    )


_serial = itertools.count()


def unique_id(request_id: str) -> str:
    """An engine request id: the caller's own, made unique in this process."""
    return f"{request_id}-{next(_serial)}"
