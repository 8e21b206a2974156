"""What does the edge cost beside bare Envoy, Ray's own proxy, and Ray with HAProxy?

    scripts/wrk.sh
    python -m benchmarks.edge [--repeats 10] [--seconds 8] [--callers 64] [--replicas 2]
        [--workers 1] [--arms bare,edge,ended,ray,haproxy] [--wrk PATH]

Five arms forward the same requests to the same trivial app: Envoy with the least configuration that
balances by two choices; liftlock's edge with everything on; the same with a key revoked, which is a
filter more; Ray Serve's default proxy; Ray Serve's HAProxy mode with all that makes it fast. Every
repetition starts each arm in turn, every second one in the opposite order, so that drift of the
machine meets all; ratios are taken within a repetition and given with a 95 % interval over them.

1. Closed loop by wrk: requests/s, latency, and CPU milliseconds a request of each process between
   caller and replica. The edge's are Envoy and the service that steers it; Ray's its proxy, or
   HAProxy and its manager. Replicas and load generator are not counted.
2. Open loop at 30 % of what the arm just carried: the median latency through it, minus the median
   of the same load on the replicas themselves. Four slices (replicas, arm, arm, replicas) keep a
   steady drift out.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
from scipy import stats

from benchmarks import edge_app, edge_arms, machine, replica, wrk
from serving import errors

Measured = dict[str, Any]
LOAD = 0.3
"""Of the capacity; what an edge is asked to add little latency at."""
OPEN_CALLERS = 32
OPEN_LOOP = ("bare", "edge")
BODY = json.dumps(
    {"model": edge_arms.MODEL, "prompt": "Correct: She go to school every days.\nFixed:",
     "max_tokens": 50, "temperature": 0.0}
).encode()  # fmt: skip


def measure(arm: str, site: edge_arms.Site, args: argparse.Namespace) -> Measured:
    """One arm, once."""
    with (
        tempfile.TemporaryDirectory() as home,
        edge_arms.running(arm, site, Path(home)) as found,
    ):
        closed = _closed_loop(found, site.everything(arm).headers, args)
        if arm not in OPEN_LOOP:
            return closed
        return {**closed, **_added(found, site, args, closed["rps"] * LOAD)}


def _closed_loop(
    found: edge_arms.Running, headers: Mapping[str, str], args: argparse.Namespace
) -> Measured:
    def ask(seconds: float) -> Measured:
        return wrk.run(
            args.wrk, found.url + edge_app.PATH, BODY, headers,
            callers=args.callers, seconds=seconds,
        )  # fmt: skip

    ask(args.seconds / 4)  # warm
    before = _cpu_s(found)
    seen = ask(args.seconds)
    after = _cpu_s(found)
    by_process = {name: 1000 * (after[name] - before[name]) / seen["requests"] for name in before}
    return {
        **seen,
        "cpu_ms": {name: round(value, 4) for name, value in by_process.items()},
        "cpu_ms_all": round(sum(by_process.values()), 4),
    }


def _cpu_s(found: edge_arms.Running) -> dict[str, float]:
    times = {name: psutil.Process(pid).cpu_times() for name, pid in found.processes.items()}
    return {name: spent.user + spent.system for name, spent in times.items()}


def _added(
    found: edge_arms.Running, site: edge_arms.Site, args: argparse.Namespace, rate_rps: float
) -> Measured:
    """Medians through the arm and on the replicas, for the same schedule of requests."""
    replicas = ",".join(f"http://127.0.0.1:{port}" for port in site.replicas)
    slices = (replicas, found.url, found.url, replicas)
    first, second, third, fourth = (_median_ms(url, site, args, rate_rps) for url in slices)
    direct, through = (first + fourth) / 2, (second + third) / 2
    return {
        "open_rps": round(rate_rps, 1),
        "direct_p50_ms": round(direct, 3),
        "through_p50_ms": round(through, 3),
        "added_ms": round(through - direct, 3),
    }


def _median_ms(url: str, site: edge_arms.Site, args: argparse.Namespace, rate_rps: float) -> float:
    command = [
        *(sys.executable, "-m", "benchmarks.replica_load", "--url", url),
        *("--model", edge_arms.MODEL, "--rate", str(rate_rps), "--callers", str(OPEN_CALLERS)),
        *("--seconds", str(args.seconds / 2), "--uvloop"),
        *(f"--header={name}: {value}" for name, value in site.edge.headers.items()),
    ]
    ran = subprocess.run(command, cwd=edge_arms.ROOT, check=True, capture_output=True, text=True)
    found: Measured = json.loads(ran.stdout)
    if set(found["codes"]) != {"200"}:
        raise RuntimeError(f"answers other than 200 from {url}: {found['codes']}")
    return float(found["p50_ms"])


def figures(runs: dict[str, list[Measured]]) -> Measured:
    """The keys of the last line; what could not be measured is null, and `missing` says why."""
    compared = {
        "cpu_vs_bare_envoy": replica.compare(runs, "edge", "bare", "cpu_ms_all"),
        "vs_ray_proxy": replica.compare(runs, "edge", "ray", "rps"),
        "vs_ray_haproxy": replica.compare(runs, "edge", "haproxy", "rps"),
        "cpu_vs_bare_envoy_with_ended_key": replica.compare(runs, "ended", "bare", "cpu_ms_all"),
        "cpu_vs_ray_proxy": replica.compare(runs, "edge", "ray", "cpu_ms_all"),
        "cpu_vs_ray_haproxy": replica.compare(runs, "edge", "haproxy", "cpu_ms_all"),
    }
    added = interval([run["added_ms"] for run in runs.get("edge", [])])
    own = interval([run["cpu_ms_all"] for run in runs.get("edge", [])])
    return {
        **{name: found and found["ratio"] for name, found in compared.items()},
        "median_added_ms": added and added["mean"],
        "edge_cpu_ms": own and own["mean"],
        "intervals": {**compared, "median_added_ms": added, "edge_cpu_ms": own},
        **{key: _means(runs, key) for key in ("rps", "p50_ms", "p99_ms", "cpu_ms_all")},
        "cpu_ms_by_process": {arm: each[-1]["cpu_ms"] for arm, each in runs.items()},
    }


def interval(values: Sequence[float]) -> Measured | None:
    """The mean and its 95 % interval (Student's t); None without values."""
    if not values:
        return None
    mean, count = statistics.fmean(values), len(values)
    found: Measured = {"mean": round(mean, 4), "low": None, "high": None, "count": count}
    if count > 1:
        half = stats.t.ppf(0.975, count - 1) * statistics.stdev(values) / math.sqrt(count)
        found["low"], found["high"] = round(mean - half, 4), round(mean + half, 4)
    return found


def _means(runs: dict[str, list[Measured]], key: str) -> dict[str, float]:
    return {arm: round(statistics.fmean(run[key] for run in each), 4) for arm, each in runs.items()}


def repeat(
    site: edge_arms.Site, args: argparse.Namespace, missing: dict[str, str]
) -> dict[str, list[Measured]]:
    """All repetitions; an arm that fails once is left out from then on, and `missing` says why."""
    runs: dict[str, list[Measured]] = {}
    for number in range(args.repeats):
        order = edge_arms.ARMS if number % 2 == 0 else edge_arms.ARMS[::-1]
        for arm in (arm for arm in order if arm not in missing):
            try:
                found = measure(arm, site, args)
            except (RuntimeError, errors.ServingError, OSError, subprocess.SubprocessError,
                    psutil.NoSuchProcess) as exc:  # fmt: skip
                missing[arm] = str(exc)
                runs.pop(arm, None)
                print(f"{arm}: {exc}", flush=True)
                continue
            runs.setdefault(arm, []).append(found)
            print(f"repeat {number} {arm}: {json.dumps(found)}", flush=True)
    return runs


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--workers", type=int, default=1, help="threads of Envoy and of HAProxy")
    parser.add_argument("--arms", default=",".join(edge_arms.ARMS))
    parser.add_argument("--wrk", type=Path, help="the load generator; see scripts/wrk.sh")
    return parser


def main() -> None:
    """Parses, measures, prints."""
    parser = options()
    args = parser.parse_args()
    asked = [arm for arm in args.arms.split(",") if arm]
    if unknown := set(asked) - set(edge_arms.ARMS):
        parser.error(f"unknown arms {sorted(unknown)}; there are {', '.join(edge_arms.ARMS)}")
    try:
        args.wrk = wrk.binary(args.wrk)
    except FileNotFoundError as exc:
        parser.error(str(exc))
    described = machine.describe()
    missing = {arm: "not asked for" for arm in edge_arms.ARMS if arm not in asked}
    with (
        tempfile.TemporaryDirectory() as home,
        edge_arms.replicas(args.replicas) as ports,
    ):
        everything, ended = (
            edge_arms.everything_on(Path(home, name), ended=name == "ended")
            for name in ("edge", "ended")
        )
        site = edge_arms.Site(replicas=ports, workers=args.workers, edge=everything, ended=ended)
        runs = repeat(site, args, missing)
    given = {name: getattr(args, name) for name in ("seconds", "callers", "replicas", "workers")}
    print(
        machine.result(
            {"benchmark": "edge", **figures(runs), "on": everything.on, "settings": given,
             "missing": missing, "machine": described}
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
