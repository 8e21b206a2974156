"""A real Envoy told by discovery: settings that change under load, and what Envoy refuses."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from serving.discovery import traffic
from serving.discovery.catalog import Documents
from serving.discovery.service import Discovery, LoopSettings
from serving.discovery.snapshot import Snapshot
from serving.edge import bootstrap, config, home, process, resources
from tests.serving.edge import harness, load, upstream


class Told:
    """An Envoy and the discovery that tells it; `spoil` may change what it is told."""

    def __init__(self, folder: Path) -> None:
        self.home = home.EdgeHome.of(folder)
        self.home.create()
        self.source = harness.HeldSource()
        self.settings = config.EdgeSettings(port=harness.free_port(), workers=1, drain_s=0.0)
        self.spoil: Callable[[Documents], Documents] = lambda documents: documents
        self.discovery = Discovery(
            self.source, self.home.traffic, self.documents, needs_plan=True,
            loops=LoopSettings(gap_s=0.01, beat_s=0.1),
        )  # fmt: skip
        self.url = f"http://127.0.0.1:{self.settings.port}"
        where = f"unix:{self.home.socket}"
        node = bootstrap.Node(edge_id="e", discovery=where, url=self.url, directory=self.home.root)
        self.envoy = process.EnvoyProcess(self.settings, self.home, node)

    def documents(self, snapshot: Snapshot) -> Documents:
        return self.spoil(resources.documents(snapshot, self.settings))

    async def serve(self, *replicas: upstream.Upstream) -> int:
        return self.source.set(*(replica.endpoint() for replica in replicas))

    async def acked(self, generation: int) -> None:
        async with asyncio.timeout(10):
            while ("e", generation) not in self.source.acked:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture
async def told(tmp_path: Path) -> AsyncIterator[Told]:
    found = Told(tmp_path)
    plan = traffic.TrafficPlan(epoch=1, models=(traffic.whole("grammar", 1),))
    traffic.store(found.home.traffic, plan)
    await found.discovery.listen(f"unix:{found.home.socket}")
    running = asyncio.create_task(found.discovery.run())
    yield found
    await found.envoy.stop()
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await found.discovery.close()


async def test_settings_of_clusters_change_under_load_without_a_failure(told: Told) -> None:
    async with upstream.Upstream(1) as one:
        await told.serve(one)
        await told.envoy.start()
        async with load.Load(told.url, callers=4) as callers:
            for connect_s in (2.0, 3.0):
                told.settings = dataclasses.replace(told.settings, connect_s=connect_s)
                await told.acked(await told.serve(one))
                await asyncio.sleep(0.1)
        assert callers.failures == []
        assert callers.versions.total() > 0
    assert told.discovery.metrics.refused() == 0


async def test_what_envoy_refuses_is_told_and_it_goes_on_from_what_it_has(told: Told) -> None:
    def without_a_name(documents: Documents) -> Documents:
        (table,) = documents.routes
        host = {**table["virtual_hosts"][0], "domains": ["*", "*"]}
        return dataclasses.replace(documents, routes=({**table, "virtual_hosts": [host]},))

    async with upstream.Upstream(1) as one, upstream.Upstream(1) as two:
        await told.serve(one)
        await told.envoy.start()
        async with load.Load(told.url, callers=2) as callers:
            told.spoil = without_a_name
            refused = await told.serve(two)  # replicas change all the same
            async with asyncio.timeout(10):
                while not two.served or not told.discovery.metrics.refused():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            (edge,) = told.discovery.server.edges()
            assert "domain" in edge.refusals[0]
            assert ("e", refused) not in told.source.acked
            told.spoil = lambda documents: documents
            await told.acked(await told.serve(two))
        assert callers.failures == []
        (edge,) = told.discovery.server.edges()
        assert edge.refusals == ()
