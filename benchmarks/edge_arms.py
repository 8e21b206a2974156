"""What `benchmarks.edge` compares: each arm is started, described and stopped here.

All arms forward to the same app (`benchmarks.edge_app`). The Envoy arms share uvicorn processes
that live for the whole run; Ray starts its own replicas.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from serving import endpoint
from serving.discovery import sources, traffic
from serving.edge import control, process
from serving.keys.scopes import Scope
from serving.keys.store import KeyStore, Terms
from tests.conftest import free_port

ROOT = Path(__file__).resolve().parent.parent
ARMS = ("bare", "edge", "ended", "ray", "haproxy")
MODEL = "grammar"
READY_S = 120.0
STOP_S = 60.0
RATE_RPS = 1_000_000
RAY_QUIET = {"RAY_USAGE_STATS_ENABLED": "0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """An arm that answers: where, and its processes between caller and replica, by name."""

    url: str
    processes: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What the arms share."""

    replicas: Sequence[int]
    """Ports of the uvicorn replicas."""
    workers: int
    """Threads of Envoy and of HAProxy."""
    edge: EverythingOn
    ended: EverythingOn
    """As `edge`, and one key was revoked: a filter more."""

    def everything(self, arm: str) -> EverythingOn:
        """How the edge of an arm is started; what it has callers send is sent to the others too."""
        return self.ended if arm == "ended" else self.edge


@dataclass(frozen=True, slots=True, kw_only=True)
class EverythingOn:
    """How the edge is started with all that it can do, and what callers must then send."""

    options: tuple[str, ...]
    headers: Mapping[str, str]
    """Sent to every arm, so that all read the same bytes."""
    on: tuple[str, ...]


def everything_on(home: Path, *, ended: bool) -> EverythingOn:
    """Keys, a rate for the key and one for the model, which nobody reaches, a deadline on every
    request, the access log at the share that docs/edge.md shows, and perhaps a revoked key."""
    home.mkdir()
    store = KeyStore.of(home)
    terms = Terms(name="benchmark", scopes=(Scope.CALL,), rate_rps=RATE_RPS, lifetime_s=86_400)
    key = store.issue(terms, time.time()).text
    if ended:
        store.revoke(store.issue(terms, time.time()).record.key_id, time.time())
    settings = {
        "keys": {"required": True, "folder": str(store.records_file.parent)},
        "quotas": [{"model": MODEL, "rate_rps": RATE_RPS}],
        "access_log": 0.01,
    }
    file = home / "edge.yaml"
    file.write_text(json.dumps(settings))  # JSON is YAML
    return EverythingOn(
        options=("--config", str(file)),
        headers={"x-request-timeout-ms": "5000", "authorization": f"Bearer {key}"},
        on=(
            *("keys", "rate per key", "rate per model", "deadline", "access log of 1 %"),
            *(["a revoked key"] if ended else []),
        ),
    )


@contextlib.contextmanager
def replicas(count: int) -> Iterator[list[int]]:
    """The ports of that many uvicorn processes."""
    ports = [free_port() for _ in range(count)]
    with contextlib.ExitStack() as stack:
        for port in ports:
            stack.enter_context(_child("benchmarks.edge_app", "--port", str(port)))
        for port in ports:
            _until_answering(f"http://127.0.0.1:{port}", {})
        yield ports


@contextlib.contextmanager
def running(arm: str, site: Site, home: Path) -> Iterator[Running]:
    """One arm for the body. Raises RuntimeError when it does not come up."""
    starts = {"bare": _bare, "edge": _edge, "ended": _edge, "ray": _ray, "haproxy": _ray}
    with starts[arm](arm, site, home) as found:
        _until_answering(found.url, site.everything(arm).headers)
        yield found


@contextlib.contextmanager
def _bare(_arm: str, site: Site, _home: Path) -> Iterator[Running]:
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        content = bare_envoy(port, site.replicas)
        with running_envoy(process.envoy_binary(), content, Path(folder), site.workers) as pid:
            yield Running(url=f"http://127.0.0.1:{port}", processes={"envoy": pid})


@contextlib.contextmanager
def running_envoy(
    binary: Path, content: Mapping[str, Any], folder: Path, workers: int
) -> Iterator[int]:
    """The process id of an Envoy that nobody steers."""
    file = folder / "bare.json"
    file.write_text(json.dumps(content))
    options = ("--log-level", "warning", "--disable-hot-restart", "--concurrency", str(workers))
    with _spawned([str(binary), "--config-path", str(file), *options]) as envoy:
        yield envoy.pid


