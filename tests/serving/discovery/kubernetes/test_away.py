"""While the API server is away, busy or refuses: what is known stays, and its age is seen."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from serving.discovery import errors, observation
from serving.discovery.kubernetes import Timing
from serving.discovery.kubernetes.access import Material
from tests.serving.discovery.kubernetes.build import (
    ONE,
    TWO,
    bookmark,
    gone,
    service,
    services,
    slices,
)
from tests.serving.discovery.kubernetes.cluster import (
    QUIET,
    SERVICES,
    SLICES,
    Cluster,
    answer,
    becomes,
    settled,
    until,
    watching,
)


async def test_the_last_good_listing_stays_while_the_server_is_away(cluster: Cluster) -> None:
    now = [1000.0]
    cluster.watches[SLICES] = [(b"", lambda: asyncio.sleep(0.05)), answer(503), QUIET]
    cluster.lists[SLICES] = [slices(ONE), answer(500), answer(503), slices(TWO, at=20)]
    async with watching(cluster.url, clock=lambda: now[0]) as source:
        known = await settled(source)
        assert known.as_of_s == 1000.0
        now[0] += 60.0
        cluster.watches[SLICES] = [answer(503)]
        cluster.lists[SLICES] = [answer(503)]
        await until(lambda: source.status().slices.failures > 6)
        away = await source.list()
        assert (away.endpoints, away.generation) == (known.endpoints, known.generation)
        assert source.status().age_s is not None
        assert "503" in " ".join(source.status().faults)
        seen = observation.observe(observation.Observation(), away, now_s=now[0])
        assert seen.age_s(now[0]) == source.status().age_s
        cluster.watches[SLICES] = [QUIET]
        cluster.lists[SLICES] = [slices(TWO, at=20)]
        await becomes(source, "10.0.0.1", "10.0.0.2")
        await until(lambda: source.status().faults == ())


async def test_the_age_is_that_of_the_older_resource(cluster: Cluster) -> None:
    now = [0.0]
    async with watching(cluster.url, clock=lambda: now[0]) as source:
        await source.changed()
        await cluster.until_watched(SERVICES)
        await cluster.until_watched(SLICES)
        await until(lambda: source.status().slices.watches + source.status().services.watches == 2)
        now[0] = 30.0
        cluster.say(SLICES, bookmark(50))
        await until(lambda: source.status().slices.events == 1)
        assert source.status().age_s == 30.0
        cluster.say(SERVICES, bookmark(50))
        await until(lambda: source.status().age_s == 0.0)


async def test_an_empty_list_that_is_one_is_believed(cluster: Cluster) -> None:
    cluster.lists[SLICES] = [slices(ONE), slices(at=20)]
    cluster.watches[SLICES] = [(gone(),), QUIET]
    async with watching(cluster.url) as source:
        assert (await becomes(source)).endpoints == ()


async def test_a_server_that_is_not_there_is_named(unused_tcp_port: int) -> None:
    async with watching(f"http://127.0.0.1:{unused_tcp_port}") as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await until(lambda: source.status().services.failures > 1)
        with pytest.raises(errors.SourceFailed, match=r"not known yet.*could not be asked to list"):
            await source.list()


async def test_waits_grow_while_the_server_is_away(unused_tcp_port: int) -> None:
    patient = Timing(backoff_s=0.02, backoff_max_s=5.0)
    async with watching(f"http://127.0.0.1:{unused_tcp_port}", timing=patient) as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await asyncio.sleep(0.3)
        # 10 + 20 + 40 + 80 + 160 ms at least, halved by chance at most
        assert 1 <= source.status().services.failures <= 5


GROWING = Timing(backoff_s=0.02, backoff_max_s=50.0)
"""Twelve waits in a row would take 40 seconds and more."""


async def test_waits_do_not_grow_while_watches_bring_events(cluster: Cluster) -> None:
    versions = itertools.count(11)
    cluster.watches[SLICES] = [lambda: (bookmark(next(versions)),)]
    async with watching(cluster.url, timing=GROWING) as source:
        await source.changed()
        await cluster.until_watched(times=12)


async def test_waits_do_not_grow_while_watches_hold(cluster: Cluster) -> None:
    minutes = itertools.count()
    cluster.watches[SLICES] = [(b"",)]
    async with watching(cluster.url, timing=GROWING, clock=lambda: next(minutes) * 60.0) as source:
        await source.changed()
        await cluster.until_watched(times=12)


async def test_a_busy_server_is_given_the_time_it_asks_for(cluster: Cluster) -> None:
    cluster.lists[SERVICES] = [answer(429, retry_after="30"), services(service())]
    async with watching(cluster.url) as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await until(lambda: source.status().services.failures == 1)
        await asyncio.sleep(0.1)
        assert len(cluster.asked(SERVICES, watch=False)) == 1


async def test_the_token_is_read_for_every_request(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old")
    cluster.watches[SLICES] = [(bookmark(11), lambda: path.write_text("new") and None), QUIET]
    async with watching(cluster.url, token=Material(path=path)) as source:
        await source.changed()
        await cluster.until_watched(times=2)
    first, second = cluster.asked(SLICES, watch=True)[:2]
    assert first.headers["Authorization"] == "Bearer old"
    assert second.headers["Authorization"] == "Bearer new"


async def test_a_missing_token_is_named_and_found_later(cluster: Cluster, tmp_path: Path) -> None:
    path = tmp_path / "token"
    async with watching(cluster.url, token=Material(path=path)) as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await until(lambda: source.status().slices.failures > 0)
        assert str(path) in source.status().faults[0]
        path.write_text("t")
        await settled(source)


async def test_a_refused_account_says_what_it_needs(cluster: Cluster) -> None:
    cluster.lists[SERVICES] = [answer(403, {"kind": "Status", "message": "forbidden"})]
    async with watching(cluster.url) as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await until(lambda: source.status().services.failures > 0)
        with pytest.raises(errors.SourceFailed, match="verbs list and watch on services"):
            await source.list()
