"""Moves bytes and time for calls on an event loop, two attempts side by side where asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import httpx

from serving.client import orphans, retry, size, sse, transport
from serving.client.owner import Owner
from serving.client.steps import Flow, Opened, Outcome, Race, Raced, Send, T, Wait


async def drive(
    flow: Flow[T],
    move: Callable[[Send | Race], Awaitable[Outcome | Raced]],
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """A call's result, its bytes moved by `move`; what it holds is given back in any case."""
    outcome: Outcome | Raced | None = None
    try:
        while True:
            try:
                step = flow.send(outcome)
            except StopIteration as done:
                result: T = done.value
                return result
            if isinstance(step, Wait):
                await pause(step.delay_s)
                outcome = None
            else:
                outcome = await move(step)
    finally:
        flow.close()


class AsyncDriver:
    """Runs calls over httpx, all of them on one event loop."""

    def __init__(self, wiring: transport.Wiring, owner: Owner) -> None:
        self.owner = owner
        # Races, streams, long bodies: see transport on why they have connections of their own.
        self._http1 = httpx.AsyncClient(**wiring.settings(http2=False))
        self._http = (
            httpx.AsyncClient(**wiring.settings(http2=True)) if wiring.offers_http2 else self._http1
        )
        self._beside: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    def aside(self, flow: Flow[None]) -> None:
        """Runs a flow that nobody waits for; `close` ends it."""
        if self._http.is_closed:
            return  # the call that it is beside will say so
        task = asyncio.get_running_loop().create_task(self.run(flow))
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)

    async def close(self) -> None:
        """Ends what nobody waits for and closes every connection."""
        if not self.owner.is_here():
            return
        self._closed.set()
        running = list(self._beside)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._http.aclose()
        await self._http1.aclose()

    async def run(self, flow: Flow[T]) -> T:
        """A call's result; what the call holds is given back, also when this is cancelled."""
        self.owner.check()
        return await drive(flow, self._move, self._pause)

    async def _pause(self, delay_s: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await self._closed.wait()
            raise RuntimeError(transport.CLOSED)

    async def _move(self, step: Send | Race) -> Outcome | Raced:
        if isinstance(step, Race):
            return await self._race(step)
        suits = transport.suits_http2(step)
        return await self._attempt(step, self._http if suits else self._http1)

    async def _attempt(self, step: Send, http: httpx.AsyncClient) -> Outcome:
        answered = False
        try:
            async with asyncio.timeout(step.timeout_s):
                found = await (self._open(step, http) if step.opens else self._whole(step, http))
            answered = True
            return found
        except TimeoutError:
            return transport.too_slow(step)
        except httpx.RequestError as exc:
            return transport.failure(exc)
        finally:
            if not answered:
                await orphans.close(http)

    async def _whole(self, step: Send, http: httpx.AsyncClient) -> Outcome:
        async with contextlib.aclosing(await _sent(step, http)) as response:
            return await _read(response)

    async def _race(self, race: Race) -> Raced:
        first = asyncio.ensure_future(self._attempt(race.first, self._http1))
        attempts = [first]
        try:
            await asyncio.wait(attempts, timeout=race.after_s)
            second = race.second() if not first.done() else None
            if second is not None:
                attempts.append(asyncio.ensure_future(self._attempt(second, self._http1)))
            pending = {attempt for attempt in attempts if not attempt.done()}
            while pending and not any(map(_decides, attempts)):
                _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            found = [attempt.result() if attempt.done() else None for attempt in attempts]
        finally:
            for attempt in attempts:
                attempt.cancel()
            await asyncio.gather(*attempts, return_exceptions=True)
        return Raced(first=found[0], second=found[1] if len(found) > 1 else None)

    async def _open(self, step: Send, http: httpx.AsyncClient) -> Outcome:
        response = await _sent(step, http)
        opened = False
        try:
            found = await self._first_event(response)
            opened = isinstance(found, Opened)
            return found
        finally:
            if not opened:
                await response.aclose()

    async def _first_event(self, response: httpx.Response) -> Outcome:
        if response.status_code != httpx.codes.OK:
            return await _read(response)
        transport.check_stream(response)
        parser, chunks = sse.Parser(), response.aiter_bytes()
        async for chunk in chunks:
            events = parser.feed(chunk)
            if events:
                return Opened(
                    headers=transport.headers(response),
                    events=events,
                    parser=parser,
                    response=response,
                    chunks=chunks,
                )
        return transport.no_event()


async def _sent(step: Send, http: httpx.AsyncClient) -> httpx.Response:
    """What answers, its body still to come."""
    return await http.send(transport.request(http, step), stream=True)


async def _read(response: httpx.Response) -> Outcome:
    body = bytearray()
    async for piece in response.aiter_bytes():
        body += piece
        size.check(len(body))
    return transport.reply(response, bytes(body))


def _decides(attempt: asyncio.Future[Outcome]) -> bool:
    if not attempt.done():
        return False
    outcome = attempt.result()
    return not isinstance(outcome, Opened) and (
        isinstance(outcome, retry.Reply) and retry.settles(outcome)
    )
