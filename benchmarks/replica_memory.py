"""Memory of a replica's processes over many requests: does it stay where it is once warm?

    python -m benchmarks.replica_memory [--arm ours-2] [--requests 50000] [--max-tokens 4]

Starts one replica (`ours-N`: the real engine; `still-N`: one that costs no CPU), sends requests in
closed loops, and reads the resident memory of every process of it after each tenth of them. What
counts is the growth from the second reading to the last, beside a line fitted through them: caches
fill at first and then stand still, a leak does not.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks import machine
from benchmarks.replica import ROOT, running
from benchmarks.replica_host import MODEL

STEPS = 10
LOAD_S = 5.0


def tree(pid: int) -> dict[int, str]:
    """The processes of a replica, with names that tell them apart."""
    root = psutil.Process(pid)
    return {p.pid: f"{p.name()} {p.pid}" for p in (root, *root.children(recursive=True))}


def resident_mib(pids: dict[int, str]) -> dict[str, float]:
    """Resident memory now."""
    return {name: psutil.Process(pid).memory_info().rss / 2**20 for pid, name in pids.items()}


def load(url: str, args: argparse.Namespace) -> int:
    """A few seconds of requests; how many were answered 200. Any other answer ends the run."""
    command = [sys.executable, "-m", "benchmarks.replica_load", "--url", url, "--model", MODEL,
               "--seconds", str(LOAD_S), "--callers", str(args.callers),
               "--max-tokens", str(args.max_tokens)]  # fmt: skip
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    codes = json.loads(out)["codes"]
    if set(codes) != {"200"}:
        raise RuntimeError(f"answers other than 200: {codes}")
    return int(codes["200"])


def growth(readings: list[tuple[int, dict[str, float]]]) -> dict[str, Any]:
    """By process: MiB at the second reading and the last, and the fitted MiB per 10,000."""
    kept = readings[1:]
    counts = np.array([count for count, _ in kept])
    found = {}
    for name in kept[0][1]:
        sizes = np.array([sizes[name] for _, sizes in kept])
        slope = float(np.polyfit(counts, sizes, 1)[0]) if len(kept) > 1 else None
        found[name] = {
            "first_mib": round(float(sizes[0]), 1),
            "last_mib": round(float(sizes[-1]), 1),
            "mib_per_10000": None if slope is None else round(10_000 * slope, 3),
        }
    return found


def main() -> None:
    """Parses, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--arm", default="ours-2")
    parser.add_argument("--requests", type=int, default=50_000)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--max-tokens", type=int, default=4)
    parser.add_argument(
        "--checkpoint", type=Path, default=ROOT / "examples" / "checkpoints" / "tiny-gec-1"
    )
    args = parser.parse_args()
    described = machine.describe()
    readings: list[tuple[int, dict[str, float]]] = []
    done = 0
    with running(args.arm, args.checkpoint.resolve()) as (url, processes):
        done += load(url, args)  # what is made on first use is there before it is looked at
        pids = tree(processes["replica"])
        while done < args.requests:
            if done >= len(readings) * args.requests / STEPS:
                readings.append((done, resident_mib(pids)))
                sizes = {name: round(size, 1) for name, size in readings[-1][1].items()}
                print(f"{done} requests: {json.dumps(sizes)}", flush=True)
            done += load(url, args)
        readings.append((done, resident_mib(pids)))
    by_process = growth(readings)
    total = sum(p["last_mib"] - p["first_mib"] for p in by_process.values())
    figures = {"arm": args.arm, "requests": done, "by_process": by_process,
               "growth_mib": round(total, 1), "machine": described}  # fmt: skip
    print(machine.result(figures))


if __name__ == "__main__":
    main()
