"""Both clients against a real server: the same answers, errors and limits."""

from __future__ import annotations

import asyncio
import threading

import pytest

import serving.client
from serving.client import AsyncClient, Client, ConnectionFailed, Correction, DeadlineExceeded
from tests.serving.client.stand_in import CORRECTION, http, server

Kind = type[Client] | type[AsyncClient]
BOTH = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["sync", "async"])


async def correct(kind: Kind, url: str, **settings: float) -> Correction:
    """One correction by either client; the sync one runs in a thread."""
    if kind is AsyncClient:
        async with AsyncClient(url, **settings) as client:  # type: ignore[arg-type]
            return await client.correct("She go to school every days.")

    def wait() -> Correction:
        with Client(url, **settings) as client:  # type: ignore[arg-type]
            return client.correct("She go to school every days.")

    return await asyncio.to_thread(wait)


@BOTH
async def test_printing_a_correction_gives_the_sentence(kind: Kind) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, CORRECTION))

    async with server(answer) as url:
        assert str(await correct(kind, url)) == "She goes to school every day."


@BOTH
async def test_a_full_endpoint_is_asked_again(kind: Kind) -> None:
    asked: list[bytes] = []

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        asked.append(request)
        full = http(503, {"error": {"message": "full"}}, "retry-after: 0\r\n")
        writer.write(full if len(asked) < 3 else http(200, CORRECTION))

    async with server(answer) as url:
        assert (await correct(kind, url)).version == 1
    assert len(asked) == 3


@BOTH
async def test_a_connection_that_breaks_is_made_again(kind: Kind) -> None:
    asked: list[bytes] = []

    async def answer(request: bytes, writer: asyncio.StreamWriter) -> None:
        asked.append(request)
        if len(asked) == 1:
            writer.close()
        else:
            writer.write(http(200, CORRECTION))

    async with server(answer) as url:
        assert (await correct(kind, url)).version == 1
    assert len(asked) == 2


@BOTH
async def test_an_answer_that_trickles_does_not_outlast_the_limit(kind: Kind) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
        for _ in range(100):
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)

    async with server(answer) as url:
        started_s = asyncio.get_running_loop().time()
        with pytest.raises(DeadlineExceeded):
            await correct(kind, url, timeout_s=0.15)
        assert asyncio.get_running_loop().time() - started_s < 1.0


@BOTH
async def test_silence_ends_at_the_limit(kind: Kind) -> None:
    async def answer(_request: bytes, _writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(5)

    async with server(answer) as url:
        with pytest.raises(DeadlineExceeded, match="timeout_s"):
            await correct(kind, url, timeout_s=0.1)


@BOTH
async def test_nobody_there_is_said_after_the_retries(kind: Kind) -> None:
    async def answer(_request: bytes, _writer: asyncio.StreamWriter) -> None:
        raise AssertionError("nobody is asked")

    async with server(answer) as url:
        gone = url
    with pytest.raises(ConnectionFailed, match="after 2 attempts"):
        await correct(kind, gone, retries=1)


@BOTH
async def test_no_thread_is_left_behind(kind: Kind) -> None:
    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, CORRECTION))

    def threads() -> set[str]:  # without the pool of to_thread, which is the test's own
        return {t.name for t in threading.enumerate() if not t.name.startswith("asyncio_")}

    before = threads()
    async with server(answer) as url:
        await correct(kind, url)
    assert threads() == before


@BOTH
async def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")

    async def answer(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, CORRECTION))

    async with server(answer) as url:
        assert (await correct(kind, url)).version == 1


def test_both_clients_have_the_same_surface() -> None:
    def surface(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert surface(Client) == surface(AsyncClient)


def test_the_public_names_are_these() -> None:
    assert serving.client.__all__ == [
        "AsyncClient",
        "AsyncCompletionStream",
        "BadRequest",
        "Client",
        "ClientError",
        "Completion",
        "CompletionStream",
        "ConnectionFailed",
        "Correction",
        "DeadlineExceeded",
        "EdgeStats",
        "Edit",
        "Health",
        "Hedge",
        "Model",
        "NotAllowed",
        "NotFound",
        "Overloaded",
        "Piece",
        "RateLimit",
        "ServerFault",
        "Stats",
        "VersionNotServed",
    ]
