"""Answers that break HTTP: a typed error in time, and a second try only where it does no harm."""

from __future__ import annotations

import asyncio
import gzip
import json
from typing import Any

import pytest

from serving.client import (
    AsyncClient,
    Client,
    ClientError,
    ConnectionFailed,
    DeadlineExceeded,
    Overloaded,
    ServerFault,
)
from tests.serving.client import stand_in
from tests.serving.client.stand_in import CORRECTION, Kind, http

BOTH = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["sync", "async"])
BODY = json.dumps(CORRECTION).encode()
PACKED = gzip.compress(BODY * 50)
OK = b"HTTP/1.1 200 OK\r\n"


def sized(body: bytes, size: int | None = None, more: bytes = b"") -> bytes:
    return OK + more + f"content-length: {size or len(body)}\r\n\r\n".encode() + body


GZIP = b"content-encoding: gzip\r\n"
FAR = "Wed, 21 Oct 2999 07:28:00 GMT"
ANSWERS: dict[str, tuple[bytes, type[ClientError], int, int]] = {
    # What is said; the error; how often a correction and a sampled completion are asked for.
    "nothing": (b"", ConnectionFailed, 3, 1),
    "no HTTP": (b"hello\n\n", ConnectionFailed, 3, 1),
    "no status": (b"\x00\xff\r\n\r\n", ConnectionFailed, 3, 1),
    "less than announced": (sized(b"{", 500, b"connection: close\r\n"), ConnectionFailed, 3, 1),
    "half a chunk": (OK + b"transfer-encoding: chunked\r\n\r\n50\r\n{", ConnectionFailed, 3, 1),
    "two lengths": (sized(b"abcde", 4, b"content-length: 5\r\n"), ConnectionFailed, 3, 1),
    "length below zero": (sized(b"abcd", -4), ConnectionFailed, 3, 1),
    "headers without end": (OK + b"x: a\r\n" * 30_000, ConnectionFailed, 3, 1),
    "another protocol": (b"HTTP/1.1 101 X\r\nupgrade: x\r\n\r\n", ConnectionFailed, 3, 1),
    "half an answer": (OK + b"\r\n" + BODY[:50], ServerFault, 1, 1),
    "more than announced": (sized(BODY, 50), ServerFault, 1, 1),
    "half of what is packed": (sized(PACKED[:-20], more=GZIP), ServerFault, 1, 1),
    "not packed": (sized(BODY, more=GZIP), ServerFault, 1, 1),
    "packed otherwise": (sized(BODY[::-1], more=b"content-encoding: br\r\n"), ServerFault, 1, 1),
    "nothing to say": (b"HTTP/1.1 204 X\r\n\r\n", ServerFault, 1, 1),
    "no such status": (b"HTTP/1.1 999 X\r\ncontent-length: 0\r\n\r\n", ServerFault, 1, 1),
    "come back never": (http(503, {}, f"retry-after: {'9' * 12}\r\n"), Overloaded, 1, 1),
    "come back in a far year": (http(429, {}, f"retry-after: {FAR}\r\n"), Overloaded, 1, 1),
    "come back sometime": (http(503, {}, "retry-after: -1e9\r\n"), Overloaded, 3, 3),
}


@BOTH
@pytest.mark.parametrize("what", ANSWERS)
async def test_a_strange_answer_is_an_error_that_is_tried_again_where_it_is_safe(
    kind: Kind, what: str
) -> None:
    said, error, corrections, completions = ANSWERS[what]

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        writer.close()

    async def asked(call: Any) -> int:
        async with stand_in.watched(answer) as seen:
            with pytest.raises(error):
                await stand_in.ask(kind, call, seen.url, model="m", deadline_s=5.0)
            return len(seen.requests)

    assert await asked(lambda client: client.correct("a")) == corrections
    assert await asked(lambda client: client.complete("a")) == completions


@BOTH
async def test_an_answer_that_is_only_announced_all_the_time_ends_in_time(kind: Kind) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000)
            await writer.drain()

    async with stand_in.watched(answer) as seen:
        with pytest.raises(DeadlineExceeded):
            await stand_in.ask(kind, lambda client: client.correct("a"), seen.url, timeout_s=0.2)
        assert len(seen.requests) == 1
