"""Envoy as a process: who it is, whether it starts, what it says when it does not."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from serving import errors
from serving.edge import admin, apply, config, home, ports, process
from tests.serving.edge import harness


@pytest.fixture
def edge_home(tmp_path: Path) -> home.EdgeHome:
    found = home.EdgeHome.of(tmp_path)
    found.create()
    return found


@pytest.fixture
async def envoy(edge_home: home.EdgeHome) -> AsyncIterator[process.EnvoyProcess]:
    settings = config.EdgeSettings(port=harness.free_port(), workers=1, drain_s=0.0)
    apply.Publisher(settings, edge_home.xds).initialize()
    envoy = process.EnvoyProcess(settings, edge_home, "edge-1")
    yield envoy
    await envoy.stop()


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
    heir = process.EnvoyProcess(settings, edge_home, "edge-1")
    taking_over = asyncio.create_task(heir.start())
    await envoy._exit()  # reaps the child, as init would after a crash of its parent
    await taking_over
    try:
        assert heir.pid not in (None, first)
    finally:
        await heir.stop()


async def test_a_taken_port_is_named_with_its_owner(edge_home: home.EdgeHome) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        envoy = process.EnvoyProcess(config.EdgeSettings(port=port), edge_home, "edge-1")
        with pytest.raises(errors.PortTaken, match=rf":{port}: .*process {os.getpid()}") as raised:
            await envoy.start()
    assert Path(sys.executable).name in str(raised.value)
    assert "choose another port" in str(raised.value)


async def test_a_refused_configuration_is_quoted(
    envoy: process.EnvoyProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process.bootstrap, "bootstrap", lambda *_: {"nonsense": True})
    with pytest.raises(errors.EdgeError, match="nonsense"):
        await envoy.start()


async def test_a_dead_record_is_not_mistaken_for_a_running_envoy(
    envoy: process.EnvoyProcess, edge_home: home.EdgeHome
) -> None:
    edge_home.process.write_text('{"pid": 1, "started": "long ago", "digest": "x"}')
    await envoy.start()
    assert envoy.pid != 1


def test_a_free_port_passes() -> None:
    ports.require_free("127.0.0.1", harness.free_port())


def test_nobody_listens_on_a_free_port() -> None:
    assert ports.listener_pid(harness.free_port()) is None
