"""What the router of a client counted is what real servers have served."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from serving.client import AsyncClient, Client, Hedge, Stats
from tests.serving.client import stand_in
from tests.serving.engine import loopback

SERVED = re.compile(r'liftlock_requests_total\{code="\d+",route="/v1/corrections"\} ([0-9.]+)')


def served(url: str) -> int:
    """Corrections that the server at `url` answered."""
    text = httpx.get(f"{url}/metrics", trust_env=False).text
    return int(sum(float(value) for value in SERVED.findall(text)))


def picks(stats: Stats) -> dict[str, int]:
    assert stats.picks == sum(each.picks for each in stats.edges)
    assert not any(each.in_flight for each in stats.edges)
    return {each.address: each.picks for each in stats.edges}


def test_every_request_of_many_threads_was_one_choice_of_the_router() -> None:
    with loopback.serving() as one, loopback.serving() as other:
        with Client([one, other]) as client, ThreadPoolExecutor(4) as pool:
            list(pool.map(client.correct, ["She go."] * 60))
            found = picks(client.stats())
        assert found == {one: served(one), other: served(other)}
        assert sum(found.values()) == 60
        assert min(found.values()) > 0  # all at one: 2^-59


async def test_batches_and_hedges_are_choices_too() -> None:
    with loopback.serving() as one, loopback.serving() as other:
        async with AsyncClient([one, other], hedge=Hedge(delay_s=10.0)) as client:
            many = client.correct_many(["She go."] * 40, texts_per_request=2)
            assert [str(each) async for each in many] == ["She goes."] * 40
            await asyncio.gather(*(client.correct("She go.") for _ in range(10)))
            found = picks(client.stats())
        assert found == {one: served(one), other: served(other)}
        assert sum(found.values()) == 30


@pytest.mark.parametrize("times", [30])
async def test_choices_of_an_address_that_is_not_there_are_all_that_was_not_served(
    times: int,
) -> None:
    gone = await stand_in.gone()
    with loopback.serving() as there:
        async with AsyncClient([gone, there]) as client:
            for _ in range(times):
                await client.correct("She go.")
            found = picks(client.stats())
        assert found[there] == served(there) == times
        assert found[gone] <= 1  # left out for a second at the first
