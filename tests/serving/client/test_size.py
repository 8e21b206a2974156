"""An answer without end is not read without end, whatever it is an answer to."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from typing import Any

import pytest

from serving.client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    ServerFault,
    size,
    sse,
)
from tests.serving.client import stand_in
from tests.serving.client.stand_in import Kind
from tests.serving.client.test_streams import HEAD, token

BOTH = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["sync", "async"])
MANY = 1_000_000


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test has time to send is too much."""
    monkeypatch.setattr(size, "MOST_BYTES", MANY)


def endless(begin: bytes, again: bytes) -> Callable[[bytes, asyncio.StreamWriter], Any]:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(begin)
        while True:
            writer.write(again)
            await writer.drain()

    return answer


def piece(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def correct(client: Any) -> Any:
    return client.correct("a")


def stream(client: Any) -> Any:
    return client.complete_stream("p").result()


def chunked(status: int) -> bytes:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: text/event-stream\r\n"
    return f"{head}transfer-encoding: chunked\r\n\r\n".encode()


BLANKS = piece(b" " * 60_000)


@BOTH
@pytest.mark.parametrize("status", [200, 404, 503])
@pytest.mark.parametrize("call", [correct, stream])
async def test_no_body_is_read_without_end(kind: Kind, status: int, call: Any) -> None:
    async with stand_in.watched(endless(chunked(status), BLANKS)) as seen:
        with pytest.raises(ServerFault, match="more than 1000000 bytes"):
            await stand_in.ask(kind, call, seen.url, model="m")
        assert len(seen.requests) == 1  # it would be as long again
        await stand_in.until(lambda: seen.open == 0)


@BOTH
@pytest.mark.parametrize(
    "again",
    [BLANKS, piece(b"data: " + b"x" * 60_000 + b"\n"), token("x" * 60_000), piece(b":" * 60_000)],
    ids=["line", "event", "stream", "comment"],
)
async def test_no_stream_is_read_without_end(kind: Kind, again: bytes) -> None:
    async with stand_in.watched(endless(HEAD + token("x"), again)) as seen:
        with pytest.raises(ServerFault, match="more than 1000000 bytes"):
            await stand_in.ask(kind, stream, seen.url, model="m")
        await stand_in.until(lambda: seen.open == 0)


@BOTH
async def test_what_is_compressed_is_measured_as_it_is_read(kind: Kind) -> None:
    packed = gzip.compress(b" " * 2 * MANY)
    head = f"HTTP/1.1 200 X\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n"

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head.encode() + packed)

    async with stand_in.server(answer) as url:
        with pytest.raises(ServerFault, match="more than 1000000 bytes"):
            await stand_in.ask(kind, correct, url)


@BOTH
async def test_no_list_of_edges_is_read_without_end(kind: Kind) -> None:
    async with stand_in.server(endless(chunked(200), BLANKS)) as url:
        with pytest.raises(ConnectionFailed, match="more than 1000000 bytes"):
            await stand_in.ask(kind, correct, discovery=url)


def test_a_long_line_in_small_pieces_is_looked_through_once() -> None:
    parser = sse.Parser()
    for _ in range(10_000):  # each time anew: 10 GB
        assert parser.feed(b"data: " + b"x" * 90) == []
    assert len(parser.feed(b"\r")) == 0
    assert parser.feed(b"\n\n") == ["x" * 90 + ("data: " + "x" * 90) * 9_999]
