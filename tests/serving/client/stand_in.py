"""A real HTTP server on loopback that answers as a test says, and what it saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from serving.client import AsyncClient, Client

Kind = type[Client] | type[AsyncClient]
Answer = Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]

CORRECTION = {
    "model": "grammar",
    "version": 1,
    "corrected": "She goes to school every day.",
    "edits": [],
    "finish_reason": "stop",
    "request_id": "r",
}


def http(status: int, data: object, extra: str = "") -> bytes:
    body = json.dumps(data).encode()
    return f"HTTP/1.1 {status} X\r\ncontent-length: {len(body)}\r\n{extra}\r\n".encode() + body


def length(head: bytes) -> int:
    lines = head.decode().lower().split("\r\n")
    return next((int(v) for n, _, v in (s.partition(":") for s in lines) if "length" in n), 0)


def body(request: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(request.partition(b"\r\n\r\n")[2])
    return found


def header(request: bytes, name: str) -> str | None:
    lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return next((value.strip() for key, _, value in pairs if key.lower() == name), None)


@dataclass
class Seen:
    """What a server was asked, and how its connections ended."""

    url: str
    requests: list[bytes] = field(default_factory=list)
    open: int = 0
    left: int = 0
    """Connections that the client closed while an answer was on its way."""


@dataclass
class Serving:
    """The connections of a server."""

    answer: Answer
    seen: Seen
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether there may be another."""
        head = await reader.readuntil(b"\r\n\r\n")
        request = head + await reader.readexactly(length(head))
        self.seen.requests.append(request)
        answering = asyncio.ensure_future(self.answer(request, writer))
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait((answering, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self.seen.left += 1
                return False
            await answering
            await writer.drain()
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)
        return not writer.is_closing()

    async def connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """All requests of a connection."""
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        self.seen.open += 1
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self.one(reader, writer):
                    pass
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            self.seen.open -= 1
            self.tasks.discard(task)
            writer.close()


@contextlib.asynccontextmanager
async def watched(answer: Answer) -> AsyncIterator[Seen]:
    """A server that gives every request to `answer`; an answer ends when the client leaves."""
    serving = Serving(answer=answer, seen=Seen(url=""))
    listening = await asyncio.start_server(serving.connection, "127.0.0.1", 0)
    serving.seen.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield serving.seen
    finally:
        listening.close()
        tasks = list(serving.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[str]:
    """The same, where only its address matters."""
    async with watched(answer) as seen:
        yield seen.url


@contextlib.contextmanager
def threaded(answer: Answer) -> Iterator[Seen]:
    """The same on a thread, for tests that wait themselves."""
    ready, found = threading.Event(), []
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()

    async def serve() -> None:
        async with watched(answer) as seen:
            found.append(seen)
            ready.set()
            await stop.wait()

    def run() -> None:
        loop.run_until_complete(serve())
        loop.close()

    thread = threading.Thread(target=run, name="stand-in")
    thread.start()
    try:
        assert ready.wait(10)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(10)


async def ask(kind: Kind, call: Callable[[Any], Any], *args: Any, **given: Any) -> Any:
    """What a call by either client comes to; the sync one runs in a thread."""
    if kind is AsyncClient:
        async with AsyncClient(*args, **given) as client:
            return await call(client)

    def wait() -> Any:
        with Client(*args, **given) as client:
            return call(client)

    return await asyncio.to_thread(wait)


async def gone() -> str:
    """An address at which nobody listens."""
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    return f"http://127.0.0.1:{port}"


async def until(condition: Callable[[], bool], timeout_s: float = 5.0) -> None:
    """Waits for what must become true."""
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 what is waited for is on another thread
            await asyncio.sleep(0.005)
