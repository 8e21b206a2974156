"""How many instructions does Envoy run for a request, with the edge's settings and with the least?

    python -m benchmarks.edge_instructions [--requests 2000] [--arms least,open,keys,everything]

A count and no time: valgrind's callgrind (Debian's package valgrind) runs Envoy, so shared cores,
clocks and neighbors do not show, and two runs differ by half a per cent. It counts what Envoy does
and not what the kernel does for it, which is the same for every arm, since all send the same bytes.
Nor does it count what instructions cost: filters that are rarely in the cache cost more time than
their share, which `benchmarks.edge` and `benchmarks.edge_keys` measure.

Each Envoy is warmed, left alone for a while, whose instructions a second are taken off, and then
asked over 8 connections.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import shutil
import stat
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks import edge_arms, edge_keys, machine
from serving.edge import config, process
from serving.keys.scopes import Scope
from serving.keys.store import KeyStore, Terms

ARMS = ("least", "open", "keys", "everything", "ended", "rates")
WARM_REQUESTS = 400
ALONE_S = 4.0
START_S = 300.0
"""Envoy under callgrind takes half a minute to its first answer."""


def arm(name: str, keys: Path) -> edge_keys.Arm:
    """`least`: bare Envoy, static endpoints. `open`: the edge as it comes. `keys`: and API keys
    with their rates. `everything`: and a quota and the log. `ended`: and a revoked key. `rates`:
    instead, nine keys more, each of a rate of its own."""
    found: dict[str, Any] = {"port": edge_keys.free_port(), "workers": 1}
    if name not in ("least", "open"):
        found["keys"] = config.KeySettings(required=True, folder=keys)
    if name in ("everything", "ended", "rates"):
        quota = config.ModelQuota(model="grammar", rate_rps=edge_arms.RATE_RPS)
        found |= {"quotas": (quota,), "access_log": 0.01}
    return edge_keys.Arm(name=name, settings=config.EdgeSettings(**found), keys=keys)


def counted_envoy(folder: Path) -> Path:
    """A program that is Envoy, its instructions counted into `folder`."""
    counter = shutil.which("valgrind")
    if counter is None:
        raise FileNotFoundError("valgrind was not found: install Debian's package valgrind")
    options = f"--tool=callgrind --callgrind-out-file={folder / 'counts'} --combine-dumps=no"
    file = folder / "envoy"
    file.write_text(f'#!/bin/sh\nexec {counter} {options} {process.envoy_binary()} "$@"\n')
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return file


class Counter:
    """The instructions of one such Envoy."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid = pid
        self._folder = folder

    def begin(self) -> None:
        """Count from zero."""
        self._control("--zero")

    def end(self) -> int:
        """How many since the beginning."""
        self._control("--dump")
        newest = max(self._folder.glob("counts.*"), key=lambda file: file.stat().st_mtime_ns)
        with newest.open(errors="replace") as lines:
            return next(int(line.split()[1]) for line in lines if line.startswith("summary:"))

    def _control(self, what: str) -> None:
        command = ["callgrind_control", what, str(self._pid)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.asynccontextmanager
async def counted(
    chosen: edge_keys.Arm, root: Path, replicas: Sequence[int], shown: Sequence[str]
) -> AsyncIterator[int]:
    """Process id of an arm's Envoy, once it answers."""
    envoy = counted_envoy(root)
    if chosen.name == "least":
        content = edge_arms.bare_envoy(chosen.settings.port, replicas)
        with edge_arms.running_envoy(envoy, content, root, workers=1) as pid:
            await _until_answering(chosen, shown)
            yield pid
        return
    endpoints = root / "endpoints.json"
    edge_arms.write_endpoints(endpoints, replicas)
    with (
        mock.patch.object(process, "envoy_binary", return_value=envoy),
        mock.patch.object(process, "_START_S", START_S),
    ):
        async with edge_keys.edge(chosen, root / "edge", endpoints, timeout_s=START_S) as pid:
            yield pid


async def _until_answering(chosen: edge_keys.Arm, shown: Sequence[str]) -> None:
    async with asyncio.timeout(START_S):
        while True:
            with contextlib.suppress(OSError):
                await edge_keys.ask(chosen, shown, edge_keys.CONNECTIONS)
                return
            await asyncio.sleep(0.5)


async def measure(name: str, requests: int, root: Path, keys: Path, shown: list[str]) -> int:
    """Instructions a request."""
    root.mkdir()  # noqa: ASYNC240
    async with contextlib.AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(edge_keys.replica()) for _ in range(2)]
        chosen = arm(name, keys)
        pid = await stack.enter_async_context(counted(chosen, root, replicas, shown))
        counter = Counter(pid, root)
        await edge_keys.ask(chosen, shown, WARM_REQUESTS)
        counter.begin()
        await asyncio.sleep(ALONE_S)
        alone_per_s = counter.end() / ALONE_S
        counter.begin()
        since_s = time.monotonic()
        await edge_keys.ask(chosen, shown, requests)
        took_s = time.monotonic() - since_s
        return round((counter.end() - alone_per_s * took_s) / requests)


async def measure_all(arms: Sequence[str], requests: int, root: Path) -> dict[str, int]:
    """Each arm in turn."""
    issued = {n: edge_keys.issue(root / n, ended=n == "ended") for n in ("good", "ended", "rates")}
    _issue_rates(root / "rates")
    found = {}
    for name in arms:
        which = name if name in issued else "good"
        keys, shown = root / which / "keys", issued[which]
        found[name] = await measure(name, requests, root / f"arm-{name}", keys, shown)
        print(f"{name:11} {found[name]} instructions a request", flush=True)
    return found


def _issue_rates(root: Path) -> None:
    for rate_rps in range(1, 10):
        terms = Terms(name="r", scopes=(Scope.CALL,), rate_rps=rate_rps, lifetime_s=86_400)
        KeyStore.of(root).issue(terms, time.time())


def main() -> None:
    """Parses, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--arms", default=",".join(ARMS), help="of " + ", ".join(ARMS))
    given = parser.parse_args()
    on = machine.describe()
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(measure_all(given.arms.split(","), given.requests, Path(folder)))
    result: dict[str, Any] = {**on, "requests": given.requests, "instructions": found}
    if "least" in found:
        result["vs_least"] = {n: round(v / found["least"], 3) for n, v in found.items()}
    print(machine.result(result))


if __name__ == "__main__":
    main()
