"""Callers in processes of their own, so that a test can count tens of thousands of requests.

Each process says that it has begun, and goes on until it has made its share of the requests and its
standard input has ended; then it prints what came back. `raw` callers send each request once and
retry nothing. `sdk` callers are `serving.client` with its defaults, which sends a correction again
where that is safe.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from asyncio import subprocess
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from serving import client
from tests.serving.edge import load

ROOT = Path(__file__).parents[3]
PROCESSES = 2
LONGEST_S = 160.0
"""A test that does not get its requests through in this time has failed."""


@dataclass
class Outcome:
    """What the callers of all processes got together; filled when the `async with` ends."""

    requests: int = 0
    seconds: float = 0.0
    ports: Counter[str] = field(default_factory=Counter)
    """Good answers by replica."""
    latency_s: Counter[str] = field(default_factory=Counter)
    """Time that they took, together, by replica."""
    failures: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> int:
        return self.failures.total()

    def add(self, said: dict[str, object]) -> None:
        self.requests += said["requests"]  # type: ignore[operator]
        self.seconds = max(self.seconds, said["seconds"])  # type: ignore[call-overload]
        for name in ("ports", "latency_s", "failures"):
            getattr(self, name).update(said[name])


@asynccontextmanager
async def calling(
    url: str, *, requests: int, kind: str = "raw", callers: int = 16
) -> AsyncIterator[Outcome]:
    """Callers for the body, once all have begun; afterwards at least `requests` were made.
    `callers` is per process."""
    outcome = Outcome()
    command = (
        *(sys.executable, "-m", __name__, "--url", url, "--kind", kind),
        *("--callers", str(callers), "--requests", str(-(-requests // PROCESSES))),
    )
    processes = [
        await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(PROCESSES)
    ]
    try:
        async with asyncio.timeout(60):
            for process in processes:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"calling\n"
        yield outcome
        async with asyncio.timeout(LONGEST_S + 30):
            said = await asyncio.gather(*(process.communicate(b"") for process in processes))
        for out, _ in said:
            outcome.add(json.loads(out))
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()


class SdkLoad:
    """`callers` tasks that correct a text by the SDK, again and again; surface of load.Load."""

    def __init__(self, url: str, callers: int) -> None:
        self._url = url
        self._callers = callers
        self._stop = False
        self.versions: Counter[int] = Counter()
        self.ports: Counter[int] = Counter()
        self.seconds: Counter[int] = Counter()
        self.failures: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> SdkLoad:
        self._client = client.AsyncClient(self._url)
        self._tasks = [asyncio.create_task(self._call()) for _ in range(self._callers)]
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._stop = True
        await asyncio.gather(*self._tasks)
        await self._client.close()

    async def _call(self) -> None:
        while not self._stop:
            try:
                correction = await self._client.correct("a")
            except client.ClientError as exc:
                self.failures.append(f"{type(exc).__name__}: {exc}")
            else:
                self.versions[correction.version] += 1


async def run(url: str, kind: str, callers: int, requests: int) -> dict[str, object]:
    """One process: call until both conditions hold, then say what came back."""
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    told = asyncio.create_task(reader.read())
    started_s = time.monotonic()
    made = SdkLoad(url, callers) if kind == "sdk" else load.Load(url, callers)
    async with made:
        print("calling", flush=True)
        while time.monotonic() - started_s < LONGEST_S:
            if told.done() and made.versions.total() + len(made.failures) >= requests:
                break
            await asyncio.sleep(0.05)
    return {
        "requests": made.versions.total() + len(made.failures),
        "seconds": time.monotonic() - started_s,
        "ports": dict(made.ports),
        "latency_s": dict(made.seconds),
        "failures": Counter(failure[:200] for failure in made.failures),
    }


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--url", required=True)
    options.add_argument("--kind", choices=("raw", "sdk"), required=True)
    options.add_argument("--callers", type=int, required=True)
    options.add_argument("--requests", type=int, required=True)
    given = options.parse_args()
    print(json.dumps(asyncio.run(run(given.url, given.kind, given.callers, given.requests))))


if __name__ == "__main__":
    main()
