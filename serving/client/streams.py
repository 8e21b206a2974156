"""Completions that come piece by piece.

The call is made when the first piece is asked for. Until the first event it is repeated like any
other call; from then on it is not, since the caller has seen a part of the answer. Closing a stream
early closes its connection, which tells the endpoint to stop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass

import httpx

from serving.client import calls, errors, limits, refusals, types
from serving.client.async_driver import AsyncDriver
from serving.client.exchange import Exchanged
from serving.client.reader import Reader
from serving.client.settings import Session
from serving.client.steps import Flow, Opened
from serving.client.sync_driver import SyncDriver


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How to make the call behind a stream, and what bounds it."""

    session: Session
    begin: Callable[[], Flow[Exchanged]]
    version: int | None
    """The version that must answer, if any."""
    deadline_s: float


class _Streamed:
    """A call and what came of it. Knows nothing of the stream it belongs to.

    So a stream that is forgotten is gone at once, and its connection with it: no cycle holds it.
    """

    def __init__(self, opening: Opening) -> None:
        self.opening = opening
        self.response: httpx.Response | None = None
        self._reader: Reader | None = None
        self._left = False

    def leave(self) -> None:
        """Ends it for the thread that waits for its next piece."""
        self._left = True
        if self.response is not None:
            self.response.close()

    def begun(self, done: Exchanged) -> Reader:
        """Raises VersionNotServed or RuntimeError; the caller closes what was opened."""
        if self._left:
            raise RuntimeError("the stream was closed before it began")
        refusals.check_pin(done.reply.headers, self.opening.version, done.request_id)
        self._reader = Reader(around=calls.around(self.opening.session, done))
        return self._reader

    def until_s(self) -> float:
        """When a stream that begins now must be over."""
        return self.opening.session.now_s() + self.opening.deadline_s

    def left_s(self, until_s: float) -> float:
        """How long to wait for the next bytes; not above 0 when it is too late."""
        session = self.opening.session
        return min(session.config.timeout_s, until_s - session.now_s())

    def result(self) -> types.Completion:
        """All of it.

        Raises:
            RuntimeError: it was closed too early.
        """
        if self._reader is None or not self._reader.complete:
            raise RuntimeError("the stream was closed before it was complete: there is no result")
        return self._reader.completion()


class CompletionStream:
    """An iterator of pieces that closes its connection at the end, or when it is closed.

    with client.complete_stream("Once upon a time") as stream:
        for piece in stream:
            print(piece, end="", flush=True)
    """

    def __init__(self, opening: Opening, driver: SyncDriver) -> None:
        self._streamed = _Streamed(opening)
        self._owner = driver.owner
        self._pieces = _pieces(self._streamed, driver)

    def __enter__(self) -> CompletionStream:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __iter__(self) -> CompletionStream:
        return self

    def __next__(self) -> types.Piece:
        """The next piece. Raises a ClientError."""
        self._owner.check()
        return next(self._pieces)

    def close(self) -> None:
        """Close the connection; the endpoint stops if it was not done.

        A thread that waits for the next piece is answered ConnectionFailed.
        """
        try:
            self._pieces.close()
        except ValueError:  # it is running, in that thread
            self._streamed.leave()

    def result(self) -> types.Completion:
        """The whole completion, after reading what has not been read. Raises a ClientError."""
        for _ in self:
            pass
        return self._streamed.result()


class AsyncCompletionStream:
    """An async iterator of pieces that closes its connection at the end, or when it is closed.

    async with client.complete_stream("Once upon a time") as stream:
        async for piece in stream:
            print(piece, end="", flush=True)
    """

    def __init__(self, opening: Opening, driver: AsyncDriver) -> None:
        self._streamed = _Streamed(opening)
        self._owner = driver.owner
        self._pieces = _async_pieces(self._streamed, driver)

    async def __aenter__(self) -> AsyncCompletionStream:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    def __aiter__(self) -> AsyncCompletionStream:
        return self

    async def __anext__(self) -> types.Piece:
        """The next piece. Raises a ClientError."""
        self._owner.check()
        return await anext(self._pieces)

    async def close(self) -> None:
        """Close the connection; the endpoint stops if it was not done."""
        await self._pieces.aclose()

    async def result(self) -> types.Completion:
        """The whole completion, after reading what has not been read. Raises a ClientError."""
        async for _ in self:
            pass
        return self._streamed.result()


def _opened(done: Exchanged) -> Opened:
    if done.stream is None:
        raise TypeError("the driver of a stream must open it")
    return done.stream


def _pieces(streamed: _Streamed, driver: SyncDriver) -> Generator[types.Piece, None, None]:
    until_s = streamed.until_s()
    done = driver.run(streamed.opening.begin())
    opened = _opened(done)
    streamed.response = opened.response
    with done.held, contextlib.closing(opened.response):
        reader = streamed.begun(done)
        yield from reader.pieces(opened.events)
        while not reader.complete:
            yield from reader.pieces(_events(streamed, reader, opened, until_s))
        with contextlib.suppress(httpx.RequestError), limits.within(streamed.left_s(until_s)):
            next(opened.chunks, None)  # the end, after which the connection can be used again


def _events(streamed: _Streamed, reader: Reader, opened: Opened, until_s: float) -> list[str]:
    try:
        with limits.within(streamed.left_s(until_s)):
            chunk: bytes | None = next(opened.chunks, None)
        return _fed(opened, chunk)
    except httpx.RequestError as exc:
        raise _ended_by(exc, streamed, reader) from exc


def _fed(opened: Opened, chunk: bytes | None) -> list[str]:
    if chunk is None:
        raise httpx.RemoteProtocolError("it ended without [DONE]")
    return opened.parser.feed(chunk)


def _ended_by(
    exc: TimeoutError | httpx.RequestError, streamed: _Streamed, reader: Reader
) -> errors.ClientError:
    match exc:
        case TimeoutError() | httpx.TimeoutException():
            return reader.late(streamed.opening.deadline_s)
        case httpx.DecodingError():
            return reader.unreadable(str(exc))
        case _:
            return reader.broken(f"{type(exc).__name__}: {exc}")


async def _async_pieces(
    streamed: _Streamed, driver: AsyncDriver
) -> AsyncGenerator[types.Piece, None]:
    until_s = streamed.until_s()
    done = await driver.run(streamed.opening.begin())
    opened = _opened(done)
    with done.held:
        async with contextlib.aclosing(opened.response):
            reader = streamed.begun(done)
            for piece in reader.pieces(opened.events):
                yield piece
            while not reader.complete:
                events = await _async_events(streamed, reader, opened, until_s)
                for piece in reader.pieces(events):
                    yield piece
            with contextlib.suppress(httpx.RequestError, TimeoutError):
                async with asyncio.timeout(streamed.left_s(until_s)):
                    await anext(opened.chunks, None)  # the end: see CompletionStream


async def _async_events(
    streamed: _Streamed, reader: Reader, opened: Opened, until_s: float
) -> list[str]:
    try:
        async with asyncio.timeout(streamed.left_s(until_s)):
            chunk: bytes | None = await anext(opened.chunks, None)
        return _fed(opened, chunk)
    except (TimeoutError, httpx.RequestError) as exc:
        raise _ended_by(exc, streamed, reader) from exc
