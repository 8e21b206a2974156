"""An engine as a front end uses it: every sequence counted, and no call outlives the engine.

The one idea: a core that is killed says nothing, so a call would wait for ever. Each call runs
under a timeout without a time; `died` sets them all to now, and what they raise is `EngineDead`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence

from serving.engine import protocol
from serving.engine.state import ReplicaState


class WatchedEngine:
    """An `Engine` over another one."""

    def __init__(self, engine: protocol.Engine, state: ReplicaState) -> None:
        self._engine = engine
        self._state = state
        self._dead: str | None = None
        self._calls: set[asyncio.Timeout] = set()

    @property
    def max_model_len_tokens(self) -> int:
        """See `Engine`."""
        return self._engine.max_model_len_tokens

    def encode(self, text: str) -> tuple[int, ...]:
        """See `Engine`."""
        return self._engine.encode(text)

    def encode_chat(self, turns: Sequence[protocol.Message]) -> tuple[int, ...] | None:
        """See `Engine`."""
        return self._engine.encode_chat(turns)

    async def generate(self, request: protocol.GenerateRequest) -> protocol.GenerateResult:
        """See `Engine`."""
        with self._state.in_engine(request.n):
            async with self._while_alive():
                return await self._engine.generate(request)

    async def stream(
        self, request: protocol.GenerateRequest
    ) -> AsyncGenerator[protocol.Delta, None]:
        """See `Engine`."""
        with self._state.in_engine(request.n):
            async with contextlib.aclosing(self._engine.stream(request)) as deltas:
                while True:
                    # Around each step: between two the task is not ours to interrupt.
                    async with self._while_alive():
                        delta = await anext(deltas, None)
                    if delta is None:
                        return
                    yield delta

    async def check_health(self) -> None:
        """See `Engine`."""
        async with self._while_alive():
            await self._engine.check_health()

    def shutdown(self) -> None:
        """See `Engine`."""
        self._engine.shutdown()

    def died(self, why: str) -> None:
        """Ends every call, now and from now on, with `EngineDead`."""
        self._dead = why
        for call in self._calls:
            call.reschedule(asyncio.get_running_loop().time())

    @contextlib.asynccontextmanager
    async def _while_alive(self) -> AsyncIterator[None]:
        if self._dead is not None:
            raise protocol.EngineDead(self._dead)
        call = asyncio.timeout(None)
        try:
            async with call:
                self._calls.add(call)
                try:
                    yield
                finally:
                    self._calls.discard(call)
        except TimeoutError as exc:
            if not call.expired():
                raise
            raise protocol.EngineDead(self._dead or "the engine died") from exc
