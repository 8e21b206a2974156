"""Several addresses and hedging over real connections, both clients."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from serving.client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    Correction,
    Hedge,
    Overloaded,
    ServerFault,
)
from tests.serving.client import stand_in
from tests.serving.client.stand_in import CORRECTION, Seen, http

Kind = type[Client] | type[AsyncClient]
BOTH = pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["sync", "async"])


async def good(_request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(http(200, CORRECTION))


async def hanging(_request: bytes, _writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def reset(_request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@contextlib.asynccontextmanager
async def two(first: Any, second: Any) -> AsyncIterator[tuple[Seen, Seen]]:
    async with stand_in.watched(first) as one, stand_in.watched(second) as other:
        yield one, other


async def ask(kind: Kind, urls: list[str], times: int = 1, **more: Any) -> list[Correction]:
    """Corrections one after the other by one client."""
    if kind is AsyncClient:
        async with AsyncClient(urls, **more) as client:
            found = [await client.correct("a") for _ in range(times)]
            assert [each.in_flight for each in client.stats().edges] == [0] * len(urls)
            return found

    def wait() -> list[Correction]:
        with Client(urls, **more) as client:
            found = [client.correct("a") for _ in range(times)]
            assert [each.in_flight for each in client.stats().edges] == [0] * len(urls)
            return found

    return await asyncio.to_thread(wait)


@BOTH
async def test_both_addresses_are_asked(kind: Kind) -> None:
    async with two(good, good) as (first, second):
        await ask(kind, [first.url, second.url], 30)
        # All 30 at one of two: probability 2^-29.
        assert first.requests
        assert second.requests


@BOTH
async def test_an_address_without_a_listener_is_passed_over(kind: Kind) -> None:
    async with stand_in.watched(good) as there:
        found = await ask(kind, [await stand_in.gone(), there.url], 10, retries=0)
        assert len(found) == 10


@BOTH
async def test_an_address_that_resets_connections_is_soon_left_alone(kind: Kind) -> None:
    async with two(reset, good) as (broken, well):
        await ask(kind, [broken.url, well.url], 20)
        assert len(well.requests) == 20
        assert len(broken.requests) <= 1  # avoided for a second, which 20 calls do not take


@BOTH
async def test_where_nobody_listens_every_address_is_named(kind: Kind) -> None:
    urls = [await stand_in.gone(), await stand_in.gone()]
    with pytest.raises(ConnectionFailed) as raised:
        await ask(kind, urls, retries=0)
    assert all(url in str(raised.value) for url in urls)


async def test_the_address_with_fewer_requests_in_flight_is_asked() -> None:
    async with (
        two(hanging, good) as (stuck, well),
        AsyncClient([stuck.url, well.url], retries=0) as client,
    ):
        waiting = []
        while not stuck.requests:
            waiting.append(asyncio.ensure_future(client.correct("a")))
            await asyncio.sleep(0.02)
        before = len(stuck.requests)
        for _ in range(10):
            await client.correct("a")
        assert len(stuck.requests) == before
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


@BOTH
async def test_a_slow_address_is_overtaken_and_its_request_cancelled(kind: Kind) -> None:
    async with two(hanging, good) as (stuck, well):
        hedge = Hedge(delay_s=0.02, budget=1.0)
        found = await ask(kind, [stuck.url, well.url], 12, hedge=hedge)
        assert len(found) == 12
        await stand_in.until(lambda: stuck.left == len(stuck.requests) and stuck.open == 0)
        assert len(stuck.requests) <= 3  # three late in a row, and it is avoided


@BOTH
async def test_hedges_stay_within_their_budget(kind: Kind) -> None:
    async def slow(_request: bytes, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.01)
        writer.write(http(200, CORRECTION))

    async with two(slow, slow) as (first, second):
        hedge = Hedge(delay_s=0.0, budget=0.1)
        await ask(kind, [first.url, second.url], 20, hedge=hedge)
        assert 20 < len(first.requests) + len(second.requests) <= 20 + 1 + 2


@BOTH
async def test_one_address_is_hedged_by_asking_it_again(kind: Kind) -> None:
    async def first_hangs(request: bytes, writer: asyncio.StreamWriter) -> None:
        await (hanging if len(seen.requests) == 1 else good)(request, writer)

    async with stand_in.watched(first_hangs) as seen:
        found = await ask(kind, [seen.url], hedge=Hedge(delay_s=0.02))
        assert len(found) == 1
        await stand_in.until(lambda: seen.left == 1)


@BOTH
async def test_cancelling_or_failing_hedged_calls_leaves_no_count(kind: Kind) -> None:
    async def full(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(503, {"error": {"message": "full"}}))

    async with two(full, full) as (first, second):
        with pytest.raises(Overloaded):
            await ask(kind, [first.url, second.url], hedge=Hedge(delay_s=0.0, budget=1.0))


async def test_cancelled_calls_leave_no_count_and_no_connection() -> None:
    async with two(hanging, hanging) as (first, second):
        for hedge in (None, Hedge(delay_s=0.01, budget=1.0)):
            async with AsyncClient([first.url, second.url], hedge=hedge) as client:
                waiting = [asyncio.ensure_future(client.correct("a")) for _ in range(8)]
                await asyncio.sleep(0.05)
                for each in waiting:
                    each.cancel()
                await asyncio.gather(*waiting, return_exceptions=True)
                assert [each.in_flight for each in client.stats().edges] == [0, 0]
                await stand_in.until(lambda: first.open == second.open == 0)


@pytest.mark.parametrize("hedge", [None, Hedge(delay_s=0.0, budget=1.0)])
async def test_a_call_may_be_cancelled_at_any_moment_without_leaving_a_connection(
    hedge: Hedge | None,
) -> None:
    """httpcore alone leaves some behind: cancelled once connected, before it has sent."""
    async with stand_in.watched(hanging) as seen, AsyncClient(seen.url, hedge=hedge) as client:
        for moment in range(60):
            calling = asyncio.ensure_future(client.correct("a"))
            for _ in range(moment):
                await asyncio.sleep(0)
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
        await stand_in.until(lambda: seen.open == 0)
        assert seen.requests  # some got so far
        assert [each.in_flight for each in client.stats().edges] == [0]


@BOTH
@pytest.mark.parametrize("hedge", [None, Hedge(delay_s=5.0)])
async def test_a_cookie_is_neither_kept_nor_told_to_others(kind: Kind, hedge: Hedge | None) -> None:
    async def sets(_request: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(200, CORRECTION, "set-cookie: session=one; Path=/\r\n"))

    async with two(sets, sets) as (first, second):
        await ask(kind, [first.url, second.url], 10, hedge=hedge)
        assert len(first.requests) + len(second.requests) == 10
        told = [stand_in.header(each, "cookie") for each in first.requests + second.requests]
        assert told == [None] * 10


@BOTH
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_nothing_is_sent_on_to_where_an_answer_points(kind: Kind, status: int) -> None:
    async with stand_in.watched(good) as elsewhere:

        async def points(_request: bytes, writer: asyncio.StreamWriter) -> None:
            writer.write(http(status, {}, f"location: {elsewhere.url}\r\n"))

        async with stand_in.server(points) as url:
            with pytest.raises(ServerFault, match="ask that address itself"):
                await ask(kind, [url], api_key="secret")
        assert elsewhere.requests == []


@BOTH
async def test_retry_after_is_waited_for(kind: Kind) -> None:
    async def once_full(request: bytes, writer: asyncio.StreamWriter) -> None:
        full = http(429, {"error": {"message": "full"}}, "retry-after: 1\r\n")
        if len(seen.requests) == 1:
            writer.write(full)
        else:
            await good(request, writer)

    async with stand_in.watched(once_full) as seen:
        with pytest.raises(Overloaded) as raised:
            await ask(kind, [seen.url], deadline_s=0.9)
        assert raised.value.retry_after_s == 1.0
        assert len(seen.requests) == 1
