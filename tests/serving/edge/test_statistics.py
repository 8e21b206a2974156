"""An Envoy of a fleet: of its admin the statistics are shown, and it waits for what it holds."""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.edge import write_bootstrap
from serving.edge.process import envoy_binary
from tests.conftest import free_port

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDER = REPOSITORY / "deploy" / "kubernetes" / "base" / "edge"


@contextlib.contextmanager
def started(folder: Path, content: dict[str, Any], admin_port: int) -> Iterator[int]:
    """An Envoy as something else runs it; gives its process id."""
    file = folder / "bootstrap.json"
    file.write_text(json.dumps(content))
    process = subprocess.Popen(
        [
            str(envoy_binary()), "--config-path", str(file),
            "--concurrency", "1", "--disable-hot-restart",
            "--log-level", "off", "--drain-time-s", "1", "--drain-strategy", "immediate",
        ]
    )  # fmt: skip
    try:
        until_up(admin_port, "/server_info")
        yield process.pid
        assert process.poll() is None, "nothing but the kubelet ends it"
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def ports() -> dict[str, int]:
    return {name: free_port() for name in ("port", "admin", "metrics")}


@pytest.fixture
def content(ports: dict[str, int]) -> dict[str, Any]:
    """A bootstrap whose discovery is away."""
    return written(ports, f"127.0.0.1:{free_port()}")


def written(ports: dict[str, int], discovery: str) -> dict[str, Any]:
    """What the command prints."""
    options = ["--discovery", discovery, "--url", "http://edge", "--edge-id", "edge-1"]
    options += ["--zone", "zone-a", "--port", str(ports["port"])]
    options += ["--admin-port", str(ports["admin"]), "--metrics-port", str(ports["metrics"])]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert write_bootstrap.main(options) == 0
    found: dict[str, Any] = json.loads(printed.getvalue())
    return found


def until_up(port: int, path: str) -> None:
    for _ in range(200):
        try:
            get(port, path)
        except httpx.TransportError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"nobody answers on port {port}")


def get(port: int, path: str, method: str = "GET") -> httpx.Response:
    return httpx.request(method, f"http://127.0.0.1:{port}{path}", trust_env=False, timeout=5)


def test_it_says_who_it_is_and_waits_for_discovery(
    tmp_path: Path, content: dict[str, Any], ports: dict[str, int]
) -> None:
    with started(tmp_path, content, ports["admin"]):
        node: Any = get(ports["admin"], "/server_info").json()["node"]
        assert (node["id"], node["locality"]["zone"]) == ("edge-1", "zone-a")
        with pytest.raises(httpx.TransportError):
            get(ports["port"], "/edge/healthz")


def test_the_statistics_are_shown_and_nothing_else_of_admin(
    tmp_path: Path, content: dict[str, Any], ports: dict[str, int]
) -> None:
    del content["dynamic_resources"], content["static_resources"]["listeners"][0]
    with started(tmp_path, content, ports["admin"]):
        until_up(ports["metrics"], "/")
        shown = get(ports["metrics"], "/stats/prometheus?usedonly")
        assert "envoy_server_live" in shown.text
        others = ("/", "/quitquitquit", "/config_dump", "/stats/prometheus/../../certs", "/stats")
        for path in others:
            assert get(ports["metrics"], path).status_code == 404, path
        assert get(ports["metrics"], "/stats/prometheus", "POST").status_code == 404


def test_the_limit_of_callers_connections_is_not_one_of_who_reads_the_statistics(
    tmp_path: Path, content: dict[str, Any], ports: dict[str, int]
) -> None:
    del content["dynamic_resources"], content["static_resources"]["listeners"][0]
    monitor, _ = content["overload_manager"]["resource_monitors"]
    monitor["typed_config"]["max_active_downstream_connections"] = 1
    with started(tmp_path, content, ports["admin"]), contextlib.ExitStack() as held:
        until_up(ports["metrics"], "/")
        for _ in range(3):
            held.enter_context(socket.create_connection(("127.0.0.1", ports["metrics"])))
        assert get(ports["metrics"], "/stats/prometheus").status_code == 200


class Slow(BaseHTTPRequestHandler):
    """A replica that takes a second."""

    def do_GET(self) -> None:
        time.sleep(1.0)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def replica() -> Iterator[int]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def routed_to(replica: int, content: dict[str, Any]) -> None:
    """What discovery would have said, written into the file."""
    static = content["static_resources"]
    static["clusters"].append(
        {
            "name": "replica", "type": "STATIC",
            "load_assignment": {
                "cluster_name": "replica",
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": {
                    "socket_address": {"address": "127.0.0.1", "port_value": replica}
                }}}]}],
            },
        }
    )  # fmt: skip
    manager = static["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    del content["dynamic_resources"], manager["rds"]
    route = {"match": {"prefix": "/"}, "route": {"cluster": "replica"}}
    host = {"name": "edge", "domains": ["*"], "routes": [route]}
    manager["route_config"] = {"name": "edge", "virtual_hosts": [host]}


def test_the_hook_waits_for_what_is_in_flight_and_not_longer(
    tmp_path: Path, content: dict[str, Any], ports: dict[str, int], replica: int
) -> None:
    routed_to(replica, content)
    hook = ["bash", str(FOLDER / "drain.sh"), "0.3", "30"]
    environment = {**os.environ, "ADMIN_PORT": str(ports["admin"])}
    with started(tmp_path, content, ports["admin"]), ThreadPoolExecutor() as pool:
        until_up(ports["port"], "/warm")
        asked = pool.submit(get, ports["port"], "/slow")
        time.sleep(0.3)
        began_s = time.monotonic()
        subprocess.run(hook, env=environment, check=True, timeout=20)
        seconds = time.monotonic() - began_s
        answer = asked.result(timeout=1.0)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert 0.6 < seconds < 8.0


@contextlib.contextmanager
def discovery(folder: Path, replica: int) -> Iterator[str]:
    """The service as a process of its own; gives its address for edges."""
    listed = {"model": "grammar", "version": 1, "host": "127.0.0.1", "port": replica}
    share = {"model": "grammar", "weights": [{"version": 1, "percent": 100}]}
    plan = {"format": "liftlock/traffic/v1", "epoch": 1, "models": [share], "claims": []}
    (folder / "endpoints.json").write_text(
        json.dumps({"endpoints": [{**listed, "replica_id": "r1", "digest": "", "state": "ready"}]})
    )
    (folder / "traffic.json").write_text(json.dumps(plan))
    address, feed = (f"127.0.0.1:{free_port()}" for _ in range(2))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "serving.discovery", "--listen", address, "--feed", feed),
            *("--endpoints", str(folder / "endpoints.json")),
            *("--traffic", str(folder / "traffic.json")),
        ],
        cwd=REPOSITORY,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield address
    finally:
        process.terminate()
        assert process.wait(timeout=20) == 0


def test_told_by_discovery_it_is_ready_answers_and_counts(
    tmp_path: Path, ports: dict[str, int], replica: int
) -> None:
    with (
        discovery(tmp_path, replica) as address,
        started(tmp_path, written(ports, address), ports["admin"]),
    ):
        until_up(ports["port"], "/edge/healthz")
        assert get(ports["port"], "/edge/healthz").status_code == 200
        assert get(ports["port"], "/v1/models").status_code == 200
        counted = get(ports["metrics"], "/stats/prometheus?usedonly").text
        assert 'envoy_cluster_upstream_rq_total{envoy_cluster_name="grammar@v1"} 1' in counted
