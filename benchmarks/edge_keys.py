"""What the edge's filters cost: CPU of Envoy a request, with keys, deadlines and a log.

    python -m benchmarks.edge_keys [--rounds 16] [--requests 800]

Edges of different settings stand in front of the same replica, which answers from memory. They are
asked in turn, in a new order each round, over 8 connections; what is reported is Envoy's own CPU
time from /proc, and the median over the rounds of each arm's ratio to `bare` in the same round,
with an interval that holds it in 95 of 100 cases (order statistics).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import socket
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import edge_arms, machine
from serving.discovery import sources, traffic
from serving.edge import config, control, filters, home, service
from serving.keys.scopes import Scope
from serving.keys.store import KeyStore, Terms

CONNECTIONS = 8
KEYS = 100
BODY = b'{"text": "She go to school every days.", "offsets": "code_points"}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n" + b"x" * 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """One way to ask one edge."""

    name: str
    settings: config.EdgeSettings
    keys: Path
    """Folder of the keys that callers show, whether or not anybody asks for them: so that all arms
    read the same bytes."""
    bare: bool = False
    """Without the deadline's filter too, which no setting turns off."""


def arms(good: Path, ended: Path) -> list[Arm]:
    """Each on a port of its own."""

    def made(**more: object) -> config.EdgeSettings:
        return config.EdgeSettings(port=free_port(), workers=1, **more)  # type: ignore[arg-type]

    cached, with_ended, not_cached = (
        config.KeySettings(required=True, folder=folder, cached=n)
        for folder, n in ((good, 10_000), (ended, 10_000), (good, 1))
    )
    return [
        Arm(name="bare", settings=made(), keys=good, bare=True),
        Arm(name="deadline", settings=made(), keys=good),
        Arm(name="keys", settings=made(keys=cached), keys=good),
        Arm(name="ended", settings=made(keys=with_ended), keys=ended),
        Arm(name="log", settings=made(keys=cached, access_log=0.01), keys=good),
        Arm(name="unverified", settings=made(keys=not_cached), keys=good),
    ]


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.asynccontextmanager
async def replica() -> AsyncIterator[int]:
    """The port of a server that answers every request alike."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                await reader.readexactly(len(BODY))
                writer.write(ANSWER)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()


@contextlib.asynccontextmanager
async def edge(
    arm: Arm, root: Path, endpoints: Path, *, timeout_s: float = 60.0
) -> AsyncIterator[int]:
    """Envoy's process id, once it serves."""
    plan = control.set_model_traffic(root, traffic.whole("grammar", 1), epoch=1)
    source = sources.StaticFileSource(endpoints)
    running = service.EdgeService(arm.settings, home.EdgeHome.of(root), source, edge_id=arm.name)
    nothing = mock.patch.object(filters, "early_mutations", return_value=[])
    with nothing if arm.bare else contextlib.nullcontext():
        task = asyncio.create_task(running.run())
        status = await control.wait_applied(root, plan, timeout_s=timeout_s)
    try:
        assert status.envoy_pid is not None
        yield status.envoy_pid
    finally:
        running.stop()
        await task


async def ask(arm: Arm, keys: Sequence[str], requests: int) -> float:
    """Requests a second."""
    since_s = time.monotonic()
    each = requests // CONNECTIONS
    await asyncio.gather(*(_caller(arm, keys[n::CONNECTIONS], each) for n in range(CONNECTIONS)))
    return each * CONNECTIONS / (time.monotonic() - since_s)


async def _caller(arm: Arm, keys: Sequence[str], requests: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", arm.settings.port)
    for number in range(requests):
        head = f"POST /v1/corrections HTTP/1.1\r\nhost: edge\r\ncontent-length: {len(BODY)}\r\n"
        head += "x-request-timeout-ms: 20000\r\n"
        head += f"authorization: Bearer {keys[number % len(keys)]}\r\n"
        writer.write(f"{head}\r\n".encode() + BODY)
        answer = await reader.readuntil(b"\r\n\r\n")
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"{arm.name} was answered {answer!r}; nothing to measure")
        await reader.readexactly(200)
    writer.close()


def cpu_s(pid: int) -> float:
    """CPU time that the threads of a process have used; the kernel counts it in nanoseconds."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in threads) / 1e9


def issue(root: Path, *, ended: bool) -> list[str]:
    """Keys that no rate stops; every edge knows them, and perhaps one more that was revoked."""
    store = KeyStore.of(root)
    terms = Terms(name="load", scopes=(Scope.CALL,), rate_rps=1_000_000, lifetime_s=86_400)
    if ended:
        store.revoke(store.issue(terms, time.time()).record.key_id, time.time())
    return [store.issue(terms, time.time()).text for _ in range(KEYS)]


async def measure(rounds: int, requests: int, root: Path) -> dict[str, list[float]]:
    """Milliseconds of CPU a request, by arm, one figure a round."""
    keys = {root / n / "keys": issue(root / n, ended=n == "ended") for n in ("good", "ended")}
    found: dict[str, list[float]] = {}
    async with contextlib.AsyncExitStack() as stack:
        port = await stack.enter_async_context(replica())
        file = root / "endpoints.json"
        edge_arms.write_endpoints(file, [port])
        pids = {}
        for arm in arms(*keys):
            started = edge(arm, root / f"edge-{arm.name}", file)
            pids[arm] = await stack.enter_async_context(started)
            await ask(arm, keys[arm.keys], 400)
        for _ in range(rounds):
            for arm in random.sample(list(pids), len(pids)):
                before_s = cpu_s(pids[arm])
                rate_rps = await ask(arm, keys[arm.keys], requests)
                cost_ms = 1000 * (cpu_s(pids[arm]) - before_s) / requests
                found.setdefault(arm.name, []).append(cost_ms)
                print(f"{arm.name:11} {cost_ms:.4f} ms CPU a request, {rate_rps:.0f}/s", flush=True)
    return found


def ratio(found: dict[str, list[float]], name: str) -> tuple[float, float, float]:
    """Median over rounds of an arm's cost by that of `bare`, and a 95 % interval of it."""
    ratios = sorted(a / b for a, b in zip(found[name], found["bare"], strict=True))
    # Of n values the median lies between the k-th smallest and largest; k by the binomial.
    skip = max(0, round(len(ratios) / 2 - 0.98 * len(ratios) ** 0.5))
    low, high = ratios[skip], ratios[-1 - skip]
    return round(statistics.median(ratios), 3), round(low, 3), round(high, 3)


def main() -> None:
    """Parses, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--requests", type=int, default=800)
    given = parser.parse_args()
    on = machine.describe()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure(given.rounds, given.requests, Path(folder)))
    result: dict[str, Any] = {**on, "rounds": given.rounds, "requests": given.requests}
    for name, costs in found.items():
        result[f"{name}_ms"] = round(statistics.median(costs), 4)
        if name != "bare":
            result[f"{name}_vs_bare"] = ratio(found, name)
    print(machine.result(result))


if __name__ == "__main__":
    main()
