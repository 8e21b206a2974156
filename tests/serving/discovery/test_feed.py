"""Discovery over HTTP: what the SDK, status, Prometheus and the probes read."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import suppress

import httpx
import pytest

from serving import client as sdk
from serving.client import feed as sdk_feed
from serving.discovery import errors, feed
from serving.endpoint import EndpointState
from tests.serving.client import stand_in
from tests.serving.discovery import client
from tests.serving.discovery.running import World, replica


@pytest.fixture
async def http(world: World) -> AsyncIterator[httpx.AsyncClient]:
    with feed.bound("127.0.0.1", 0) as sock:
        serving = asyncio.create_task(feed.serve(world.discovery, sock))
        base = f"http://127.0.0.1:{sock.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=base, trust_env=False, verify=False) as found:
            yield found
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_before_the_first_listing_it_lives_but_is_not_ready(
    world: World,
    http: httpx.AsyncClient,
) -> None:
    world.route()
    await world.until(lambda: "source" in world.discovery.faults)
    assert (await http.get("/healthz")).status_code == 200
    answer = await http.get("/readyz")
    assert answer.status_code == 503
    assert "the source is away" in answer.text
    said = (await http.get("/v1/snapshot")).json()
    assert said["models"] == []
    assert said["generation"] is said["epoch"] is said["source_age_s"] is None
    assert (await http.get("/v1/edges")).json() == {"epoch": None, "edges": []}


async def test_the_snapshot_tells_versions_weights_zones_and_who_drains(
    world: World,
    http: httpx.AsyncClient,
) -> None:
    world.route(epoch=4)
    leaving = dataclasses.replace(replica(9), state=EndpointState.DRAINING)
    odd = dataclasses.replace(replica(8), host="nowhere")
    generation = world.list(replica(1), replica(2), replica(3, zone="y"), leaving, odd)
    await world.until(lambda: world.discovery.catalog is not None)
    said = (await http.get("/v1/snapshot")).json()
    assert (said["epoch"], said["generation"], said["faults"]) == (4, generation, [])
    assert said["source_age_s"] < 5
    (version,) = said["models"][0]["versions"]
    assert version == {
        "version": 1,
        "weight": 100,
        "mirrored": 0.0,
        "ready": 3,
        "draining": 1,
        "zones": {"z": 2, "y": 1},
    }
    assert "must be an IP address" in said["refused"][0]
    assert (await http.get("/readyz")).status_code == 200


async def test_an_edge_is_listed_once_it_shows_something(
    world: World,
    http: httpx.AsyncClient,
) -> None:
    world.route()
    generation = world.list(replica(1))
    async with world.client() as envoy:
        await envoy.ask(client.Kind.CLUSTERS)
        await world.until(lambda: len(world.discovery.server.edges()) == 1)
        assert (await http.get("/v1/edges")).json() == {"epoch": 1, "edges": []}
        assert (await http.get("/v1/snapshot")).json()["edges_behind"] == 1
    async with world.client() as envoy:
        await envoy.take_all()
        await world.until(lambda: bool(world.source.acked))
        (edge,) = (await http.get("/v1/edges")).json()["edges"]
    expected = {"id": "edge-1", "url": "http://e:1", "zone": "z", "generation": generation}
    assert edge == {**expected, "behind": False, "refuses": []}


async def test_the_sdk_learns_the_edges_from_it_and_that_they_left(
    world: World, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdk_feed, "REFRESH_S", 0.0)
    world.route()
    world.list(replica(1))
    async with (
        stand_in.watched(corrects) as first,
        stand_in.watched(corrects) as second,
        world.client() as envoy,
        sdk.AsyncClient(discovery=str(http.base_url)) as caller,
    ):
        with pytest.raises(sdk.ConnectionFailed, match="lists 0 edges"):
            await caller.correct("She go.")
        await envoy.take_all(node("edge-1", first.url))
        await world.until(lambda: bool(world.source.acked))
        assert (await caller.correct("She go.")).version == 1
        async with world.client() as other:
            await other.take_all(node("edge-2", second.url))
            async with asyncio.timeout(10):
                while not second.requests:
                    await caller.correct("She go.")
        async with asyncio.timeout(10):
            while len(caller.stats().edges) == 2:
                await caller.correct("She go.")
        assert [each.address for each in caller.stats().edges] == [first.url]
        assert caller.stats().picks == len(first.requests) + len(second.requests)


async def corrects(_request: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(stand_in.http(200, stand_in.CORRECTION))


def node(edge_id: str, url: str) -> dict[str, object]:
    return {**client.NODE, "id": edge_id, "metadata": {"liftlock.url": url}}


async def test_metrics_count_what_edges_took(
    world: World,
    http: httpx.AsyncClient,
) -> None:
    world.route(epoch=3)
    world.list(replica(1))
    async with world.client() as envoy:
        await envoy.take_all()
        await world.until(lambda: bool(world.source.acked))
        text = (await http.get("/metrics")).text
    for line in (
        'liftlock_discovery_acks_total{kind="endpoints"} 1.0',
        'liftlock_discovery_endpoints{model="grammar",state="ready",version="1"} 1.0',
        "liftlock_discovery_edges 1.0",
        "liftlock_discovery_edges_behind 0.0",
        "liftlock_discovery_plan_epoch 3.0",
    ):
        assert line in text.splitlines()


def test_a_taken_port_is_an_error_that_says_so() -> None:
    with feed.bound("127.0.0.1", 0) as sock:
        port = sock.getsockname()[1]
        with pytest.raises(errors.AddressTaken, match=f"127.0.0.1:{port}"):
            feed.bound("127.0.0.1", port)
