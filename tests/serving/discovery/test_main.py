"""Discovery as its own process, and a real Envoy that lives on without it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import signal
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from serving.discovery import __main__ as discovery_main
from serving.discovery import sources, traffic
from serving.edge import admin, bootstrap, home, process, settings_file
from serving.keys.scopes import Scope
from serving.keys.store import KeyStore, Terms
from tests.serving.edge import harness, load, upstream

ROOT = Path(__file__).parents[3]


class Running:
    """A discovery process that can be killed and started again, and one Envoy that asks it."""

    def __init__(self, folder: Path, settings: str = "{}") -> None:
        self.folder = folder
        self.config = folder / "edge.yaml"
        self.config.write_text(settings)
        self.endpoints, self.plan = folder / "endpoints.json", folder / "traffic.json"
        self.port, self.feed, self.edge = (harness.free_port() for _ in range(3))
        self.url = f"http://127.0.0.1:{self.edge}/"
        edge_home = home.EdgeHome.of(folder)
        edge_home.create()
        node = bootstrap.Node(
            edge_id="edge-1",
            discovery=f"127.0.0.1:{self.port}",
            url=self.url,
            directory=edge_home.root,
        )
        given = settings_file.load(self.config)
        own = dataclasses.replace(given, port=self.edge, workers=1, drain_s=0.0)
        self.envoy = process.EnvoyProcess(own, edge_home, node)
        self.process: asyncio.subprocess.Process | None = None

    def list(self, *replicas: upstream.Upstream) -> None:
        listed = {"endpoints": [sources.endpoint_to_json(r.endpoint()) for r in replicas]}
        new = self.endpoints.with_suffix(".new")
        new.write_text(json.dumps(listed))
        new.replace(self.endpoints)

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "serving.discovery",
            "--endpoints", str(self.endpoints), "--traffic", str(self.plan),
            "--config", str(self.config),
            "--listen", f"127.0.0.1:{self.port}", "--feed", f"127.0.0.1:{self.feed}",
            cwd=ROOT,
        )  # fmt: skip

    async def end(self, number: signal.Signals) -> int:
        assert self.process is not None
        self.process.send_signal(number)
        async with asyncio.timeout(10):
            return await self.process.wait()

    async def edges(self) -> list[dict[str, object]]:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            try:
                said = await client.get(f"http://127.0.0.1:{self.feed}/v1/edges")
            except httpx.HTTPError:
                return []
        return list(said.json()["edges"])

    async def shown(self) -> None:
        """Until the Envoy has acknowledged the latest."""
        async with asyncio.timeout(20):
            while [edge["behind"] for edge in await self.edges()] != [False]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    found = Running(tmp_path)
    traffic.store(found.plan, traffic.TrafficPlan(epoch=1, models=(traffic.whole("grammar", 1),)))
    yield found
    await found.envoy.stop()
    if found.process is not None and found.process.returncode is None:
        await found.end(signal.SIGKILL)


async def test_traffic_outlives_discovery_and_its_return_makes_no_flap(running: Running) -> None:
    async with upstream.Upstream(1) as one, upstream.Upstream(1) as two:
        running.list(one)
        await running.start()
        await running.envoy.start()
        await running.shown()
        assert running.envoy.admin_url is not None
        async with (
            load.Load(running.url, callers=2) as callers,
            admin.AdminClient(running.envoy.admin_url) as asked,
        ):
            await running.end(signal.SIGKILL)
            running.endpoints.rename(running.folder / "away")
            await running.start()  # its source is away: it must not tell that there is nothing
            await asyncio.sleep(1.5)
            assert {a.port for a in (await asked.endpoints())["grammar@v1"]} == {one.port}
            before = callers.versions.total()
            running.list(two)
            await running.shown()
            served = one.served
            await asyncio.sleep(0.1)
            assert one.served == served
        assert callers.failures == []
        assert callers.versions.total() > before > 0
        assert two.served > 0
    assert await running.end(signal.SIGTERM) == 0


async def test_an_envoy_that_starts_while_nothing_is_known_waits_and_then_serves(
    running: Running,
) -> None:
    async with upstream.Upstream(1) as one:
        await running.start()
        starting = asyncio.create_task(running.envoy.start())
        await asyncio.sleep(1.0)
        assert not starting.done()
        running.list(one)
        await starting
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.post(running.url)).status_code == 200


async def test_a_replica_that_stops_being_ready_gets_nothing_a_moment_later(
    running: Running,
) -> None:
    async with upstream.Upstream(1) as one, upstream.Upstream(1) as two:
        running.list(one, two)
        await running.start()
        await running.envoy.start()
        await running.shown()
        async with load.Load(running.url, callers=2) as callers:
            running.list(two)
            began_s = time.monotonic()
            served, last_s = one.served, began_s
            while time.monotonic() - began_s < 1.5:
                await asyncio.sleep(0.01)
                if one.served != served:
                    served, last_s = one.served, time.monotonic()
        assert callers.failures == []
        assert last_s - began_s < 1.0


def test_what_cannot_be_done_ends_it_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--endpoints", "none.json", "--traffic", str(tmp_path / "t"), "--feed", "nowhere"]
    assert discovery_main.main(given) == 1
    assert capsys.readouterr().err == "discovery: --feed must be HOST:PORT, found 'nowhere'\n"


async def test_a_fleets_keys_come_from_the_settings_that_both_are_started_with(
    tmp_path: Path,
) -> None:
    store = KeyStore(tmp_path / "keys")
    terms = Terms(name="web", scopes=(Scope.CALL,), rate_rps=100, lifetime_s=3600)
    key = store.issue(terms, time.time())
    fleet = Running(tmp_path, f"keys: {{required: true, folder: {tmp_path / 'keys'}}}")
    plan = traffic.TrafficPlan(epoch=1, models=(traffic.whole("grammar", 1),))
    traffic.store(fleet.plan, plan)
    path, shown = f"{fleet.url}v1/corrections", {"x-api-key": key.text}
    try:
        async with upstream.Upstream(1) as replica, httpx.AsyncClient(trust_env=False) as client:
            fleet.list(replica)
            await fleet.start()
            await fleet.envoy.start()
            await fleet.shown()
            assert (await client.post(path)).status_code == 401
            assert (await client.post(path, headers=shown)).status_code == 200
            store.revoke(key.record.key_id, time.time())
            async with asyncio.timeout(10):
                while (await client.post(path, headers=shown)).status_code != 401:  # noqa: ASYNC110
                    await asyncio.sleep(0.02)
    finally:
        await fleet.envoy.stop()
        await fleet.end(signal.SIGKILL)


async def test_keys_without_a_place_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "edge.yaml"
    file.write_text("keys: {required: true}")
    options = ["--endpoints", "e.json", "--traffic", "t.json", "--config", str(file)]
    assert await asyncio.to_thread(discovery_main.main, options) == 1
    assert "keys.folder" in capsys.readouterr().err
