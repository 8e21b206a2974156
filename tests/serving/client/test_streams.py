"""Streamed completions against a real server: pieces, breaks, early ends and what is left."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from serving.client import (
    AsyncClient,
    Client,
    ClientError,
    Completion,
    ConnectionFailed,
    DeadlineExceeded,
    Overloaded,
    ServerFault,
    VersionNotServed,
)
from tests.serving.client import stand_in

HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-liftlock-version: 3\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
END = b"0\r\n\r\n"
Kind = type[Client] | type[AsyncClient]
BOTH = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["sync", "async"])


def chunk(data: object) -> bytes:
    event = data if isinstance(data, str) else json.dumps(data)
    line = f"data: {event}\n\n".encode()
    return f"{len(line):x}\r\n".encode() + line + b"\r\n"


def token(text: str, finish_reason: str | None = None) -> bytes:
    return chunk({"model": "m", "choices": [{"text": text, "finish_reason": finish_reason}]})


USAGE = chunk({"model": "m", "choices": [], "usage": {"prompt_tokens": 4, "completion_tokens": 2}})
DONE = chunk("[DONE]")


async def read(kind: Kind, url: str, **given: Any) -> tuple[list[str], Completion]:
    """All pieces and their sum, by either client; the sync one runs in a thread."""
    settings = {"model": "m", **given}
    if kind is AsyncClient:
        async with (
            AsyncClient(url, **settings) as client,
            client.complete_stream("p", temperature=0) as stream,
        ):
            return [str(piece) async for piece in stream], await stream.result()

    def wait() -> tuple[list[str], Completion]:
        with Client(url, **settings) as client, client.complete_stream("p", temperature=0) as own:
            return [str(piece) for piece in own], own.result()

    return await asyncio.to_thread(wait)


def says(*parts: bytes) -> Callable[[bytes, asyncio.StreamWriter], Any]:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(0)

    return answer


@BOTH
async def test_pieces_come_one_by_one_and_add_up(kind: Kind) -> None:
    answer = says(HEAD, token("one "), token("two", "stop"), USAGE, DONE, END)
    async with stand_in.watched(answer) as seen:
        pieces, whole = await read(kind, seen.url)
    assert pieces == ["one ", "two"]
    assert whole.text == "one two"
    assert (whole.finish_reason, whole.version, whole.model) == ("stop", 3, "m")
    assert (whole.prompt_tokens, whole.completion_tokens) == (4, 2)
    asked = stand_in.body(seen.requests[0])
    assert asked["stream"] is True
    assert asked["stream_options"] == {"include_usage": True}
    allowed_ms = int(stand_in.header(seen.requests[0], "x-request-timeout-ms") or 0)
    assert 10_000 < allowed_ms <= 30_000  # the deadline of all of it, not that of one attempt


@BOTH
async def test_before_the_first_event_it_is_asked_again(kind: Kind) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        match len(seen.requests):
            case 1:
                full = {"error": {"message": "full"}}
                writer.write(stand_in.http(503, full, "retry-after: 0\r\n"))
            case 2:
                writer.write(HEAD)  # and no event
                writer.close()
            case _:
                writer.write(HEAD + token("x", "stop") + USAGE + DONE + END)

    async with stand_in.watched(answer) as seen:
        assert (await read(kind, seen.url))[0] == ["x"]
    assert len(seen.requests) == 3


@BOTH
async def test_after_the_first_event_it_is_not_asked_again(kind: Kind) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + token("x"))
        writer.close()

    async with stand_in.watched(answer) as seen:
        with pytest.raises(ConnectionFailed, match="after 1 pieces"):
            await read(kind, seen.url)
    assert len(seen.requests) == 1


@BOTH
async def test_an_end_without_done_is_no_end(kind: Kind) -> None:
    async with stand_in.watched(says(HEAD, token("x"), END)) as seen:
        with pytest.raises(ConnectionFailed, match=r"without \[DONE\]"):
            await read(kind, seen.url)


@BOTH
@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"type": "timeout_error", "message": "late", "code": "deadline_exceeded"},
         DeadlineExceeded),
        ({"type": "unavailable_error", "message": "draining"}, Overloaded),
        ({"type": "server_error", "message": "engine"}, ServerFault),
        ("what", ServerFault),
    ],
)  # fmt: skip
async def test_an_error_in_the_stream_is_raised_as_its_kind(
    kind: Kind, said: object, error: type[ClientError]
) -> None:
    async with stand_in.watched(says(HEAD, token("x"), chunk({"error": said}), END)) as seen:
        with pytest.raises(error, match="ended the stream"):
            await read(kind, seen.url)


@BOTH
@pytest.mark.parametrize(
    "event",
    ["no json", "[]", '{"choices": [{}]}', "{}", '{"choices": {}}', '{"choices": [1]}',
     '{"choices": [{"text": null}]}', '{"choices": [{"text": "a", "finish_reason": 1}]}',
     '{"choices": [], "model": 1}', '{"choices": [], "usage": 1}',
     '{"choices": [], "usage": {"prompt_tokens": "1"}}', "[" * 200_000],
)  # fmt: skip
async def test_an_event_that_is_none_is_the_servers_fault(kind: Kind, event: str) -> None:
    async with stand_in.watched(says(HEAD, token("x"), chunk(event), END)) as seen:
        with pytest.raises(ServerFault, match="does not understand"):
            await read(kind, seen.url)


@BOTH
@pytest.mark.parametrize("kept", [[token("x", "stop")], [token("x"), USAGE]])
async def test_a_completion_of_which_not_all_was_told_is_the_servers_fault(
    kind: Kind, kept: list[bytes]
) -> None:
    async with stand_in.watched(says(HEAD, *kept, DONE, END)) as seen:
        with pytest.raises(ServerFault, match="no finish_reason or no usage"):
            await read(kind, seen.url)


@BOTH
@pytest.mark.parametrize("said", ["", "content-type: text/html\r\n"])
async def test_an_answer_that_is_no_stream_is_the_servers_fault(kind: Kind, said: str) -> None:
    async with stand_in.watched(says(stand_in.http(200, "<html>", said))) as seen:
        with pytest.raises(ServerFault, match="not text/event-stream"):
            await read(kind, seen.url)
        assert len(seen.requests) == 1


@BOTH
async def test_a_stream_that_stands_still_ends_at_the_limit(kind: Kind) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + token("x"))
        await asyncio.sleep(60)

    async with stand_in.watched(answer) as seen:
        with pytest.raises(DeadlineExceeded, match="after 1 pieces"):
            await read(kind, seen.url, timeout_s=0.1)
        await stand_in.until(lambda: seen.left == 1)


@BOTH
async def test_a_stream_that_goes_on_and_on_ends_at_the_deadline(kind: Kind) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD)
        while True:
            writer.write(token("x"))
            await writer.drain()
            await asyncio.sleep(0.01)

    async with stand_in.watched(answer) as seen:
        with pytest.raises(DeadlineExceeded, match="deadline_s"):
            await read(kind, seen.url, deadline_s=0.2)
        await stand_in.until(lambda: seen.left == 1)


@BOTH
async def test_a_pin_that_is_ignored_is_noticed_before_a_piece_is_given(kind: Kind) -> None:
    async with stand_in.watched(says(HEAD, token("x", "stop"), DONE, END)) as seen:
        with pytest.raises(VersionNotServed):
            await read(kind, seen.url, version=2)


@pytest.fixture
async def endless() -> AsyncIterator[stand_in.Seen]:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + token("x"))
        await asyncio.sleep(60)

    async with stand_in.watched(answer) as seen:
        yield seen


async def test_closing_an_async_stream_early_closes_its_connection(
    endless: stand_in.Seen,
) -> None:
    async with AsyncClient(endless.url, model="m") as client:
        async with client.complete_stream("p") as stream:
            assert str(await anext(stream)) == "x"
            assert client.stats().edges[0].in_flight == 1
        await stand_in.until(lambda: endless.left == 1 and endless.open == 0)
        assert client.stats().edges[0].in_flight == 0
        with pytest.raises(RuntimeError, match="closed before it was complete"):
            await stream.result()


async def test_cancelling_who_reads_an_async_stream_closes_its_connection(
    endless: stand_in.Seen,
) -> None:
    async with AsyncClient(endless.url, model="m") as client:
        stream = client.complete_stream("p")
        assert str(await anext(stream)) == "x"
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.02)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await stand_in.until(lambda: endless.left == 1 and endless.open == 0)
        assert client.stats().edges[0].in_flight == 0


async def test_closing_a_sync_stream_early_closes_its_connection(endless: stand_in.Seen) -> None:
    def part() -> int:
        with Client(endless.url, model="m") as client:
            with client.complete_stream("p") as stream:
                assert str(next(stream)) == "x"
            return client.stats().edges[0].in_flight

    assert await asyncio.to_thread(part) == 0
    await stand_in.until(lambda: endless.left == 1 and endless.open == 0)


async def test_a_forgotten_sync_stream_is_closed_too(endless: stand_in.Seen) -> None:
    def part(client: Client) -> None:
        for piece in client.complete_stream("p"):
            assert str(piece) == "x"
            break

    with Client(endless.url, model="m") as client:
        await asyncio.to_thread(part, client)
        await stand_in.until(lambda: endless.left == 1 and endless.open == 0)


@BOTH
async def test_a_stream_that_was_read_leaves_a_connection_for_the_next(kind: Kind) -> None:
    opened: set[object] = set()

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        opened.add(writer)
        writer.write(HEAD + token("x", "stop") + USAGE + DONE + END)

    async def twice_async(url: str) -> None:
        async with AsyncClient(url, model="m") as client:
            for _ in range(2):
                await client.complete_stream("p").result()

    def twice(url: str) -> None:
        with Client(url, model="m") as client:
            for _ in range(2):
                client.complete_stream("p").result()

    async with stand_in.watched(answer) as seen:
        if kind is AsyncClient:
            await twice_async(seen.url)
        else:
            await asyncio.to_thread(twice, seen.url)
    assert len(opened) == 1
