"""The local stack: an MLflow server, a one-node Ray cluster and an edge, as background processes.

Each part is started when it is first needed and stays, so that the endpoint outlives the command
that promoted to it. In production these are not ours to start: give MLFLOW_TRACKING_URI and
LIFTLOCK_RAY_ADDRESS, and only the edge (or nothing) is local.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import os
import secrets
import shutil
import socket
import ssl
import stat
import sys
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.daemon import Daemon
from jobs.errors import StackError, UsageError
from jobs.settings import Settings
from pipelines.worker import OFFLINE_ENV
from serving.edge import settings_file
from serving.edge.config import EdgeSettings
from serving.edge.home import EdgeHome
from serving.edge.process import stop_left_over
from serving.errors import EdgeError

ROOT = Path(__file__).resolve().parent.parent
# Logical CPUs of the local node. Replicas reserve 1 each and mostly wait; the old and the new
# version must fit side by side even on two cores.
LOCAL_RAY_CPUS = 16
OBJECT_STORE_BYTES = 100 * 1024 * 1024  # the smallest sensible one: no request passes through it
START_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The parts that this home folder runs."""

    settings: Settings
    note: Callable[[str], None]

    @property
    def mlflow(self) -> Daemon:
        """The tracking server."""
        return Daemon(name="mlflow", home=self.settings.home)

    @property
    def ray(self) -> Daemon:
        """The head node."""
        return Daemon(name="ray", home=self.settings.home)

    @property
    def edge(self) -> Daemon:
        """Envoy and the discovery loop."""
        return Daemon(name="edge", home=self.settings.home, keeps_children=True)

    def tracking_uri(self) -> str:
        """The tracking server's address, started if it is ours and not running."""
        if self.settings.tracking_uri is not None:
            return self.settings.tracking_uri
        _reach_loopback_directly()
        with self._one_starter():
            port = self._local_mlflow()
        # Not under the lock: going back without MLflow must not wait for one that hangs.
        self._wait_mlflow(port)
        return f"http://127.0.0.1:{port}"

    def _local_mlflow(self) -> int:
        facts = self.mlflow.facts()
        if facts is not None:
            return int(facts["port"])
        port = self.settings.mlflow_port
        self.mlflow.end_left_over()
        _require_free("127.0.0.1", port, "the MLflow server", "LIFTLOCK_MLFLOW_PORT")
        from registry.mlflow_store import server

        folder = self.settings.home / "mlflow"
        folder.mkdir(parents=True, exist_ok=True)
        self.note(f"starting MLflow on http://127.0.0.1:{port}")
        self.mlflow.start(
            server.command(folder, "127.0.0.1", port),
            env=server.environment(),
            facts={"port": port},
            cwd=ROOT,
        )
        return port

    def ray_address(self) -> str:
        """The cluster's address, started if it is ours and not running.

        Sets this process up to join it, so call it before anything imports ray.
        """
        if self.settings.ray_address is not None:
            return self.settings.ray_address
        with self._one_starter():
            os.environ.update(self._ray_access())
            return self._local_ray()

    def _local_ray(self) -> str:
        facts = self.ray.facts()
        if facts is None:
            facts = {"port": _free_port()}
            self.note("starting a local Ray node")
            _own_folder(self.settings.ray_folder)
            self.ray.start(
                self._ray_command(facts["port"]),
                env=_worker_environment(self.settings.ray_folder),
                facts=facts,
                cwd=ROOT,
            )
        port = int(facts["port"])
        self.ray.wait(lambda: listens("127.0.0.1", port), timeout_s=START_TIMEOUT_S)
        return f"127.0.0.1:{port}"

    def edge_url(self) -> str:
        """The endpoint's base URL, with the edge started if it is not running."""
        address = self.ray_address()
        with self._one_starter():
            return self._local_edge(address)

    def _local_edge(self, address: str) -> str:
        facts = self.edge.facts()
        if facts is not None and facts.get("ray_address") != address:
            self.note("the cluster has moved; starting the edge again")
            self.edge.stop()
            facts = None
        if facts is None:
            facts = self._start_edge(address)
        url = f"{facts.get('scheme', 'http')}://{facts['host']}:{facts['port']}"
        self.edge.wait(lambda: _answers(f"{url}/edge/healthz"), timeout_s=START_TIMEOUT_S)
        return url

    def _start_edge(self, ray_address: str) -> dict[str, Any]:
        # Whether the port is free is for the edge to see: an Envoy of its own that outlived a
        # crash holds it and is taken over.
        host, port = self.settings.endpoint_host, self.settings.endpoint_port
        file = self.settings.edge_file
        more = [] if file is None else ["--config", str(file)]
        # Read here too, so that a fault in it is an error of this command.
        scheme = "http" if edge_settings(self.settings).tls is None else "https"
        facts = {"host": host, "port": port, "ray_address": ray_address, "scheme": scheme}
        self.note(f"starting the edge on {scheme}://{host}:{port}")
        self.edge.start(
            [
                sys.executable, "-m", "serving.edge", "--home", str(self.settings.home),
                "--ray-address", ray_address, "--listen-host", host, "--port", str(port), *more,
            ],
            env={}, facts=facts, cwd=ROOT,
        )  # fmt: skip
        return facts

    def down(self) -> list[str]:
        """Stops every part that runs, the endpoint first; returns their names."""
        stopped = [part.name for part in (self.edge, self.ray, self.mlflow) if part.stop()]
        if stop_left_over(EdgeHome.of(self.settings.home)):
            stopped.append("envoy")
        if self.settings.ray_address is None:
            shutil.rmtree(self.settings.ray_folder, ignore_errors=True)
        return stopped

    @contextlib.contextmanager
    def _one_starter(self) -> Iterator[None]:
        """Of two commands on one home, one starts a part and the other finds it running."""
        lock = self.settings.home / "run" / "lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        with lock.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _ray_access(self) -> dict[str, str]:
        """Ray lets whoever reaches its ports run code, so even the local node wants a token.

        The token is this home's own: Ray's default place may hold that of another cluster.
        """
        token = self.settings.home / "run" / "ray-token"
        if not token.is_file():
            token.parent.mkdir(parents=True, exist_ok=True)
            part = token.with_suffix(f".{os.getpid()}")
            part.touch(mode=0o600)
            part.write_text(secrets.token_hex(32), encoding="utf-8")
            part.replace(token)
        return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(token)}

    def _wait_mlflow(self, port: int) -> None:
        url = f"http://127.0.0.1:{port}/health"
        if not _answers(url):
            self.note(f"waiting for MLflow on port {port}")
        self.mlflow.wait(
            lambda: _answers(f"http://127.0.0.1:{port}/health"), timeout_s=START_TIMEOUT_S
        )

    def _ray_command(self, port: int) -> list[str]:
        # --block keeps the head a child of its own process, so that stopping that one pid stops
        # this cluster and no other on the machine (`ray stop` would end them all).
        return [
            sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block",
            "--node-ip-address", "127.0.0.1",
            "--port", str(port),
            "--ray-client-server-port", str(_free_port()),
            "--dashboard-agent-listen-port", str(_free_port()),
            "--include-dashboard", "false",
            "--num-cpus", str(LOCAL_RAY_CPUS),
            "--object-store-memory", str(OBJECT_STORE_BYTES),
            "--temp-dir", str(self.settings.ray_folder),
            "--disable-usage-stats",
        ]  # fmt: skip


