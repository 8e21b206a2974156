"""A replica that Kubernetes probes is found by /readyz; it leaves after a time, not at a word."""

from __future__ import annotations

import asyncio
import socket
from dataclasses import replace

import httpx
import pytest

from serving.engine.probed import ProbedDirectory
from serving.engine.server import ReplicaServer
from serving.engine.spec import Listing
from serving.engine.state import Phase
from serving.errors import DeploymentFailed
from tests.conftest import free_port
from tests.fakes.engine import FakeEngine
from tests.fakes.fronts import LocalFronts
from tests.serving.engine.test_server import SPEC, TEXT

PODS = replace(SPEC, listing=Listing.PROBES, settle_s=0.3, release_timeout_s=2.0)


async def test_the_time_for_the_edges_begins_when_it_leaves_and_ends_by_the_clock() -> None:
    now_s = [100.0]
    directory = ProbedDirectory(settle_s=5.0, clock=lambda: now_s[0])
    assert not await directory.released("r1")
    await directory.mark_draining("r1")
    now_s[0] = 104.9
    assert not await directory.released("r1")
    await directory.mark_draining("r1")
    now_s[0] = 105.0
    assert await directory.released("r1")


async def test_it_serves_on_its_fixed_port_and_goes_on_while_it_is_not_ready(
    engine: FakeEngine,
) -> None:
    spec = replace(PODS, port=free_port())
    server = ReplicaServer(spec, LocalFronts(spec, engine), ProbedDirectory(settle_s=0.3), "r1")
    url = f"http://127.0.0.1:{spec.port}"
    async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
        await server.start()
        assert (await client.get("/readyz")).status_code == 200
        draining = asyncio.create_task(server.drain())
        while server.phase is not Phase.LEAVING:  # noqa: ASYNC110
            await asyncio.sleep(0)
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.post("/v1/corrections", json=TEXT)).status_code == 200
        await draining
        with pytest.raises(httpx.ConnectError):
            await httpx.AsyncClient(trust_env=False).get(f"{url}/readyz")


async def test_a_port_that_another_holds_is_named(engine: FakeEngine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        spec = replace(PODS, port=other.getsockname()[1])
        server = ReplicaServer(spec, LocalFronts(spec, engine), ProbedDirectory(settle_s=1), "r1")
        with pytest.raises(DeploymentFailed, match=f"cannot listen on 127.0.0.1:{spec.port}"):
            await server.start()
    engine.shutdown()
