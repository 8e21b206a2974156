"""A replica's life on a real loopback port, with the fake engine and a directory in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from serving.directory import DirectoryUnavailable
from serving.directory_state import DirectorySettings, DirectoryState, Snapshot
from serving.endpoint import Endpoint, EndpointState
from serving.engine.protocol import EngineDead
from serving.engine.server import ReplicaServer
from serving.engine.spec import ReplicaSpec
from serving.engine.state import Limits, Phase
from serving.errors import DeploymentFailed
from tests.fakes.engine import FakeEngine
from tests.fakes.fronts import LocalFronts
from tests.serving.engine.conftest import MANIFEST

SPEC = ReplicaSpec(
    model="grammar", version=3, digest=MANIFEST.digest, manifest_json=MANIFEST.to_json(),
    checkpoint_dir="", heartbeat_s=0.02, quiet_s=0.02, release_timeout_s=2.0, drain_timeout_s=2.0,
    limits=Limits(timeout_s=10.0),
)  # fmt: skip
TEXT = {"text": "He go."}


class MemoryDirectory:
    """`DirectoryState` without an actor, already settled; `away` makes every call fail."""

    def __init__(self) -> None:
        self.state = DirectoryState(DirectorySettings(), now_s=time.monotonic() - 60.0)
        self.away = False
        self.beats = 0

    async def publish(self, endpoint: Endpoint) -> None:
        self._check()
        self.beats += 1
        self.state.publish(endpoint, now_s=time.monotonic())

    async def mark_draining(self, replica_id: str) -> None:
        self._check()
        self.state.mark_draining(replica_id, now_s=time.monotonic())

    async def released(self, replica_id: str) -> bool:
        self._check()
        return self.state.released(replica_id, now_s=time.monotonic())

    async def remove(self, replica_id: str) -> None:
        self._check()
        self.state.remove(replica_id)

    def _check(self) -> None:
        if self.away:
            raise DirectoryUnavailable("away for the test")

    def now(self) -> Snapshot:
        return self.state.snapshot(now_s=time.monotonic())

    def ack(self) -> None:
        self.state.ack("edge", self.now().generation, now_s=time.monotonic())


def made(engine: FakeEngine, directory: MemoryDirectory, **changes: float) -> ReplicaServer:
    spec = replace(SPEC, **changes)  # type: ignore[arg-type]
    return ReplicaServer(spec, LocalFronts(spec, engine), directory, "r1")


@pytest.fixture
def directory() -> MemoryDirectory:
    return MemoryDirectory()


@pytest.fixture
async def server(engine: FakeEngine, directory: MemoryDirectory) -> AsyncIterator[ReplicaServer]:
    server = made(engine, directory)
    await server.start()
    yield server
    await server.drain()


@pytest.fixture
async def client(server: ReplicaServer) -> AsyncIterator[httpx.AsyncClient]:
    url = f"http://{server.endpoint.host}:{server.endpoint.port}"
    async with httpx.AsyncClient(base_url=url, timeout=5.0) as client:
        yield client


async def test_a_replica_is_published_after_it_answered_through_its_own_port(
    server: ReplicaServer,
    client: httpx.AsyncClient,
    engine: FakeEngine,
    directory: MemoryDirectory,
) -> None:
    assert len(engine.requests) == SPEC.warmup_requests
    (endpoint,) = directory.now().endpoints
    assert (endpoint.version, endpoint.state) == (3, EndpointState.READY)
    answer = await client.post("/v1/corrections", json=TEXT)
    assert answer.json()["corrected"] == "He goes."
    assert (await client.get("/readyz")).status_code == 200


async def test_a_replica_whose_warm_up_fails_is_never_published(
    directory: MemoryDirectory,
) -> None:
    engine = FakeEngine()
    engine.dead = True
    server = made(engine, directory)
    with pytest.raises(DeploymentFailed, match=r"got 503: .*engine_dead"):
        await server.start()
    assert directory.beats == 0
    with pytest.raises(httpx.ConnectError):
        async with httpx.AsyncClient() as client:
            await client.get(f"http://127.0.0.1:{server.endpoint.port}/healthz")


async def test_heartbeats_go_on_and_survive_a_directory_that_is_away(
    server: ReplicaServer, directory: MemoryDirectory
) -> None:
    directory.away = True
    await asyncio.sleep(0.06)
    directory.away = False
    before = directory.beats
    await asyncio.sleep(0.1)
    assert directory.beats >= before + 2


async def test_an_unhealthy_replica_leaves_the_directory_before_it_is_replaced(
    server: ReplicaServer, engine: FakeEngine, directory: MemoryDirectory
) -> None:
    await server.check_health()
    engine.dead = True
    with pytest.raises(EngineDead):
        await server.check_health()
    await asyncio.sleep(0.06)
    assert directory.now().endpoints == ()
    engine.dead = False
    await server.check_health()
    await asyncio.sleep(0.06)
    assert len(directory.now().endpoints) == 1


async def test_draining_finishes_what_runs_and_what_edges_still_send(
    engine: FakeEngine, directory: MemoryDirectory
) -> None:
    server = made(engine, directory)
    await server.start()
    directory.ack()
    engine.delay_s = 0.15
    url = f"http://127.0.0.1:{server.endpoint.port}/v1/corrections"
    async with httpx.AsyncClient(timeout=5.0) as client:
        running = asyncio.create_task(client.post(url, json=TEXT))
        await asyncio.sleep(0.05)
        draining = asyncio.create_task(server.drain())
        await asyncio.sleep(0.05)
        assert directory.now().endpoints[0].state is EndpointState.DRAINING
        late = asyncio.create_task(client.post(url, json=TEXT))
        await asyncio.sleep(0.05)
        directory.ack()
        assert (await running).status_code == 200
        assert (await late).status_code == 200
        await draining
        with pytest.raises(httpx.ConnectError):
            await client.post(url, json=TEXT)
    assert (engine.dead, engine.aborted) == (True, [])
    assert directory.now().endpoints == ()
    assert server.phase is Phase.CLOSED


async def test_draining_waits_for_an_edge_only_so_long(
    engine: FakeEngine, directory: MemoryDirectory
) -> None:
    server = made(engine, directory, release_timeout_s=0.1)
    await server.start()
    directory.ack()
    started_s = time.monotonic()
    await server.drain()
    assert 0.1 <= time.monotonic() - started_s < 1.5


async def test_draining_waits_for_requests_only_so_long(directory: MemoryDirectory) -> None:
    engine = FakeEngine()
    server = made(engine, directory, drain_timeout_s=0.1)
    await server.start()
    engine.delay_s = 30.0
    url = f"http://127.0.0.1:{server.endpoint.port}/v1/corrections"
    async with httpx.AsyncClient(timeout=5.0) as client:
        running = asyncio.create_task(client.post(url, json=TEXT))
        await asyncio.sleep(0.05)
        await server.drain()
        answer = await running
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "draining")
    assert len(engine.aborted) == 1
    assert server.load()["in_flight"] == 0


async def test_draining_works_while_the_directory_is_away(
    engine: FakeEngine, directory: MemoryDirectory
) -> None:
    server = made(engine, directory, release_timeout_s=0.1)
    await server.start()
    directory.away = True
    await server.drain()
    assert engine.dead


async def test_load_is_what_is_in_flight(
    server: ReplicaServer, client: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.delay_s = 0.1
    running = asyncio.create_task(client.post("/v1/corrections", json=TEXT))
    await asyncio.sleep(0.05)
    assert server.load() == {"in_flight": 1, "waiting": 0, "queue_age_s": 0.0}
    await running
    assert server.load() == {"in_flight": 0, "waiting": 0, "queue_age_s": 0.0}


async def test_a_caller_that_hangs_up_is_stopped_in_the_engine(
    server: ReplicaServer, client: httpx.AsyncClient, engine: FakeEngine
) -> None:
    engine.delay_s = 30.0
    with pytest.raises(httpx.ReadTimeout):
        await client.post("/v1/corrections", json=TEXT, timeout=0.05)
    await asyncio.sleep(0.05)
    assert len(engine.aborted) == 1
    assert server.load()["in_flight"] == 0


async def test_a_reader_that_leaves_a_stream_is_stopped_in_the_engine(
    server: ReplicaServer, client: httpx.AsyncClient, engine: FakeEngine
) -> None:
    ids = list(engine.encode("word " * 30))
    body = {"model": "grammar", "prompt": ids, "max_tokens": 30, "stream": True}
    engine.delay_s = 0.0
    engine.token_delay_s = 0.05
    async with client.stream("POST", "/v1/completions", json=body) as answer:
        async for _ in answer.aiter_lines():
            break
    await asyncio.sleep(0.1)
    assert len(engine.aborted) == 1
    assert (engine.running, server.load()["in_flight"]) == (0, 0)


async def test_connections_beyond_the_limit_take_the_place_of_idle_ones(
    server: ReplicaServer, client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.engine.front._MOST_CONNECTIONS", 10)
    await client.post("/v1/corrections", json=TEXT)
    idle = [
        await asyncio.open_connection(server.endpoint.host, server.endpoint.port)
        for _ in range(100)
    ]
    assert (await client.post("/v1/corrections", json=TEXT)).status_code == 200
    assert await asyncio.wait_for(idle[0][0].read(), 5.0) == b""
    async with httpx.AsyncClient(base_url=client.base_url) as other:
        assert (await other.post("/v1/corrections", json=TEXT)).status_code == 200
    for _, writer in idle:
        writer.close()