def _worker_environment(folder: Path) -> dict[str, str]:
    path = os.environ.get("PYTHONPATH", "")
    return {
        "PYTHONPATH": f"{ROOT}{os.pathsep}{path}" if path else str(ROOT),
        # Ray runs its workers at niceness 15; a replica is no batch job to be starved by others.
        "RAY_worker_niceness": "0",
        # vLLM's sockets; a replica that is killed leaves them, and the folder goes with --stop.
        "VLLM_RPC_BASE_PATH": str(folder),
        **OFFLINE_ENV,
    }


def _require_free(host: str, port: int, what: str, knob: str) -> None:
    if listens(host, port):
        raise StackError(
            f"port {port} for {what} is taken by another program; stop that, or choose another "
            f"port with {knob}"
        )


def _reach_loopback_directly() -> None:
    """A proxy from the environment cannot reach this machine's own loopback."""
    for name in ("NO_PROXY", "no_proxy"):
        known = [part for part in os.environ.get(name, "").split(",") if part]
        added = [part for part in ("127.0.0.1", "localhost") if part not in known]
        os.environ[name] = ",".join([*known, *added])


def _own_folder(folder: Path) -> None:
    """A folder in a place that others can write to, which must be ours alone.

    Raises:
        StackError: somebody else made it, or could write into it.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
        raise StackError(
            f"{folder} belongs to another user or can be written by others; remove it, since Ray "
            "would keep its sockets and code there"
        )


def edge_settings(settings: Settings) -> EdgeSettings:
    """What the edge of this home is started with. Raises UsageError where that cannot be."""
    try:
        return settings_file.load(settings.edge_file)
    except EdgeError as exc:
        raise UsageError(str(exc)) from exc


def listens(host: str, port: int) -> bool:
    """True if somebody accepts connections there."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((host, port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(url: str) -> bool:
    try:
        # Ours, on loopback, under a name that no certificate holds: whether it answers is asked.
        unverified = ssl._create_unverified_context()
        direct = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=unverified)
        )
        with direct.open(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (OSError, http.client.HTTPException):
        return False
