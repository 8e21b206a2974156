"""No attempt outlasts its time, however steadily an endpoint sends or takes a little."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpcore
import pytest

from serving.client import AsyncClient, Client, DeadlineExceeded, limits
from tests.serving.client import stand_in
from tests.serving.client.stand_in import Kind
from tests.serving.client.test_streams import DONE, HEAD, USAGE, token

BOTH = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["sync", "async"])

OK = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
DRIBBLES = {
    "status line": (b"", b"H"),
    "header": (OK + b"x: ", b"a"),
    "answers before the answer": (b"", b"HTTP/1.1 103 Early Hints\r\n\r\n"),
    "length of a chunk": (OK + b"transfer-encoding: chunked\r\n\r\n1;", b"a"),
    "body": (OK + b"content-length: 90000\r\n\r\n", b" "),
    "body of a refusal": (b"HTTP/1.1 503 X\r\ncontent-length: 90000\r\n\r\n", b" "),
    "comments of a stream": (HEAD, b"1\r\n:\r\n"),
    "stream that began": (HEAD + token("x"), b"1\r\n:\r\n"),
    "stream that began, length of a chunk": (HEAD + token("x") + b"1;", b"a"),
}


def dribbles(begin: bytes, again: bytes) -> Callable[[bytes, asyncio.StreamWriter], Any]:
    """Sends a little all the time, for far longer than anybody waits."""

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        for _ in range(400):
            writer.write(again)
            await writer.drain()
            await asyncio.sleep(0.01)

    return answer


async def outlasted_s(kind: Kind, call: Callable[[Any], Any], url: str, **given: float) -> float:
    """How long a call took that came to nothing in time."""
    began_s = time.monotonic()
    with pytest.raises(DeadlineExceeded):
        await stand_in.ask(kind, call, url, model="m", retries=0, **given)
    return time.monotonic() - began_s


def correct(client: Any) -> Any:
    return client.correct("a")


def stream(client: Any) -> Any:
    return client.complete_stream("p").result()


@BOTH
@pytest.mark.parametrize("what", [name for name in DRIBBLES if "stream" not in name])
async def test_a_call_ends_in_time_whatever_dribbles(kind: Kind, what: str) -> None:
    async with stand_in.server(dribbles(*DRIBBLES[what])) as url:
        assert await outlasted_s(kind, correct, url, timeout_s=0.2) < 2.0


@BOTH
@pytest.mark.parametrize("what", DRIBBLES)
async def test_a_stream_ends_in_time_whatever_dribbles(kind: Kind, what: str) -> None:
    async with stand_in.server(dribbles(*DRIBBLES[what])) as url:
        assert await outlasted_s(kind, stream, url, deadline_s=0.2) < 2.0


@BOTH
async def test_a_stream_that_is_complete_is_not_waited_for_any_longer(kind: Kind) -> None:
    begin = HEAD + token("x", "stop") + USAGE + DONE
    async with stand_in.server(dribbles(begin + b"1;", b"a")) as url:
        began_s = time.monotonic()
        assert (await stand_in.ask(kind, stream, url, model="m", deadline_s=0.3)).text == "x"
        assert time.monotonic() - began_s < 2.0


@contextlib.asynccontextmanager
async def slow_reader() -> AsyncIterator[str]:
    """A server that takes a little of what it is sent now and then."""

    serving: list[asyncio.Future[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())  # type: ignore[arg-type]
        with contextlib.suppress(ConnectionError):
            for _ in range(400):
                if not await reader.read(65_536):
                    break
                await asyncio.sleep(0.01)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1024)
    async with listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    await asyncio.gather(*serving)


@BOTH
async def test_a_request_that_is_taken_bit_by_bit_ends_in_time(kind: Kind) -> None:
    async with slow_reader() as url:
        huge = "a" * 30_000_000
        took_s = await outlasted_s(kind, lambda client: client.correct(huge), url, timeout_s=0.3)
        assert took_s < 3.0


@pytest.fixture
def full() -> Iterator[int]:
    """The port of a listener that takes no more connections, and refuses none."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        address = listener.getsockname()
        with contextlib.ExitStack() as held:
            for _ in range(4):
                waiting = held.enter_context(socket.socket())
                waiting.setblocking(False)
                waiting.connect_ex(address)
            yield int(address[1])


def test_all_addresses_of_a_name_are_tried_in_the_time_of_one_attempt(
    full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_resolved", lambda *_args: ["127.0.0.1"] * 9)
    backend = limits._Backend()
    began_s = time.monotonic()
    with limits.within(0.3), pytest.raises(httpcore.ConnectTimeout):
        backend.connect_tcp("name", full, timeout=0.2)
    assert time.monotonic() - began_s < 1.0


def test_the_next_address_of_a_name_is_tried_where_one_refuses(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(limits, "_resolved", lambda *_args: ["127.0.0.2", "127.0.0.1"])
        with limits.within(5.0):
            limits._Backend().connect_tcp("name", port).close()


def test_an_address_of_a_name_that_is_silent_leaves_time_for_the_next(
    full: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "_resolved", lambda *_args: ["127.0.0.1", "127.0.0.2"])
    with socket.create_server(("127.0.0.2", full)), limits.within(1.0):
        limits._Backend().connect_tcp("name", full, timeout=1.0).close()


def test_a_name_that_is_unknown_cannot_be_connected_to() -> None:
    with limits.within(5.0), pytest.raises(httpcore.ConnectError):
        limits._Backend().connect_tcp("nowhere.invalid", 1)
