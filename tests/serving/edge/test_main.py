"""The edge as its own process, as `liftlock serve` starts it."""

from __future__ import annotations

import asyncio
import json
import logging
import signal
import sys
from pathlib import Path

import httpx
import pytest

from serving.discovery import sources, traffic
from serving.edge import __main__ as edge_main
from serving.edge import control
from tests.serving.edge import harness, load, upstream

ROOT = Path(__file__).parents[3]


async def start(root: Path, file: Path, port: int) -> asyncio.subprocess.Process:
    command = ("-m", "serving.edge", "--home", str(root), "--endpoints", str(file))
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, "--port", str(port), cwd=ROOT
    )


async def test_it_runs_from_a_file_of_endpoints_until_sigterm(tmp_path: Path) -> None:
    port = harness.free_port()
    file = tmp_path / "endpoints.json"
    async with upstream.Upstream(1) as replica:
        listed = {"endpoints": [sources.endpoint_to_json(replica.endpoint())]}
        file.write_text(json.dumps(listed))
        process = await start(tmp_path, file, port)
        try:
            plan = control.set_model_traffic(tmp_path, traffic.whole("grammar", 1), epoch=1)
            await control.wait_applied(tmp_path, plan, timeout_s=30)
            async with httpx.AsyncClient(trust_env=False, verify=False) as client:
                assert (await client.post(f"http://127.0.0.1:{port}/")).status_code == 200
        finally:
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                code = await process.wait()
    assert code == 0
    assert control.current_status(tmp_path) is None


async def test_a_killed_service_leaves_traffic_running_and_its_heir_takes_over(
    tmp_path: Path,
) -> None:
    port, file = harness.free_port(), tmp_path / "endpoints.json"
    async with upstream.Upstream(1) as replica:
        file.write_text(json.dumps({"endpoints": [sources.endpoint_to_json(replica.endpoint())]}))
        plan = control.set_model_traffic(tmp_path, traffic.whole("grammar", 1), epoch=1)
        first = await start(tmp_path, file, port)
        before = await control.wait_applied(tmp_path, plan, timeout_s=30)
        async with load.Load(f"http://127.0.0.1:{port}/", callers=2) as callers:
            first.kill()
            await first.wait()
            heir = await start(tmp_path, file, port)
            try:
                after = before
                while after.pid == before.pid:
                    after = await control.wait_applied(tmp_path, plan, timeout_s=30)
                    await asyncio.sleep(0.05)
            except BaseException:
                heir.kill()
                raise
        heir.send_signal(signal.SIGTERM)
        async with asyncio.timeout(20):
            assert await heir.wait() == 0
    assert after.envoy_pid == before.envoy_pid
    assert callers.failures == []
    assert callers.versions.total() > 50


def test_the_homes_settings_are_taken_unless_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    given = ["--home", str(tmp_path), "--endpoints", "none.json"]
    usual, other = tmp_path / "edge.yaml", tmp_path / "other.yaml"
    usual.write_text("keys: {required: true}")
    other.write_text("port: 0")
    assert edge_main.main([*given, "--config", str(other)]) == 1
    assert capsys.readouterr().err.startswith(f"edge: edge settings {other}: ")
    assert edge_main.main(given) == 1
    assert "keys" in capsys.readouterr().err, "they are asked for, and there are none"
    assert f"settings: {usual}" in caplog.text


def test_a_wrong_setting_ends_it_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--home", str(tmp_path), "--endpoints", "none.json", "--port", "0"]
    assert edge_main.main(given) == 1
    assert capsys.readouterr().err == "edge: port must be 1 to 65535, found 0\n"
