"""Versions on a cluster: the waiting against listings made up here, the rest on a real Ray."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from registry.checkpoint import hash_file
from registry.engine_settings import EngineSettings
from registry.manifest import FileEntry, Generation, Manifest, Prompt
from serving.cluster import Application, RayCluster, Resources, application_name
from serving.directory import DirectoryClient, DirectoryUnavailable
from serving.endpoint import Endpoint, EndpointState
from serving.engine.spec import ReplicaSpec
from serving.errors import DeploymentFailed, StaleEpoch
from serving.worker_env import worker_env


def application(status: str, message: str = "") -> Application:
    return Application(
        model="grammar", version=2, status=status, message=message, replicas_running=0
    )


class Listed(RayCluster):
    """A cluster whose listings are given one after the other, one second apart."""

    def __init__(self, *listings: Application | None) -> None:
        self._seconds = 0.0
        self._listings = list(listings)
        super().__init__(clock=lambda: self._seconds)

    def applications(self) -> tuple[Application, ...]:
        self._seconds += 1.0
        first = self._listings.pop(0) if len(self._listings) > 1 else self._listings[0]
        return () if first is None else (first,)


@pytest.fixture(autouse=True)
def _no_sleep(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.get_closest_marker("slow") is None:
        monkeypatch.setattr("serving.cluster._POLL_S", 0.0)


def test_an_application_is_named_for_its_version() -> None:
    assert application_name("grammar", 12) == "grammar-v12"


def test_waiting_ends_when_the_version_runs() -> None:
    cluster = Listed(None, application("DEPLOYING"), application("RUNNING"))
    assert cluster.wait_ready("grammar", 2, timeout_s=60.0) == 3.0


def test_a_failed_start_is_told_in_the_replica_s_words() -> None:
    cluster = Listed(application("DEPLOYING"), application("DEPLOY_FAILED", "no such file"))
    with pytest.raises(DeploymentFailed, match="version 2 of grammar did not start: no such file"):
        cluster.wait_ready("grammar", 2, timeout_s=60.0)


def test_a_version_that_takes_too_long_is_told_with_its_status() -> None:
    with pytest.raises(DeploymentFailed, match=r"DEPLOYING with 0 replicas.*lacks the resources"):
        Listed(application("DEPLOYING")).wait_ready("grammar", 2, timeout_s=5.0)
    with pytest.raises(DeploymentFailed, match="is not deployed after 5 s"):
        Listed(None).wait_ready("grammar", 2, timeout_s=5.0)


def test_workers_find_our_code_first_and_keep_what_they_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["/elsewhere", root]))
    path = worker_env()["env_vars"]["PYTHONPATH"]
    assert path.split(os.pathsep) == [root, "/elsewhere"]


# ---- on a real Ray, with the fake engine -------------------------------------------------------

CONTENT = b"not weights"
FAKE = "tests.fakes.core:launch"
ME: dict[str, Any] = {"epoch": 1, "owner": "me"}
OWN: dict[str, Any] = {"resources": Resources(num_cpus=0.5), **ME}


def spec(directory: Path, version: int, **changes: Any) -> ReplicaSpec:
    (directory / "model.safetensors").write_bytes(CONTENT)
    digest, size = hash_file(directory / "model.safetensors")
    manifest = Manifest(
        files=(FileEntry(path="model.safetensors", size_bytes=size, sha256=digest),),
        prompt=Prompt(template="{text}\n"),
        generation=Generation(max_tokens=12),
    )
    known = ReplicaSpec(
        model="grammar", version=version, digest=manifest.digest,
        manifest_json=manifest.to_json(), checkpoint_dir=str(directory),
        engine=EngineSettings(), engine_factory=FAKE, drain_timeout_s=20.0,
    )  # fmt: skip
    return replace(known, **changes)


def endpoints(directory: DirectoryClient, version: int) -> list[Endpoint]:
    try:
        found = directory.snapshot()[1]
    except DirectoryUnavailable:  # it started a moment ago and is not sure yet
        return []
    return [e for e in found if e.version == version]


def wait_until(met: Callable[[], bool], timeout_s: float = 60.0) -> None:
    give_up_s = time.monotonic() + timeout_s
    while not met():
        assert time.monotonic() < give_up_s, f"not met within {timeout_s} s"
        time.sleep(0.1)


def ask(endpoint: Endpoint) -> httpx.Response:
    url = f"http://{endpoint.host}:{endpoint.port}/v1/corrections"
    return httpx.post(url, json={"text": "He go."}, timeout=30.0, trust_env=False)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_version_comes_up_scales_and_drains(ray_cluster: RayCluster, tmp_path: Path) -> None:
    (tmp_path / "delay_s").write_text("2.0")
    directory = ray_cluster.directory()
    one = spec(tmp_path, 1)
    ray_cluster.deploy(one, replicas=1, **OWN)
    ray_cluster.wait_ready("grammar", 1, timeout_s=120.0)
    (first,) = endpoints(directory, 1)
    ray_cluster.deploy(one, replicas=2, **OWN)
    wait_until(lambda: len(endpoints(directory, 1)) == 2)
    both = endpoints(directory, 1)
    assert first in both  # scaling leaves alone what runs
    generation, _ = directory.snapshot()
    directory.ack("edge", generation)
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(ask, endpoint) for endpoint in both]
        time.sleep(0.5)
        deleting = pool.submit(ray_cluster.delete, "grammar", 1, timeout_s=60.0, **ME)
        wait_until(lambda: {e.state for e in endpoints(directory, 1)} == {EndpointState.DRAINING})
        late = [pool.submit(ask, endpoint) for endpoint in both]
        time.sleep(0.5)
        directory.ack("edge", directory.snapshot()[0])
        assert {each.result().status_code for each in answers + late} == {200}
        deleting.result()
    assert ray_cluster.applications() == ()
    assert endpoints(directory, 1) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_version_that_cannot_start_says_why(ray_cluster: RayCluster, tmp_path: Path) -> None:
    bad = spec(tmp_path, 2)
    (tmp_path / "model.safetensors").write_bytes(b"other bytes")
    ray_cluster.deploy(bad, replicas=1, **OWN)
    with pytest.raises(DeploymentFailed, match="differs from its manifest"):
        ray_cluster.wait_ready("grammar", 2, timeout_s=120.0)
    ray_cluster.delete("grammar", 2, timeout_s=60.0, **ME)
    assert ray_cluster.application("grammar", 2) is None
    ray_cluster.delete("grammar", 2, timeout_s=5.0, **ME)  # absent is fine


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_killed_replica_leaves_the_list_and_is_replaced(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    directory = ray_cluster.directory()
    ray_cluster.deploy(spec(tmp_path, 3), replicas=1, **OWN)
    ray_cluster.wait_ready("grammar", 3, timeout_s=120.0)
    (first,) = endpoints(directory, 3)
    os.kill(_replica(first.port), signal.SIGKILL)
    # Its successor may be there before it is missed.
    wait_until(lambda: first not in endpoints(directory, 3), timeout_s=8.0)
    wait_until(lambda: len(endpoints(directory, 3)) == 1)
    (second,) = endpoints(directory, 3)
    assert second.replica_id != first.replica_id
    assert ask(second).json()["corrected"] == "He goes."
    ray_cluster.delete("grammar", 3, timeout_s=60.0, **ME)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_deployment_that_cannot_be_says_why(ray_cluster: RayCluster, tmp_path: Path) -> None:
    asked = spec(tmp_path, 4, release_timeout_s=0.1, drain_timeout_s=0.1)
    known = {**OWN, "resources": Resources(num_cpus=-1.0)}
    with pytest.raises(DeploymentFailed, match=r"deploying grammar-v4 failed: .*num_cpus"):
        ray_cluster.deploy(asked, replicas=1, **known)
    known = {**OWN, "resources": Resources(num_cpus=0.5, num_gpus=64.0)}
    ray_cluster.deploy(asked, replicas=1, **known)
    with pytest.raises(DeploymentFailed, match="lacks the resources"):
        ray_cluster.wait_ready("grammar", 4, timeout_s=2.0)
    ray_cluster.delete("grammar", 4, timeout_s=60.0, **ME)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_new_owner_finds_what_runs_and_shuts_the_old_one_out(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    import ray

    directory, one = ray_cluster.directory(), spec(tmp_path, 5, model="owned")
    assert ray_cluster.epoch("owned") == 0
    ray_cluster.deploy(one, replicas=1, **OWN)
    ray_cluster.wait_ready("owned", 5, timeout_s=120.0)
    (before,) = endpoints(directory, 5)
    ray_cluster.claim("owned", epoch=2, owner="newer")
    ray_cluster.deploy(one, replicas=1, **{**OWN, "epoch": 2, "owner": "newer"})
    ray_cluster.wait_ready("owned", 5, timeout_s=120.0)
    # The deployer remembers through a restart.
    ray.kill(ray.get_actor("liftlock-deployer", namespace="liftlock"), no_restart=False)
    for refused in (
        lambda: ray_cluster.deploy(one, replicas=2, **OWN),
        lambda: ray_cluster.delete("owned", 5, timeout_s=5.0, **ME),
        lambda: ray_cluster.claim("owned", epoch=2, owner="another"),
    ):
        with pytest.raises(StaleEpoch, match="newer has taken owned over with epoch 2"):
            refused()
    assert ray_cluster.epoch("owned") == 2
    assert endpoints(directory, 5) == [before]
    known = ray_cluster.application("owned", 5)
    assert known is not None
    assert (known.status, known.replicas_running) == ("RUNNING", 1)
    ray_cluster.delete("owned", 5, timeout_s=60.0, epoch=2, owner="newer")


def _replica(port: int) -> int:
    """The actor's process. It holds the port, as do its front ends; psutil names one of them."""
    import psutil

    found = (c for c in psutil.net_connections("tcp") if c.status == psutil.CONN_LISTEN)
    holder = psutil.Process(next(c.pid for c in found if c.laddr.port == port))
    is_front_end = "front end" in " ".join(holder.cmdline())
    return int(holder.ppid() if is_front_end else holder.pid)
