"""A load generator in a process of its own: keeps N requests in flight and counts every outcome.

    python -m benchmarks.load --url http://127.0.0.1:8000 --concurrency 16 --stop-file F

Ends when the stop file appears or a limit is reached, and prints one JSON object. It retries
nothing: each request that does not come back as 200 with a version is a failure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

MAX_SECONDS = 1200.0
MAX_REQUESTS = 2_000_000


@dataclass
class Tally:
    """What came back."""

    versions: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    latencies_s: list[float] = field(default_factory=list)

    @property
    def requests(self) -> int:
        return sum(self.versions.values()) + sum(self.failures.values())

    def quantile_ms(self, q: float) -> float | None:
        """A latency quantile of the good answers; None where there are none."""
        if not self.latencies_s:
            return None
        ordered = sorted(self.latencies_s)
        return round(1000 * ordered[min(len(ordered) - 1, int(q * len(ordered)))], 1)


async def ask(session: aiohttp.ClientSession, url: str, tally: Tally) -> None:
    """One request."""
    started = time.perf_counter()
    try:
        async with session.post(
            f"{url}/v1/corrections", json={"text": "She go to school every days."}
        ) as answer:
            body = await answer.read()
            version = answer.headers.get("x-liftlock-version")
            if answer.status == 200 and version and b"corrected" in body:
                tally.versions[version] += 1
                tally.latencies_s.append(time.perf_counter() - started)
            else:
                tally.failures[f"{answer.status} {body[:120]!r}"] += 1
    except (aiohttp.ClientError, TimeoutError) as exc:
        tally.failures[f"{type(exc).__name__}: {exc}"] += 1


async def run(url: str, concurrency: int, stop_file: Path) -> Tally:
    """Keeps `concurrency` requests in flight until the stop file appears."""
    tally = Tally()
    deadline = time.monotonic() + MAX_SECONDS

    async def worker(session: aiohttp.ClientSession) -> None:
        while not stopped() and tally.requests < MAX_REQUESTS:
            await ask(session, url, tally)

    def stopped() -> bool:
        return time.monotonic() > deadline or stop_file.exists()

    connector = aiohttp.TCPConnector(limit=concurrency)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        await asyncio.gather(*(worker(session) for _ in range(concurrency)))
    return tally


def main() -> None:
    """Parses, runs, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--stop-file", type=Path, required=True)
    args = parser.parse_args()
    tally = asyncio.run(run(args.url, args.concurrency, args.stop_file))
    report = {
        "requests": tally.requests,
        "failed": sum(tally.failures.values()),
        "failures": dict(tally.failures.most_common(5)),
        "by_version": dict(tally.versions),
        "p50_ms": tally.quantile_ms(0.5),
        "p99_ms": tally.quantile_ms(0.99),
    }
    print(json.dumps(report))


if __name__ == "__main__":
    main()
