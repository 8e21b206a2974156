"""A stand-in engine: repairs known words, one token per word, as slow as it is told to be.

Passes the contract in tests/serving/engine/test_engine_contract.py, which the real one passes too.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import re
from collections.abc import AsyncGenerator, Sequence

from serving.engine.protocol import (
    Choice,
    Delta,
    EngineDead,
    FinishReason,
    GenerateRequest,
    GenerateResult,
    Message,
    RequestRejected,
    TokenLogprob,
)

FIXES = {"go": "goes", "days": "day", "teh": "the", "VANISH": ""}
_TOKEN = re.compile(r"\s*\S+|\s+")


class FakeEngine:
    """`delay_s` passes before the first token of each request; `dead` makes everything fail.

    With `chat` it has a chat template, which refuses two messages of one role in a row.
    """

    def __init__(self, *, delay_s: float = 0.0, max_model_len_tokens: int = 64) -> None:
        self.delay_s = delay_s
        self.token_delay_s = 0.0
        self.max_model_len_tokens = max_model_len_tokens
        self.dead = False
        self.chat = False
        self.requests: list[GenerateRequest] = []
        self.aborted: list[str] = []
        self.running = 0
        self._vocabulary: dict[str, int] = {}
        self._words: list[str] = []

    def encode(self, text: str) -> tuple[int, ...]:
        if len(text) > 10_000:
            raise RequestRejected(f"a prompt of {len(text)} characters is too long")
        tokens = _TOKEN.findall(text)
        for token in tokens:
            if token not in self._vocabulary:
                self._vocabulary[token] = len(self._words)
                self._words.append(token)
        return tuple(self._vocabulary[token] for token in tokens)

    def encode_chat(self, messages: Sequence[Message]) -> tuple[int, ...] | None:
        if not self.chat:
            return None
        if any(one.role == two.role for one, two in itertools.pairwise(messages)):
            raise RequestRejected("the template wants roles to alternate")
        turns = [f"{each.role}: {each.content}\n" for each in messages]
        return self.encode("".join([messages[-1].content, "\n", *turns]))

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        tokens = [token async for token in self._tokens(request)]
        finish = self._finish(request)
        return GenerateResult(
            choices=tuple(
                Choice(
                    index=index,
                    text="".join(tokens),
                    finish_reason=finish,
                    logprobs=_logprobs(tokens, request.logprobs),
                )
                for index in range(request.n)
            ),
            prompt_tokens=len(request.prompt_token_ids),
            completion_tokens=len(tokens) * request.n,
        )

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        async with contextlib.aclosing(self._tokens(request)) as tokens:
            async for token in tokens:
                for index in range(request.n):
                    found = _logprobs([token], request.logprobs)
                    yield Delta(index=index, text=token, completion_tokens=1, logprobs=found)
        for index in range(request.n):
            finish = self._finish(request)
            found = _logprobs([], request.logprobs)
            yield Delta(
                index=index, text="", completion_tokens=0, finish_reason=finish, logprobs=found
            )

    async def check_health(self) -> None:
        if self.dead:
            raise EngineDead("the fake engine was declared dead")

    def shutdown(self) -> None:
        self.dead = True

    async def _tokens(self, request: GenerateRequest) -> AsyncGenerator[str, None]:
        self.requests.append(request)
        completion = self._completion(request)
        self.running += 1
        try:
            await asyncio.sleep(self.delay_s)
            await self.check_health()
            for token in completion[: request.max_tokens]:
                yield token
                await asyncio.sleep(self.token_delay_s)
        except (asyncio.CancelledError, GeneratorExit):
            self.aborted.append(request.request_id)
            raise
        finally:
            self.running -= 1

    def _completion(self, request: GenerateRequest) -> list[str]:
        unknown = [n for n in request.prompt_token_ids if n >= len(self._words)]
        if unknown:
            raise RequestRejected(f"token id {unknown[0]} is not in the vocabulary")
        prompt = "".join(self._words[number] for number in request.prompt_token_ids)
        tokens = _TOKEN.findall(_text(prompt))
        fixed = (re.sub(r"\w+", lambda m: FIXES.get(m[0], m[0]), token) for token in tokens)
        return list(itertools.takewhile(lambda t: not any(s in t for s in request.stop), fixed))

    def _finish(self, request: GenerateRequest) -> FinishReason:
        cut = len(self._completion(request)) > request.max_tokens
        return FinishReason.LENGTH if cut else FinishReason.STOP


def _logprobs(tokens: Sequence[str], most: int | None) -> tuple[TokenLogprob, ...] | None:
    """The longer a token, the less likely; in its place stand ever less likely ones."""
    if most is None:
        return None
    return tuple(
        TokenLogprob(
            token=token,
            logprob=-len(token) / 8,
            top=tuple((token + "?" * rank, -len(token) / 8 - rank) for rank in range(most)),
        )
        for token in tokens
    )


def _text(prompt: str) -> str:
    """The text in a prompt of `{text}\\n` or of the demo's `Correct: {text}\\nFixed:`."""
    lines = prompt.strip().splitlines()
    return lines[0].removeprefix("Correct: ") if lines else ""
