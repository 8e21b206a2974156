"""The client for asyncio, with the surface of Client.

Keeps connections open between calls; use it as a context manager, or close it. Cancelling a call
closes its connection, which tells the endpoint to stop.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from typing import Literal

from serving.client import batch, calls, types
from serving.client.async_driver import AsyncDriver
from serving.client.base import Base
from serving.client.errors import ClientError
from serving.client.settings import Wish
from serving.client.steps import Flow, T
from serving.client.streams import AsyncCompletionStream


class AsyncClient(Base):
    """A client for asyncio. Belongs to one event loop.

    async with AsyncClient("http://127.0.0.1:8000") as client:
        print(await client.correct("She go to school every days."))
    """

    def _connect(self) -> None:
        self._driver = AsyncDriver(self._wiring, self._owner)

    def _aside(self) -> Callable[[Flow[None]], None]:
        return self._driver.aside

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections; the client is of no use afterwards."""
        await self._driver.close()

    async def correct(
        self,
        text: str,
        *,
        language: str | None = None,
        offsets: Literal["utf16"] | None = None,
        version: int | None = None,
        deadline_s: float | None = None,
    ) -> types.Correction:
        """Correct a text; see Client.correct. Raises a ClientError."""
        options = calls.CorrectionOptions(language=language, offsets=offsets)
        wish = Wish(version=version, deadline_s=deadline_s)
        return await self._run(calls.correct(self._session, text, options, wish))

    def correct_many(
        self,
        texts: Iterable[str],
        *,
        concurrency: int = 8,
        texts_per_request: int = 16,
        progress: Callable[[int, int], object] | None = None,
        raise_errors: bool = False,
        language: str | None = None,
        offsets: Literal["utf16"] | None = None,
        version: int | None = None,
        deadline_s: float | None = None,
    ) -> AsyncGenerator[batch.Result, None]:
        """Correct many texts; yields a Correction or a ClientError for each, in their order.

        See Client.correct_many. Where the loop may be left early, wrap it in
        `contextlib.aclosing`, so that what is on its way is cancelled at once.
        """
        plan = batch.Plan(
            texts=batch.several(texts),
            options=calls.CorrectionOptions(language=language, offsets=offsets),
            wish=Wish(version=version, deadline_s=deadline_s),
            concurrency=concurrency,
            texts_per_request=texts_per_request,
        )
        return self._results(plan, progress, raise_errors=raise_errors)

    async def complete(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Sequence[str] | None = None,
        seed: int | None = None,
        version: int | None = None,
        deadline_s: float | None = None,
    ) -> types.Completion:
        """Complete a prompt; what is None is left to the endpoint. Raises a ClientError."""
        options = calls.completion_options(max_tokens, temperature, stop, seed)
        wish = Wish(version=version, deadline_s=deadline_s)
        return await self._run(calls.complete(self._session, prompt, options, wish))

    def complete_stream(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        stop: Sequence[str] | None = None,
        seed: int | None = None,
        version: int | None = None,
        deadline_s: float | None = None,
    ) -> AsyncCompletionStream:
        """Complete a prompt piece by piece; use it with `async with`. See Client."""
        options = calls.completion_options(max_tokens, temperature, stop, seed)
        return AsyncCompletionStream(
            self._opening(prompt, options, Wish(version=version, deadline_s=deadline_s)),
            self._driver,
        )

    async def models(self) -> tuple[types.Model, ...]:
        """The models that answer there. Raises a ClientError."""
        return await self._run(calls.models(self._session))

    async def health(self) -> types.Health:
        """Whether a replica is well. Raises ConnectionFailed or DeadlineExceeded without answer."""
        return await self._run(calls.health(self._session))

    async def _run(self, flow: Flow[T]) -> T:
        return await self._driver.run(flow)

    async def _results(
        self,
        plan: batch.Plan,
        progress: Callable[[int, int], object] | None,
        *,
        raise_errors: bool,
    ) -> AsyncGenerator[batch.Result, None]:
        async with contextlib.aclosing(batch.run(self._session, plan, self._driver.run)) as news:
            async for advance in news:
                if progress is not None:
                    progress(advance.done, len(plan.texts))
                for result in advance.results:
                    if raise_errors and isinstance(result, ClientError):
                        raise result
                    yield result