def bare_envoy(port: int, ports: Sequence[int]) -> dict[str, Any]:
    """The least that forwards by least-request with two choices: no filter but the router."""
    kind = "type.googleapis.com/envoy.extensions.filters"
    route = {"match": {"prefix": "/"}, "route": {"cluster": "replicas"}}
    manager = {
        "@type": f"{kind}.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "bare",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": [route]}]},
        "http_filters": [
            {"name": "router", "typed_config": {"@type": f"{kind}.http.router.v3.Router"}}
        ],
    }
    hosts = [{"endpoint": {"address": _address(replica)}} for replica in ports]
    cluster = {
        "name": "replicas",
        "type": "STATIC",
        "lb_policy": "LEAST_REQUEST",
        "least_request_lb_config": {"choice_count": 2},
        "load_assignment": {"cluster_name": "replicas", "endpoints": [{"lb_endpoints": hosts}]},
    }
    chain = {"filters": [{"name": "http", "typed_config": manager}]}
    listener = {"name": "all", "address": _address(port), "filter_chains": [chain]}
    return {"static_resources": {"listeners": [listener], "clusters": [cluster]}}


def _address(port: int) -> dict[str, Any]:
    return {"socket_address": {"address": "127.0.0.1", "port_value": port}}


@contextlib.contextmanager
def _edge(arm: str, site: Site, home: Path) -> Iterator[Running]:
    file, port = home / "endpoints.json", free_port()
    write_endpoints(file, site.replicas)
    plan = control.set_model_traffic(home, traffic.whole(MODEL, 1), epoch=1)
    options = ("--home", str(home), "--endpoints", str(file), "--port", str(port))
    more = site.everything(arm).options
    with _child("serving.edge", *options, "--workers", str(site.workers), *more) as it:
        shown = asyncio.run(control.wait_applied(home, plan, timeout_s=READY_S))
        assert shown.envoy_pid is not None
        known = {"envoy": shown.envoy_pid, "service": it.pid}
        yield Running(url=f"http://127.0.0.1:{port}", processes=known)


def write_endpoints(file: Path, ports: Sequence[int]) -> None:
    """The list of endpoints that an edge reads, for replicas at these ports."""
    listed = [sources.endpoint_to_json(_endpoint(port)) for port in ports]
    file.write_text(json.dumps({"endpoints": listed}))


def _endpoint(port: int) -> endpoint.Endpoint:
    return endpoint.Endpoint(
        replica_id=f"r-{port}", model=MODEL, version=1, digest="d", host="127.0.0.1", port=port,
        state=endpoint.EndpointState.READY,
    )  # fmt: skip


@contextlib.contextmanager
def _ray(arm: str, site: Site, home: Path) -> Iterator[Running]:
    environment = {**RAY_QUIET, **(_haproxy(site, home) if arm == "haproxy" else {})}
    port, count = free_port(), len(site.replicas)
    command = [sys.executable, "-m", "benchmarks.edge_ray", "--port", str(port),
               "--replicas", str(count)]  # fmt: skip
    with _spawned(command, environment, stop_by_input=True) as host:
        assert host.stdout is not None
        for line in host.stdout:
            if line.startswith(b"READY "):
                found = json.loads(line.removeprefix(b"READY "))
                yield Running(url=found["url"], processes=found["processes"])
                return
        raise RuntimeError(f"{arm} did not come up")


def _haproxy(site: Site, home: Path) -> dict[str, str]:
    """Ray's HAProxy with all that makes it fast; nothing of it where others would meet it."""
    folder = home / "haproxy"
    folder.mkdir(exist_ok=True)
    settings = {
        "NBTHREAD": str(site.workers),
        "CONFIG_FILE_LOC": str(folder / "haproxy.cfg"),
        "SOCKET_PATH": str(folder / "admin.sock"),
        "SERVER_STATE_BASE": str(folder),
        "SERVER_STATE_FILE": str(folder / "server-state"),
        "METRICS_PORT": str(free_port()),
        "STATS_PORT": str(free_port()),
    }
    return {
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        **{f"RAY_SERVE_HAPROXY_{name}": value for name, value in settings.items()},
    }


def _child(module: str, *arguments: str) -> contextlib.AbstractContextManager[Any]:
    return _spawned([sys.executable, "-m", module, *arguments])


@contextlib.contextmanager
def _spawned(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    stop_by_input: bool = False,
) -> Iterator[subprocess.Popen[bytes]]:
    """A process for the body; a RuntimeError of the body tells what it said last."""
    with tempfile.TemporaryFile() as log:
        started = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if stop_by_input else log, stderr=log,
        )  # fmt: skip
        try:
            yield started
        except RuntimeError as exc:
            log.seek(0)
            last = log.read().decode(errors="replace").strip().splitlines()[-3:]
            raise RuntimeError(f"{exc}; it said: {' / '.join(last)[-400:] or 'nothing'}") from exc
        finally:
            assert started.stdin is not None
            started.stdin.close()
            if not stop_by_input:
                started.terminate()
            try:
                started.wait(STOP_S)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()


def _until_answering(url: str, headers: Mapping[str, str]) -> None:
    give_up_s = time.monotonic() + READY_S
    seen = "no connection"
    while time.monotonic() < give_up_s:
        with contextlib.suppress(httpx.HTTPError):
            answer = httpx.post(
                f"{url}/v1/completions", content=b"{}", headers=dict(headers), trust_env=False
            )
            if answer.status_code == httpx.codes.OK:
                return
            seen = f"{answer.status_code} {answer.text[:100]}"
        time.sleep(0.1)
    raise RuntimeError(f"{url} did not answer within {READY_S:g} s: {seen}")
