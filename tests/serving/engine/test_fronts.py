"""Front ends in processes of their own, over a stand-in core that costs no CPU."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import pytest_asyncio

from registry.engine_settings import EngineSettings
from serving.engine.fronts import FrontProcesses
from serving.engine.handle import Handle
from serving.engine.protocol import EngineDead
from serving.engine.server import ReplicaServer
from serving.engine.state import Limits, Phase
from serving.errors import DeploymentFailed
from tests.fakes import core
from tests.serving.engine.test_server import SPEC, TEXT, MemoryDirectory

ROOT = Path(__file__).parents[3]


class Running:
    """A replica of two front ends, and what a test looks at."""

    def __init__(self, folder: Path, **changes: Any) -> None:
        changes = {"front_ends": 2, "warmup_requests": 1, **changes}
        self.spec = replace(SPEC, checkpoint_dir=str(folder), **changes)
        self.core = core.launch(str(folder), self.spec.engine, self.spec.front_ends)
        self.fronts = FrontProcesses(self.spec, self.core)
        self.directory = MemoryDirectory()
        self.server = ReplicaServer(self.spec, self.fronts, self.directory, "r1")

    @property
    def url(self) -> str:
        return f"http://{self.server.endpoint.host}:{self.server.endpoint.port}"

    async def ask(self, path: str = "/v1/corrections") -> httpx.Response:
        """On a connection of its own."""
        async with httpx.AsyncClient(base_url=self.url, timeout=10.0, trust_env=False) as client:
            if path == "/v1/corrections":
                return await client.post(path, json=TEXT)
            return await client.get(path)


async def until(met: Callable[[], bool], timeout_s: float = 20.0) -> None:
    give_up_s = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < give_up_s, f"not met within {timeout_s} s"
        await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def running(folder: Path, **changes: Any) -> AsyncIterator[Running]:
    """A started replica; whatever a test did to it, nothing of it is left."""
    replica = Running(folder, **changes)
    try:
        await replica.server.start()
        yield replica
    finally:
        pids = [*replica.fronts.pids, replica.core.pid]
        await replica.server.drain()
        await replica.fronts.stop()
        assert not any(psutil.pid_exists(pid) for pid in pids)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / "delay_s").write_text("0.5")
    limits = Limits(max_in_flight=10, timeout_s=10.0)
    async with running(folder, limits=limits, engine=EngineSettings(max_num_seqs=4)) as replica:
        yield replica


@pytest.mark.asyncio(loop_scope="module")
async def test_both_answer_as_one_replica(replica: Running) -> None:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(replica.ask()) for _ in range(8)]
        await until(lambda: replica.server.load()["in_flight"] == 8)
        connections = replica.fronts.connections
    assert [task.result().json()["corrected"] for task in asked] == ["He goes."] * 8
    assert sum(connections) == 8
    assert min(connections) >= 2  # even, but for a front end that the machine lets wait
    assert replica.server.load()["in_flight"] == 0
    await replica.server.check_health()


@pytest.mark.asyncio(loop_scope="module")
async def test_whichever_is_asked_counts_for_both(replica: Running) -> None:
    first = (await replica.ask("/metrics")).text
    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(replica.ask())
    texts = [(await replica.ask("/metrics")).text for _ in range(4)]
    assert {answered(text) for text in texts} == {answered(first) + 4}
    assert all("liftlock_in_flight 0.0" in text for text in texts)


@pytest.mark.asyncio(loop_scope="module")
async def test_limits_are_the_replicas(replica: Running) -> None:
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(replica.ask()) for _ in range(14)]
    statuses = sorted(task.result().status_code for task in asked)
    # Two that admit in the same instant may pass the limit by one.
    assert statuses in ([200] * 10 + [429] * 4, [200] * 11 + [429] * 3)


@pytest.mark.asyncio(loop_scope="module")
async def test_what_waits_and_how_long_is_reported(replica: Running) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(replica.ask())
        await until(lambda: replica.server.load()["waiting"] == 4)
        await until(lambda: replica.server.load()["queue_age_s"] > 0.0)
        assert replica.server.load()["queue_age_s"] < 5.0
    await until(lambda: replica.server.load()["queue_age_s"] == 0.0)


@pytest.mark.asyncio(loop_scope="module")
async def test_callers_that_hang_up_leave_nothing_in_the_engine(replica: Running) -> None:
    limits = httpx.Limits(max_connections=200)
    timeout = httpx.Timeout(5.0, read=0.02)
    async with httpx.AsyncClient(limits=limits, timeout=timeout, trust_env=False) as client:
        for _ in range(10):
            asked = [client.post(f"{replica.url}/v1/corrections", json=TEXT) for _ in range(10)]
            found = await asyncio.gather(*asked, return_exceptions=True)
            assert any(isinstance(each, httpx.TimeoutException) for each in found)
    await until(lambda: replica.fronts.load.sequences == 0)
    assert replica.fronts.load.in_flight == 0
    assert (await replica.ask()).status_code == 200


@pytest.mark.asyncio(loop_scope="module")
async def test_idle_connections_keep_no_caller_out(replica: Running) -> None:
    host, port = replica.server.endpoint.host, replica.server.endpoint.port
    had = {}
    for front in map(psutil.Process, replica.fronts.pids):
        had[front] = front.rlimit(psutil.RLIMIT_NOFILE)
        front.rlimit(psutil.RLIMIT_NOFILE, (front.num_fds() + 10, had[front][1]))
    try:
        async with contextlib.AsyncExitStack() as idle:
            for _ in range(60):
                _, writer = await asyncio.open_connection(host, port)
                idle.callback(writer.close)
            assert (await replica.ask()).status_code == 200
    finally:
        for front, limit in had.items():
            front.rlimit(psutil.RLIMIT_NOFILE, limit)


@contextlib.asynccontextmanager
async def _untold(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """No front end is told of a phase: callers do not wait until it is."""

    async def tell(_front: Handle, _phase: Phase) -> None:
        pass

    with monkeypatch.context() as patch:
        patch.setattr(Handle, "tell", tell)
        yield


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_a_front_end_that_dies_is_replaced_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path) as replica, _untold(monkeypatch):
        before, counted = replica.fronts.pids, answered((await replica.ask("/metrics")).text)
        os.kill(before[0], signal.SIGKILL)
        assert (await replica.ask()).status_code == 200  # the other one goes on
        await until(lambda: replica.fronts.pids[0] != before[0])
        await until(lambda: max(replica.fronts.connections) < 1000)
        assert replica.fronts.pids[1] == before[1]
        answers = await asyncio.gather(*(replica.ask("/readyz") for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
        assert answered((await replica.ask("/metrics")).text) >= counted + 1
        await replica.server.check_health()
        assert len(replica.directory.now().endpoints) == 1


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_without_a_seat_for_another_the_replica_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "no_seats").touch()
    async with running(tmp_path) as replica:
        os.kill(replica.fronts.pids[0], signal.SIGKILL)
        await until(lambda: replica.directory.now().endpoints == ())
        with pytest.raises(DeploymentFailed, match="no seat left"):
            await replica.server.check_health()
        assert (await replica.ask()).status_code == 200  # what edges still send is answered


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="module")
async def test_a_dead_engine_takes_the_replica_out_at_once(tmp_path: Path) -> None:
    (tmp_path / "delay_s").write_text("1.0")
    async with running(tmp_path) as replica:
        asked = [asyncio.create_task(replica.ask()) for _ in range(6)]
        await until(lambda: replica.server.load()["in_flight"] == 6)
        os.kill(replica.core.pid, signal.SIGKILL)
        answers = await asyncio.wait_for(asyncio.gather(*asked), 5.0)
        assert {answer.status_code for answer in answers} == {503}
        assert {answer.json()["error"]["code"] for answer in answers} == {"engine_dead"}
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
        assert replica.directory.now().endpoints == ()
        with pytest.raises(EngineDead):
            await replica.server.check_health()
        assert (await replica.ask("/healthz")).status_code == 503


@pytest.mark.slow
@pytest.mark.parametrize("stuck", [False, True])
def test_a_killed_replica_leaves_no_process(tmp_path: Path, stuck: bool) -> None:
    command = [sys.executable, "-c", PARENT, str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdout is not None
        *pids, folder = process.stdout.readline().split()
        if stuck:
            os.kill(int(pids[0]), signal.SIGSTOP)
        process.kill()
    if stuck:
        os.kill(int(pids[0]), signal.SIGCONT)
    assert len(pids) == 3
    give_up_s = time.monotonic() + 20.0
    while left := [p for p in pids if alive(int(p))] or [p for p in [folder] if Path(p).exists()]:
        assert time.monotonic() < give_up_s, left
        time.sleep(0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "why"),
    [("refuses", "told not to load"), ("dies", r"front end \d ended with 3 before it was ready")],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_what_does_not_come_up_says_why_and_is_cleared(
    tmp_path: Path, file: str, why: str
) -> None:
    (tmp_path / file).touch()
    replica = Running(tmp_path)
    with pytest.raises(DeploymentFailed, match=why):
        await replica.server.start()
    assert not any(alive(pid) for pid in (*replica.fronts.pids, replica.core.pid))
    assert replica.directory.beats == 0


PARENT = """
import asyncio, sys
from pathlib import Path
from tests.serving.engine.test_fronts import Running

async def main():
    replica = Running(Path(sys.argv[1]))
    await replica.server.start()
    print(*replica.fronts.pids, replica.core.pid, replica.fronts.metrics_dir, flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def answered(metrics: str) -> int:
    """Corrections that a replica says it has answered with 200."""
    wanted = 'liftlock_requests_total{code="200",route="/v1/corrections"} '
    (line,) = (line for line in metrics.splitlines() if line.startswith(wanted))
    return int(float(line.removeprefix(wanted)))


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
