"""A stand-in engine: repairs known words, one token per word, as slow as it is told to be.

Passes the contract in tests/serving/engine/test_engine_contract.py, which the real one passes too.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator

from registry.engine_settings import EngineSettings
from serving.engine.protocol import (
    Choice,
    Delta,
    EngineDead,
    FinishReason,
    GenerateRequest,
    GenerateResult,
    RequestRejected,
)

FIXES = {"go": "goes", "days": "day", "teh": "the", "VANISH": ""}
_TOKEN = re.compile(r"\s*\S+|\s+")


class FakeEngine:
    """`delay_s` passes before the first token of each request; `dead` makes everything fail."""

    def __init__(self, *, delay_s: float = 0.0, max_model_len_tokens: int = 64) -> None:
        self.delay_s = delay_s
        self.token_delay_s = 0.0
        self.max_model_len_tokens = max_model_len_tokens
        self.dead = False
        self.requests: list[GenerateRequest] = []
        self.aborted: list[str] = []
        self.running = 0
        self._vocabulary: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        return max(0, self.running - 8)

    def encode(self, text: str) -> tuple[int, ...]:
        if len(text) > 10_000:
            raise RequestRejected(f"a prompt of {len(text)} characters is too long")
        return tuple(
            self._vocabulary.setdefault(token, len(self._vocabulary))
            for token in _TOKEN.findall(text)
        )

    async def generate(self, request: GenerateRequest) -> GenerateResult:
        tokens = [token async for token in self._tokens(request)]
        finish = self._finish(request)
        return GenerateResult(
            choices=tuple(
                Choice(index=index, text="".join(tokens), finish_reason=finish)
                for index in range(request.n)
            ),
            prompt_tokens=len(request.prompt_token_ids),
            completion_tokens=len(tokens) * request.n,
        )

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[Delta, None]:
        async for token in self._tokens(request):
            for index in range(request.n):
                yield Delta(index=index, text=token, completion_tokens=1)
        for index in range(request.n):
            finish = self._finish(request)
            yield Delta(index=index, text="", completion_tokens=0, finish_reason=finish)

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
        words = {number: token for token, number in self._vocabulary.items()}
        try:
            prompt = "".join(words[number] for number in request.prompt_token_ids)
        except KeyError as exc:
            raise RequestRejected(f"token id {exc} is not in the vocabulary") from exc
        tokens = _TOKEN.findall(_text(prompt))
        fixed = (re.sub(r"\w+", lambda m: FIXES.get(m[0], m[0]), token) for token in tokens)
        return list(itertools.takewhile(lambda t: not any(s in t for s in request.stop), fixed))

    def _finish(self, request: GenerateRequest) -> FinishReason:
        cut = len(self._completion(request)) > request.max_tokens
        return FinishReason.LENGTH if cut else FinishReason.STOP


def _text(prompt: str) -> str:
    """The text in a prompt of `{text}\\n` or of the demo's `Correct: {text}\\nFixed:`."""
    lines = prompt.strip().splitlines()
    return lines[0].removeprefix("Correct: ") if lines else ""


def load(checkpoint_dir: str, settings: EngineSettings) -> FakeEngine:
    """An `EngineFactory`: a file `delay_s` in the checkpoint directory sets the delay."""
    from pathlib import Path

    delay = Path(checkpoint_dir, "delay_s")
    return FakeEngine(
        delay_s=float(delay.read_text()) if delay.is_file() else 0.0,
        max_model_len_tokens=settings.max_model_len_tokens,
    )
