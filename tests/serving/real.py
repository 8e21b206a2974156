"""A real serving plane for tests: Ray, an edge with Envoy, small checkpoints, stand-in engines."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from registry import cache, checkpoint
from registry.engine_settings import EngineSettings
from registry.model import ModelVersion
from serving.cluster import RayCluster, Resources
from serving.edge import control
from serving.ray_plane import PlaneSettings, RayPlane
from tests.conftest import free_port
from tests.fakes import checkpoints

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RealServing:
    """Where one model serves."""

    address: str
    """Of the Ray cluster."""
    home: Path
    """Of the edge."""
    url: str
    model: str

    def open(self, epoch: int, owner: str) -> RayPlane:
        """The plane in the hand of an owner."""
        settings = PlaneSettings(
            model=self.model,
            home=self.home,
            edge_url=self.url,
            tracking_uri="",
            cache=self.home / "cache",
            engine=EngineSettings(),
            resources=Resources(num_cpus=0.5),
            epoch=epoch,
            owner=owner,
            drain_timeout_s=10.0,
            engine_factory="tests.fakes.core:launch",
        )
        return RayPlane(settings, RayCluster.connect(self.address))

    def version(self, number: int) -> ModelVersion:
        """A small checkpoint in the cache, as a registered version."""
        directory = self.home / f"checkpoint-{number}"
        manifest = checkpoint.inspect(checkpoints.make(directory, seed=number)).manifest
        cache.adopt(manifest, directory, self.home / "cache")
        return ModelVersion(
            model=self.model, version=number, digest=manifest.digest, source="models:/m-1",
            model_id="m-1", manifest=manifest,
        )  # fmt: skip


@contextlib.contextmanager
def running_edge(home: Path, address: str) -> Iterator[str]:
    """The base URL of an edge that lists the replicas of a Ray cluster."""
    port = free_port()
    command = [
        sys.executable, "-m", "serving.edge", "--home", str(home),
        "--ray-address", address, "--port", str(port), "--workers", "1",
    ]  # fmt: skip
    with (home / "edge.log").open("w") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log)
        try:
            give_up_s = time.monotonic() + START_TIMEOUT_S
            while control.current_status(home) is None:
                assert process.poll() is None, (home / "edge.log").read_text()
                assert time.monotonic() < give_up_s, (home / "edge.log").read_text()
                time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(60)


def wait_stopped(pid: int, timeout_s: float) -> None:
    """Returns once a process has been stopped by SIGSTOP."""
    give_up_s = time.monotonic() + timeout_s
    while (state := Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]) != "T":
        assert state != "Z", f"process {pid} ended"
        assert time.monotonic() < give_up_s, f"process {pid} did not stop within {timeout_s} s"
        time.sleep(0.05)


def stop_myself() -> None:
    """Like a machine that is suspended: nothing of this process runs until it is woken up."""
    os.kill(os.getpid(), signal.SIGSTOP)
