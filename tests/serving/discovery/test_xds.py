"""The discovery server over real gRPC: who gets what, and what the malformed get."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from pathlib import Path

import grpc
import pytest

from serving.discovery import errors
from serving.discovery.catalog import Kind
from tests.serving.discovery import client
from tests.serving.discovery.running import World, replica


async def test_an_envoy_hears_of_changes_and_what_it_shows_is_acknowledged(world: World) -> None:
    world.route()
    generation = world.list(replica(1))
    async with world.client() as envoy:
        await envoy.take_all()
        await world.until(lambda: ("edge-1", generation) in world.source.acked)
        (edge,) = world.discovery.server.edges()
        assert (edge.edge_id, edge.url, edge.zone) == ("edge-1", "http://e:1", "z")
        generation = world.list(replica(1), replica(2, zone="y"))
        response = await envoy.hear()
        assert client.assignment(response) == [("10.0.0.1", 2, "y"), ("10.0.0.1", 1, "z")]
        await asyncio.sleep(0.05)
        assert ("edge-1", generation) not in world.source.acked
        await envoy.answer(response)
        await world.until(lambda: ("edge-1", generation) in world.source.acked)


async def test_nothing_is_said_before_source_and_plan_are_known(world: World) -> None:
    async with world.client() as envoy:
        await envoy.ask(Kind.CLUSTERS)
        await world.until(lambda: len(world.discovery.server.edges()) == 1)
        await asyncio.sleep(0.03)
        world.list(replica(1))
        await asyncio.sleep(0.03)
        assert world.discovery.catalog is None
        assert any("no traffic plan" in text for text in world.discovery.faults.texts())
        world.route()
        assert [r.name for r in (await envoy.hear()).resources] == ["grammar@v1"]


async def test_a_source_that_is_away_changes_nothing_but_the_age(world: World) -> None:
    world.route()
    world.list(replica(1))
    await world.until(lambda: world.discovery.catalog is not None)
    before = world.discovery.catalog
    world.source.failing = True
    world.source.endpoints = ()
    await world.until(lambda: "source" in world.discovery.faults)
    await asyncio.sleep(0.05)
    assert world.discovery.catalog is before
    age_s = world.discovery.observation.age_s(asyncio.get_running_loop().time())
    assert age_s is not None
    assert age_s > 0.04


async def test_an_older_owner_s_plan_changes_nothing(world: World) -> None:
    world.route(version=2, epoch=5)
    world.list(replica(1), replica(2, version=2))
    await world.until(lambda: world.discovery.catalog is not None)
    world.route(version=1, epoch=4)
    await world.until(lambda: any("epoch 4" in text for text in world.discovery.faults.texts()))
    assert world.discovery.plan is not None
    assert world.discovery.plan.epoch == 5


async def test_clusters_that_an_envoy_brings_along_stay_while_they_may_carry_requests(
    world: World,
) -> None:
    world.route(version=2)
    world.list(replica(2, version=2))
    has = {"grammar@v1": "old", "someone else's": "x"}
    async with world.client() as envoy:
        await envoy.send(
            type_url=Kind.CLUSTERS.type_url, node=client.NODE, initial_resource_versions=has
        )
        await envoy.send(type_url=Kind.ENDPOINTS.type_url, resource_names_subscribe=["grammar@v1"])
        response = await envoy.hear()
        if response.type_url == Kind.ENDPOINTS.type_url:
            response = await envoy.hear()
        assert [r.name for r in response.resources] == ["grammar@v1", "grammar@v2"]
        assert list(response.removed_resources) == []


async def test_every_edge_counts_and_of_one_name_the_one_furthest_behind(world: World) -> None:
    world.route()
    first = world.list(replica(1))
    async with world.client() as one, world.client() as other:
        await one.take_all()
        await other.take_all()
        await world.until(lambda: ("edge-1", first) in world.source.acked)
        second = world.list(replica(2))
        await one.answer(await one.hear())
        await asyncio.sleep(0.1)
        assert ("edge-1", second) not in world.source.acked
        await other.answer(await other.hear())
        await world.until(lambda: ("edge-1", second) in world.source.acked)


async def test_a_replica_that_is_left_out_is_named_in_the_log_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.route()
    odd = dataclasses.replace(replica(3), host="localhost")
    for port in (1, 2):
        generation = world.list(replica(port), odd)
        async with asyncio.timeout(10):
            await world.discovery.published.wait()
        await world.until(lambda g=generation: world.discovery.catalog.generation == g)
    assert caplog.text.count("at localhost:3: the host must be an IP address") == 1


async def test_a_refusal_is_counted_logged_and_told(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.route()
    world.list(replica(1))
    async with world.client() as envoy:
        await envoy.ask(Kind.CLUSTERS)
        await envoy.answer(await envoy.hear(), refusal="lb_policy is odd")
        await world.until(lambda: world.discovery.metrics.refused() == 1)
        (edge,) = world.discovery.server.edges()
        assert edge.refusals == ("clusters: lb_policy is odd",)
        assert edge.shown is None
    assert "edge-1 refuses clusters: lb_policy is odd" in caplog.text
    assert b'nacks_total{kind="clusters"} 1.0' in world.discovery.metrics.text()


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\xff" * 9, "is none"),
        (b"", "node with an id"),
        (client.request(node={"id": ""}).SerializeToString(), "node with an id"),
        (client.request(node={"id": "x" * 300}).SerializeToString(), "node with an id"),
        (client.request(node={"id": "a\nb"}).SerializeToString(), "node with an id"),
        (
            client.request(node={"id": "a", "metadata": {"b": "c" * 20_000}}).SerializeToString(),
            "bytes of metadata and locality; at most 16384",
        ),
        (
            client.request(
                node={"id": "a", "locality": {"zone": "z" * 20_000}}
            ).SerializeToString(),
            "bytes of metadata and locality; at most 16384",
        ),
    ],
    ids=[
        *("no message", "empty", "no id", "a long id", "an id of two lines"),
        *("much metadata", "a long zone"),
    ],
)
async def test_what_is_no_request_ends_its_own_stream_with_a_status(
    world: World, data: bytes, said: str
) -> None:
    world.route()
    world.list(replica(1))
    async with world.client() as good:
        await good.take_all()
        async with world.client() as bad:
            await bad.send_bytes(data)
            code, details = await bad.status()
        assert code is grpc.StatusCode.INVALID_ARGUMENT
        assert said in details
        world.list(replica(2))
        assert client.assignment(await good.hear())[0][1] == 2
    await world.until(lambda: world.discovery.server.edges() == ())


async def test_the_reason_of_a_refusal_is_one_line_that_ends(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.route()
    world.list(replica(1))
    async with world.client() as envoy:
        await envoy.ask(Kind.CLUSTERS)
        await envoy.answer(await envoy.hear(), refusal="odd\nedge-2 came" + "!" * 1_000_000)
        await world.until(lambda: world.discovery.metrics.refused() == 1)
        (edge,) = world.discovery.server.edges()
    assert edge.refusals[0].startswith("clusters: odd?edge-2 came!!!")
    assert len(edge.refusals[0]) < 1_100
    assert len(caplog.text) < 10_000


async def test_more_names_than_a_fleet_has_are_refused_and_told_to_nobody(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.route()
    world.list(replica(1))
    many = {f"made-up@v{number}": "v" for number in range(1_001)}
    async with world.client() as bad:
        await bad.send(
            type_url=Kind.CLUSTERS.type_url, node=client.NODE, initial_resource_versions=many
        )
        code, details = await bad.status()
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "1001 names" in details
    assert "at most 1000" in details
    assert f"request of edge-1 refused: {details}" in caplog.text
    async with world.client() as good:
        await good.ask(Kind.CLUSTERS)
        assert [r.name for r in (await good.hear()).resources] == ["grammar@v1"]


async def test_names_that_envoys_bring_along_leave_the_others_room(world: World) -> None:
    world.route()
    world.list(replica(1))
    await world.until(lambda: world.discovery.catalog is not None)
    async with world.client() as one, world.client() as other, world.client() as good:
        for number, bad in enumerate((one, other)):
            many = {f"made-up-{number}@v{version}": "v" for version in range(900)}
            await bad.send(
                type_url=Kind.CLUSTERS.type_url, node=client.NODE, initial_resource_versions=many
            )
            await bad.hear()
        await good.ask(Kind.CLUSTERS)
        names = [resource.name for resource in (await good.hear()).resources]
        assert "grammar@v1" in names
        assert len(names) <= 500
        await good.ask(Kind.ENDPOINTS, *names)
        assert len((await good.hear()).resources) == len(names)


async def test_unknown_types_and_names_are_answered_and_the_stream_goes_on(world: World) -> None:
    world.route()
    world.list(replica(1))
    async with world.client() as envoy:
        await envoy.take_all()
        await envoy.send(type_url="type.googleapis.com/x.Y", resource_names_subscribe=["n"])
        response = await envoy.hear()
        assert (response.type_url, list(response.removed_resources)) == (
            "type.googleapis.com/x.Y",
            ["n"],
        )
        await envoy.answer(response)
        await envoy.ask(Kind.ENDPOINTS, "nobody")
        assert list((await envoy.hear()).removed_resources) == ["nobody"]


async def test_the_other_service_of_the_protocol_is_refused(world: World) -> None:
    from serving.discovery import xds

    method = f"/{xds.SERVICE}/StreamAggregatedResources"
    async with client.Client(world.address, method) as envoy:
        code, _ = await envoy.status()
    assert code is grpc.StatusCode.UNIMPLEMENTED


async def test_many_envoys_each_get_everything_and_leave_without_a_trace(world: World) -> None:
    world.route()
    world.list(replica(1))
    clients = [world.client() for _ in range(30)]
    names = itertools.count()
    for envoy in clients:
        await envoy.ask(Kind.CLUSTERS, node={"id": f"edge-{next(names)}"})
    for envoy in clients:
        assert [r.name for r in (await envoy.hear()).resources] == ["grammar@v1"]
    assert len({edge.edge_id for edge in world.discovery.server.edges()}) == 30
    for envoy in clients:
        await envoy.close()
    await world.until(lambda: world.discovery.server.edges() == ())


async def test_who_asks_whether_we_live_while_nothing_happens_stays(world: World) -> None:
    reader, writer = await asyncio.open_unix_connection(world.address.removeprefix("unix:"))
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS))
    for _ in range(4):  # the last was one too many
        writer.write(frame(PING, b"we live?"))
        async with asyncio.timeout(5):
            while (kind := await next_kind(reader)) != PING:
                assert kind != GOAWAY
        await asyncio.sleep(1.05)
    writer.close()


SETTINGS, PING, GOAWAY = 4, 6, 7


def frame(kind: int, payload: bytes = b"") -> bytes:
    """One of HTTP/2, of the connection itself (RFC 9113, 4.1)."""
    return len(payload).to_bytes(3) + bytes([kind]) + bytes(5) + payload


async def next_kind(reader: asyncio.StreamReader) -> int:
    head = await reader.readexactly(9)
    await reader.readexactly(int.from_bytes(head[:3]))
    return head[3]


async def test_an_address_that_is_taken_is_an_error_that_says_so(tmp_path: Path) -> None:
    one, two = World(tmp_path), World(tmp_path)
    port = await one.discovery.listen("127.0.0.1:0")
    with pytest.raises(errors.AddressTaken, match=f"{port}"):
        await two.discovery.listen(f"127.0.0.1:{port}")
    await one.discovery.close()
    await two.discovery.close()
