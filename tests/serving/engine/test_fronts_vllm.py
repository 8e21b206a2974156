"""Two front ends on one real engine: together, one of them killed, the engine killed."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import httpx
import psutil
import pytest

from registry import checkpoint
from registry.engine_settings import EngineSettings
from serving.engine import vllm_core
from serving.engine.fronts import FrontProcesses
from serving.engine.protocol import EngineDead
from serving.engine.server import ReplicaServer
from serving.engine.spec import ReplicaSpec
from tests.serving.engine.test_fronts import until
from tests.serving.engine.test_server import MemoryDirectory

CHECKPOINT = Path(__file__).parents[3] / "examples" / "checkpoints" / "tiny-gec-1"
TEXT = {"text": "She go to school every days."}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def two_fronts() -> ReplicaSpec:
    """The demo checkpoint behind two front ends."""
    manifest = checkpoint.inspect(CHECKPOINT).manifest
    return ReplicaSpec(
        model="grammar", version=1, digest=manifest.digest, manifest_json=manifest.to_json(),
        checkpoint_dir=str(CHECKPOINT), engine=EngineSettings(kv_cache_gib=0.25), front_ends=2,
        release_timeout_s=0.5, drain_timeout_s=5.0, quiet_s=0.1,
    )  # fmt: skip


class Load:
    """Callers that ask until told to stop, each on connections of its own."""

    def __init__(self, url: str, callers: int) -> None:
        self.answers: Counter[str] = Counter()
        self.texts: set[str] = set()
        self._stop = asyncio.Event()
        self._tasks = [asyncio.create_task(self._ask(url)) for _ in range(callers)]

    async def _ask(self, url: str) -> None:
        while not self._stop.is_set():
            async with httpx.AsyncClient(base_url=url, timeout=30.0, trust_env=False) as client:
                try:
                    while not self._stop.is_set():
                        answer = await client.post("/v1/corrections", json=TEXT)
                        body = answer.json()
                        if answer.status_code == 200:
                            self.texts.add(body["corrected"])
                        self.answers[body["error"]["code"] if "error" in body else "ok"] += 1
                except httpx.TimeoutException:
                    self.answers["hang"] += 1
                except httpx.TransportError:
                    self.answers["reset"] += 1
                    await asyncio.sleep(0.05)

    async def stop(self) -> Counter[str]:
        self._stop.set()
        await asyncio.gather(*self._tasks)
        return self.answers


@pytest.mark.timeout(400)
async def test_front_ends_and_engine_may_die_under_load() -> None:
    me = psutil.Process()
    before = {each.pid for each in me.children(recursive=True)}
    spec = two_fronts()
    core = await asyncio.to_thread(vllm_core.launch, str(CHECKPOINT), spec.engine, 2)
    fronts = FrontProcesses(spec, core)
    directory = MemoryDirectory()
    server = ReplicaServer(spec, fronts, directory, "r1")
    await server.start()
    url = f"http://127.0.0.1:{server.endpoint.port}"
    first = fronts.pids

    load = Load(url, 8)
    await until(lambda: load.answers["ok"] >= 50, 60.0)
    assert set(load.answers) == {"ok"}
    os.kill(first[0], signal.SIGKILL)
    await until(lambda: fronts.pids[0] != first[0] and fronts.pids[1] == first[1])
    await until(lambda: all(each.up for each in fronts._handles), 60.0)
    await server.check_health()
    fresh = Load(url, 8)
    await until(lambda: fresh.answers["ok"] >= 50, 60.0)
    answers = await load.stop() + await fresh.stop()
    assert set(answers) == {"ok", "reset"}
    assert answers["reset"] <= 8
    assert len(load.texts | fresh.texts) == 1

    load = Load(url, 8)
    await until(lambda: load.answers["ok"] >= 20, 60.0)
    os.kill(core.pid, signal.SIGKILL)
    await until(lambda: load.answers["engine_dead"] >= 8, 10.0)
    assert directory.now().endpoints == ()
    answers = await load.stop()
    assert set(answers) == {"ok", "engine_dead"}
    with pytest.raises(EngineDead, match="engine process ended"):
        await server.check_health()
    await server.drain()
    await until(lambda: {e.pid for e in me.children(recursive=True)} <= before | trackers(me))


def trackers(me: psutil.Process) -> set[int]:
    """Python's own resource tracker, which lives as long as this process."""
    return {e.pid for e in me.children() if "resource_tracker" in " ".join(e.cmdline())}
