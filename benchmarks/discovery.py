"""How soon does a change of replicas reach an edge, and what does a churning fleet cost?

    python -m benchmarks.discovery [SECONDS] [--edges 12]

1,000 replicas of one model; 50 times a second one leaves and another comes, evenly spaced.
Discovery runs in this process, fed by a source in memory, and tells twelve clients of the discovery
protocol in a second process. Each change is looked for in what each client was sent. CPU is that of
this process by its own clock, making the changes included, and is also given without any change.
Then a real Envoy takes single changes, as its counter of membership shows them (asked every 2 ms).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import sys
import tempfile
import time
from asyncio import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import httpx
import psutil
import uvloop

from benchmarks import machine
from serving.discovery import protos, sources, traffic, xds
from serving.discovery.catalog import Kind
from serving.discovery.observation import Listing
from serving.discovery.service import Discovery
from serving.edge import bootstrap, config, process, resources
from serving.edge import home as edge_home
from serving.endpoint import Endpoint, EndpointState
from tests.serving.edge import harness

REPLICAS = 1_000
CHANGES_PER_S = 50
EDGES = 12
"""The most that docs/edge.md advises."""
SETTLE_S = 2.0
SINGLE_CHANGES = 40


def replica(number: int) -> Endpoint:
    """Each number has its own address, so a client can tell which change it was sent."""
    return Endpoint(
        replica_id=f"r{number}",
        model="grammar",
        version=1,
        digest="sha256:0",
        host=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}",
        port=8000,
        state=EndpointState.READY,
        zone=f"zone-{number % 3}",
    )


class Churning:
    """A source in memory, which tells at once that it changed."""

    def __init__(self, replicas: list[Endpoint]) -> None:
        self.replicas = replicas
        self.generation = 1
        self._news = asyncio.Event()

    def replace(self, place: int, other: Endpoint) -> None:
        """One replica leaves and another comes."""
        self.replicas[place] = other
        self.tell()

    def tell(self) -> None:
        """Whoever waits hears of what changed."""
        self.generation += 1
        self._news.set()
        self._news = asyncio.Event()

    async def list(self) -> Listing:
        return Listing(generation=self.generation, endpoints=tuple(self.replicas))

    async def changed(self, generation: int) -> None:
        if self.generation == generation:
            with suppress(TimeoutError):
                async with asyncio.timeout(sources.WAIT_S):
                    await self._news.wait()

    async def ack(self, edge_id: str, generation: int) -> None:
        pass

    async def close(self) -> None:
        pass


async def client(address: str, number: int) -> None:
    """Takes everything and prints when each address was first sent."""
    messages = protos.discovery()
    method = f"/{xds.SERVICE}/{xds.METHOD}"
    seen: set[bytes] = set()
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.stream_stream(method)()

        async def ask(kind: str, names: list[str], nonce: str = "") -> None:
            asked = messages.DeltaDiscoveryRequest(
                type_url=kind, resource_names_subscribe=names, response_nonce=nonce
            )
            asked.node.id = f"edge-{number}"
            await call.write(asked.SerializeToString())

        await ask(Kind.CLUSTERS.type_url, [])
        await ask(Kind.ENDPOINTS.type_url, ["grammar@v1"])
        await ask(Kind.ROUTES.type_url, ["edge"])
        while (data := await call.read()) is not grpc.aio.EOF:
            now_s = time.monotonic()
            response = messages.DeltaDiscoveryResponse.FromString(data)
            await ask(response.type_url, [], response.nonce)
            if response.type_url == Kind.ENDPOINTS.type_url:
                found = _addresses(response)
                for new in found - seen:
                    print(json.dumps([number, new, now_s]), flush=True)
                seen = found


def _addresses(response: Any) -> set[str]:
    endpoint_pb2 = __import__("envoy.config.endpoint.v3.endpoint_pb2", fromlist=["x"])
    found = set()
    for resource in response.resources:
        assignment = endpoint_pb2.ClusterLoadAssignment.FromString(resource.resource.value)
        for group in assignment.endpoints:
            found |= {e.endpoint.address.socket_address.address for e in group.lb_endpoints}
    return found


async def churn(source: Churning, seconds: float) -> dict[str, float]:
    """Change for so long; when each address came."""
    made_s: dict[str, float] = {}
    started_s = time.monotonic()
    for number in range(round(seconds * CHANGES_PER_S)):
        await asyncio.sleep(max(0.0, started_s + number / CHANGES_PER_S - time.monotonic()))
        other = replica(REPLICAS + number)
        made_s[other.host] = time.monotonic()
        source.replace(number * 7 % REPLICAS, other)
    return made_s


async def fleet(folder: Path, seconds: float, edges: int) -> dict[str, Any]:
    """CPU and delays at 50 changes a second."""
    source = Churning([replica(number) for number in range(REPLICAS)])
    discovery = _discovery(source, folder)
    address = f"unix:{folder}/xds.sock"
    await discovery.listen(address)
    running = asyncio.create_task(discovery.run())
    clients = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.discovery", "--clients", address,
        "--edges", str(edges), stdout=subprocess.PIPE,
    )  # fmt: skip
    assert clients.stdout is not None
    reading = asyncio.create_task(clients.stdout.read())
    while len([e for e in discovery.server.edges() if e.shown]) < edges:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await asyncio.sleep(SETTLE_S)
    idle = await _cpu_percent(asyncio.sleep(seconds / 2))
    made_s: dict[str, float] = {}

    async def work() -> None:
        made_s.update(await churn(source, seconds))

    busy = await _cpu_percent(work())
    await asyncio.sleep(1.0)
    clients.terminate()
    lines = [json.loads(line) for line in (await reading).splitlines()]
    await clients.wait()
    await _end(running)
    await discovery.close()
    delays_ms = sorted(1e3 * (at - made_s[a]) for _, a, at in lines if a in made_s)
    return {
        "cpu_percent_at_50_per_s": round(busy, 1),
        "cpu_percent_idle": round(idle, 1),
        "changes": len(made_s),
        "seen": len(delays_ms),
        "change_to_client_ms": _spread(delays_ms),
    }


async def envoy(folder: Path) -> dict[str, Any]:
    """Single changes until Envoy's admin interface shows them."""
    settings = config.EdgeSettings(port=harness.free_port(), workers=1, drain_s=0.0)
    home = edge_home.EdgeHome.of(folder)
    home.create()
    source = Churning([replica(number) for number in range(REPLICAS)])
    discovery = _discovery(source, home.root)
    where = f"unix:{home.socket}"
    await discovery.listen(where)
    running = asyncio.create_task(discovery.run())
    node = bootstrap.Node(edge_id="e", discovery=where, url="", directory=home.root)
    proxy = process.EnvoyProcess(settings, home, node)
    await proxy.start()
    assert proxy.admin_url is not None
    delays_ms = []
    async with httpx.AsyncClient(base_url=proxy.admin_url, trust_env=False, verify=False) as asked:
        for number in range(SINGLE_CHANGES):
            await asyncio.sleep(0.2 + 0.01 * (number % 7))
            before = await _changes(asked)
            began_s = time.monotonic()
            source.replace(number, replica(REPLICAS + number))
            while await _changes(asked) == before:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            delays_ms.append(1e3 * (time.monotonic() - began_s))
    await proxy.stop()
    await _end(running)
    await discovery.close()
    spread = _spread(sorted(delays_ms))
    return {"change_to_envoy_ms": spread["max"], "change_to_envoy_p50_ms": spread["p50"]}


