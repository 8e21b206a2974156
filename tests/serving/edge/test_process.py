"""Envoy as a process: who it is, whether it starts, what it says when it does not."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from serving import errors
from serving.discovery import service
from serving.edge import admin, bootstrap, config, home, ports, process, resources
from tests.serving.edge import harness


@pytest.fixture
def edge_home(tmp_path: Path) -> home.EdgeHome:
    found = home.EdgeHome.of(tmp_path)
    found.create()
    return found


@pytest.fixture
async def envoy(edge_home: home.EdgeHome) -> AsyncIterator[process.EnvoyProcess]:
    settings = config.EdgeSettings(port=harness.free_port(), workers=1, drain_s=0.0)
    told = service.Discovery(
        harness.HeldSource(),
        edge_home.traffic,
        lambda snapshot: resources.documents(snapshot, settings),
        needs_plan=False,
    )
    await told.listen(f"unix:{edge_home.socket}")
    envoy = process.EnvoyProcess(settings, edge_home, node_of(edge_home))
    yield envoy
    await envoy.stop()
    await told.close()


def node_of(edge_home: home.EdgeHome) -> bootstrap.Node:
    return bootstrap.Node(
        edge_id="edge-1",
        discovery=f"unix:{edge_home.socket}",
        url="http://127.0.0.1:1",
        directory=edge_home.root,
    )


def test_the_socket_of_a_deep_home_is_short_private_and_its_own(tmp_path: Path) -> None:
    deep = [home.EdgeHome.of(tmp_path / ("d" * 100) / name) for name in "ab"]
    for found in deep:
        found.create()
        assert len(str(found.socket)) < 107
        assert found.socket.parent.stat().st_mode & 0o077 == 0
    assert deep[0].socket != deep[1].socket
    deep[0].socket.parent.chmod(0o777)
    with pytest.raises(errors.EdgeError, match="can be written by others"):
        deep[0].create()
    for found in deep:
        found.socket.parent.rmdir()


async def test_it_starts_and_stops(envoy: process.EnvoyProcess) -> None:
    await envoy.start()
    pid, url = envoy.pid, envoy.admin_url
    assert pid is not None
    assert url is not None
    async with admin.AdminClient(url) as client:
        assert await client.ready()
    await envoy.stop()
    assert envoy.pid is None
    assert envoy.admin_url is None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


async def test_other_settings_replace_the_running_one(
    envoy: process.EnvoyProcess, edge_home: home.EdgeHome
) -> None:
    await envoy.start()
    first = envoy.pid
    settings = dataclasses.replace(envoy._settings, request_s=5.0)
    heir = process.EnvoyProcess(settings, edge_home, node_of(edge_home))
    taking_over = asyncio.create_task(heir.start())
    await envoy._exit()  # reaps the child, as init would after a crash of its parent
    await taking_over
    try:
        assert heir.pid not in (None, first)
    finally:
        await heir.stop()


@pytest.mark.parametrize(
    ("descriptors", "connections"), [(1_024, 448), (100_000, 20_000), (-1, 20_000)]
)
async def test_callers_leave_descriptors_for_replicas(
    envoy: process.EnvoyProcess,
    edge_home: home.EdgeHome,
    monkeypatch: pytest.MonkeyPatch,
    descriptors: int,
    connections: int,
) -> None:
    limits = (descriptors, descriptors)
    monkeypatch.setattr(process.resource, "getrlimit", lambda _: limits)
    await envoy.start()
    written = json.loads(edge_home.bootstrap_file.read_bytes())
    monitor, _ = written["overload_manager"]["resource_monitors"]
    assert monitor["typed_config"]["max_active_downstream_connections"] == connections


async def test_a_taken_port_is_named_with_its_owner(edge_home: home.EdgeHome) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        envoy = process.EnvoyProcess(config.EdgeSettings(port=port), edge_home, node_of(edge_home))
        with pytest.raises(errors.PortTaken, match=rf":{port}: .*process {os.getpid()}") as raised:
            await envoy.start()
    assert Path(sys.executable).name in str(raised.value)
    assert "choose another port" in str(raised.value)


async def test_a_refused_configuration_is_quoted(
    envoy: process.EnvoyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process.bootstrap, "bootstrap", lambda *_, **__: {"nonsense": True})
    with pytest.raises(errors.EdgeError, match="nonsense"):
        await envoy.start()


async def test_a_dead_record_is_not_mistaken_for_a_running_envoy(
    envoy: process.EnvoyProcess, edge_home: home.EdgeHome
) -> None:
    edge_home.process.write_text('{"pid": 1, "started": "long ago", "digest": "x"}')
    await envoy.start()
    assert envoy.pid != 1


async def test_an_envoy_that_nobody_wrote_down_is_found_and_ended(
    envoy: process.EnvoyProcess, edge_home: home.EdgeHome
) -> None:
    """Its service was killed between the two."""
    await envoy.start()
    first = envoy.pid
    edge_home.process.unlink()
    assert process.runs(edge_home)
    assert not process.runs(home.EdgeHome.of(edge_home.root.parent.parent))
    heir = process.EnvoyProcess(envoy._settings, edge_home, node_of(edge_home))
    starting = asyncio.create_task(heir.start())
    await envoy._exit()
    await starting
    try:
        assert heir.pid not in (None, first)
        edge_home.process.unlink()
        stopping = asyncio.create_task(asyncio.to_thread(process.stop_left_over, edge_home))
        await heir._exit()
        assert await stopping
    finally:
        await heir.stop()
    assert not process.runs(edge_home)


def test_what_another_user_started_with_the_words_of_our_envoy_is_not_ours(
    edge_home: home.EdgeHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [sys.executable, "-c", "input()", *process._files(edge_home)]
    with subprocess.Popen(words, stdin=subprocess.PIPE) as started:
        assert process.runs(edge_home)
        monkeypatch.setattr(process.os, "geteuid", lambda: 4_321)
        assert not process.runs(edge_home)
        started.communicate(b"\n")


def test_a_free_port_passes() -> None:
    ports.require_free("127.0.0.1", harness.free_port())


def test_nobody_listens_on_a_free_port() -> None:
    assert ports.listener_pid(harness.free_port()) is None
