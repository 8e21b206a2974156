"""Corrections by Serve handle on a real Ray: every choice of the router is a request served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from jobs.cli import main
from serving import by_handle, handle_leases
from serving.client import Correction
from serving.cluster import RayCluster, application_name
from serving.endpoint import Endpoint
from serving.engine.state import Limits
from tests.serving.test_cluster import ME, OWN, endpoints, spec, wait_until

RAY_CPUS = 2
SERVED = re.compile(r'liftlock_requests_total\{code="\d+",route="/v1/corrections"\} ([0-9.]+)')
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def get(endpoint: Endpoint, path: str) -> httpx.Response:
    return httpx.get(f"http://{endpoint.host}:{endpoint.port}{path}", timeout=30, trust_env=False)


def served(found: Sequence[Endpoint]) -> dict[str, int]:
    """Corrections that each replica has answered, whatever the answer."""
    return {
        each.replica_id: int(sum(float(n) for n in SERVED.findall(get(each, "/metrics").text)))
        for each in found
    }


def since(before: dict[str, int], found: Sequence[Endpoint]) -> dict[str, int]:
    now = served(found)
    return {name: now[name] - before[name] for name in now if now[name] > before[name]}


def in_flight(found: Sequence[Endpoint]) -> list[int]:
    return [get(each, "/readyz").json()["in_flight"] for each in found]


def up(cluster: RayCluster, directory: Path, version: int, **changes: Any) -> list[Endpoint]:
    cluster.deploy(spec(directory, version, **changes), replicas=2, **OWN)
    cluster.wait_ready("grammar", version, timeout_s=120.0)
    wait_until(lambda: len(endpoints(cluster.directory(), version)) == 2)
    return endpoints(cluster.directory(), version)


async def corrected(handle: Any, texts: list[str], **more: Any) -> list[str]:
    found = []
    async with contextlib.aclosing(by_handle.correct_many(handle, texts, **more)) as results:
        async for each in results:
            assert isinstance(each, Correction), each
            found.append(each.corrected)
    return found


def test_every_choice_is_a_request_that_its_replica_served(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    both = up(ray_cluster, tmp_path, 1)
    app, before = application_name("grammar", 1), served(both)
    handle = ray_cluster.handle("grammar", 1)
    found = asyncio.run(corrected(handle, ["He go."] * 200, texts_per_request=4))
    assert found == ["He goes."] * 200
    stats = handle_leases.stats(app)
    assert stats.by_replica == since(before, both)
    assert stats.picks == 50
    assert set(stats.by_replica) == {each.replica_id for each in both}

    source, out = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("He go.\n" * 100)
    result = CliRunner(env={"LIFTLOCK_RAY_ADDRESS": "auto"}).invoke(
        main,
        ["--home", str(tmp_path / "home"), "correct", str(source), "--via", "handle",
         "--version", "1", "--out", str(out), "--json"],
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["texts"], summary["via"]) == (100, "handle")
    assert {json.loads(line)["version"] for line in out.read_text().splitlines()} == {1}
    assert sum(summary["picks"].values()) == sum(since(before, both).values())
    wait_until(lambda: handle_leases.stats(app).in_flight == 0)
    ray_cluster.delete("grammar", 1, timeout_s=60.0, **ME)


def test_calls_by_handle_are_admitted_like_others_and_stop_when_they_are_left(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    (tmp_path / "delay_s").write_text("0.3")
    both = up(ray_cluster, tmp_path, 2, limits=Limits(max_in_flight=2))
    app = application_name("grammar", 2)
    handle = ray_cluster.handle("grammar", 2)

    async def overload() -> None:
        texts = ["He go."] * 12
        many = corrected(handle, texts, texts_per_request=1, concurrency=12)
        asking = asyncio.ensure_future(many)
        loads = []
        while not asking.done():
            await asyncio.sleep(0.05)
            loads += await asyncio.to_thread(in_flight, both)
        assert await asking == ["He goes."] * 12  # those refused came again
        assert max(loads) == 2

    asyncio.run(overload())
    assert sum(served(both).values()) > 12 + 2 * 3  # some were refused; three warm-ups each

    async def leave() -> None:
        slow = asyncio.ensure_future(corrected(handle, ["He go. " * 20] * 4, texts_per_request=1))
        while not any(await asyncio.to_thread(in_flight, both)):
            assert not slow.done()
        slow.cancel()
        await asyncio.gather(slow, return_exceptions=True)

    asyncio.run(leave())
    wait_until(lambda: in_flight(both) == [0, 0], timeout_s=5.0)
    wait_until(lambda: handle_leases.stats(app).in_flight == 0, timeout_s=5.0)
    ray_cluster.delete("grammar", 2, timeout_s=60.0, **ME)


def test_a_replica_that_dies_loses_no_text_and_leaves_no_count(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    import ray

    (tmp_path / "delay_s").write_text("0.05")
    both = up(ray_cluster, tmp_path, 3)
    app = application_name("grammar", 3)
    handle = ray_cluster.handle("grammar", 3)

    async def lose_one() -> list[str]:
        texts = ["He go."] * 200
        asking = asyncio.ensure_future(corrected(handle, texts, texts_per_request=2))
        while handle_leases.stats(app).picks < 20:  # noqa: ASYNC110 the router has its own loop
            await asyncio.sleep(0.01)
        name = f"SERVE_REPLICA::{app}#replica#{both[0].replica_id}"
        ray.kill(ray.get_actor(name, namespace="serve"))
        return await asking

    assert asyncio.run(lose_one()) == ["He goes."] * 200
    wait_until(lambda: handle_leases.stats(app).in_flight == 0, timeout_s=10.0)
    stats = handle_leases.stats(app)
    assert stats.picks >= 100
    assert stats.by_replica[both[1].replica_id] > 20
    ray_cluster.delete("grammar", 3, timeout_s=60.0, **ME)