async def _changes(asked: httpx.AsyncClient) -> int:
    """How often Envoy's list of replicas changed."""
    name = "cluster.grammar@v1.membership_change"
    said = await asked.get("/stats", params={"filter": f"^{re.escape(name)}$"})
    return int(said.text.rpartition(":")[2])


def _discovery(source: sources.Source, folder: Path) -> Discovery:
    settings = config.EdgeSettings()
    plan = folder / "traffic.json"
    traffic.store(plan, traffic.TrafficPlan(epoch=1, models=(traffic.whole("grammar", 1),)))
    return Discovery(
        source, plan, lambda found: resources.documents(found, settings), needs_plan=True
    )


async def _cpu_percent(work: Any) -> float:
    """CPU of this process while something runs, in percent of one core."""
    cpu_s, began_s = time.process_time(), time.monotonic()
    await work
    return 100 * (time.process_time() - cpu_s) / (time.monotonic() - began_s)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def _spread(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1), "max": round(values[-1], 1)}


async def main(seconds: float, edges: int) -> None:
    """Both measurements, printed."""
    found = machine.describe()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fleet").mkdir()
        found |= await fleet(folder / "fleet", seconds, edges)
        found |= await envoy(folder / "envoy")
    found["memory_mib"] = round(psutil.Process().memory_info().rss / 2**20)
    found["edges"] = edges
    print(f"{REPLICAS} replicas, {edges} clients, {CHANGES_PER_S} changes/s for {seconds:g} s")
    print(
        f"CPU {found['cpu_percent_at_50_per_s']} % of a core ({found['cpu_percent_idle']} % idle)"
    )
    print(f"change -> client {found['change_to_client_ms']} ms at that rate")
    p50_ms, max_ms = found["change_to_envoy_p50_ms"], found["change_to_envoy_ms"]
    print(f"change -> Envoy, one at a time: median {p50_ms} ms, longest {max_ms} ms")
    print(machine.result(found))


async def clients(address: str, edges: int) -> None:
    """The second process."""
    await asyncio.gather(*(client(address, number) for number in range(edges)))


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=20.0)
    parser.add_argument("--edges", type=int, default=EDGES)
    parser.add_argument("--clients", metavar="ADDRESS", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    given = options().parse_args()
    if given.clients:
        asyncio.run(clients(given.clients, given.edges))
    else:
        uvloop.run(main(given.seconds, given.edges))  # as serving.program does
