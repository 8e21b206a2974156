"""What a request costs in front of the engine: ours with 1 and 2 front ends, and two others.

    python -m benchmarks.replica [--repeats 3] [--seconds 10] [--callers 64] [--rate 0]
        [--arms ours-1,ours-2,vllm,ray] [--checkpoint examples/checkpoints/tiny-gec-1]

Same model, same engine settings, same load generator: wrk (`scripts/wrk.sh`), or with `--rate`, in
open loop, our own. Each repetition starts every arm in turn,
measures and stops it, so that drift of the machine meets all of them; ratios are taken within a
repetition and given with a 95 % interval over repetitions. CPU is what the operating system counts
for each process, engine processes left out. How far two front ends carry is measured against an
engine that costs no CPU, since on few cores the real one eats them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
from scipy import stats

from benchmarks import machine, wrk
from benchmarks.replica_host import ENGINE, MODEL
from tests.conftest import free_port

ROOT = Path(__file__).resolve().parent.parent
READY_S = 600.0
ARMS = ("ours-1", "ours-2", "vllm", "ray")
STILL_CALLERS = 256
"""Enough that the front ends are what is full, not the time the still engine takes."""
THREADS = {"OMP_NUM_THREADS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
"""The same for every arm, and what a replica of one CPU has under Ray. Engine threads on every
core would spin while a front end works there, and the arms would differ by how they are placed."""
BODY = json.dumps(
    {"model": MODEL, "prompt": "Correct: She go to school every days.\nFixed:", "max_tokens": 50,
     "temperature": 0.0}
).encode()  # fmt: skip
Measured = dict[str, Any]


@contextlib.contextmanager
def running(arm: str, checkpoint: Path, root: Path = ROOT) -> Iterator[tuple[str, dict[str, int]]]:
    """The address of an arm and its processes in front of the engine, by name.

    The code that runs is that of `root`.
    """
    port = free_port()
    command = [sys.executable, "-m", *_module(arm, checkpoint, port)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, cwd=root, env={**os.environ, **THREADS}, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        try:
            if arm == "vllm":
                url = f"http://127.0.0.1:{port}"
                _until_answering(url, process, log)
                yield url, {"api server": process.pid}
            else:
                where = _until_ready(process, log)
                yield where["url"], where["processes"]
        finally:
            _stop(process)


def _module(arm: str, checkpoint: Path, port: int) -> list[str]:
    kind, _, number = arm.rpartition("-")
    if kind in ("ours", "still"):
        still = ["--still"] if kind == "still" else []
        return ["benchmarks.replica_host", "--checkpoint", str(checkpoint),
                "--front-ends", number, *still]  # fmt: skip
    if arm == "ray":
        return ["benchmarks.replica_ray", "--checkpoint", str(checkpoint), "--port", str(port)]
    kwargs = ENGINE.engine_kwargs(str(checkpoint))
    return [
        "vllm.entrypoints.openai.api_server", "--model", str(checkpoint), "--port", str(port),
        "--host", "127.0.0.1", "--served-model-name", MODEL, "--dtype", kwargs["dtype"],
        "--max-model-len", str(kwargs["max_model_len"]), "--max-num-seqs",
        str(kwargs["max_num_seqs"]), "--enforce-eager", "--kv-cache-memory-bytes",
        str(kwargs["kv_cache_memory_bytes"]), "--disable-log-stats",
        "--disable-uvicorn-access-log",
    ]  # fmt: skip


def _until_ready(process: subprocess.Popen[str], log: Any) -> dict[str, Any]:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("READY "):
            where: dict[str, Any] = json.loads(line.removeprefix("READY "))
            return where
    raise RuntimeError(f"it did not come up: {_tail(log)}")


def _until_answering(url: str, process: subprocess.Popen[str], log: Any) -> None:
    give_up_s = time.monotonic() + READY_S
    while time.monotonic() < give_up_s and process.poll() is None:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/health", trust_env=False).status_code == httpx.codes.OK:
                return
        time.sleep(0.5)
    raise RuntimeError(f"it did not come up: {_tail(log)}")


def _tail(log: Any) -> str:
    log.seek(0)
    return " / ".join(log.read().strip().splitlines()[-3:])[-400:]


def _stop(process: subprocess.Popen[str]) -> None:
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    assert process.stdin is not None
    process.stdin.close()
    if "vllm.entrypoints.openai.api_server" in process.args:
        process.terminate()
    try:
        process.wait(60.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for child in family:  # of ours alone; an orphan would distort what comes next
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()


def _cpu_s(processes: dict[str, int]) -> dict[str, float]:
    found = {}
    for name, pid in processes.items():
        times = psutil.Process(pid).cpu_times()
        found[name] = times.user + times.system
    return found


def measure(arm: str, args: argparse.Namespace, root: Path = ROOT) -> Measured:
    """One arm, once: requests/s, latency, CPU milliseconds per request by process."""
    with running(arm, args.checkpoint, root) as (url, processes):
        callers = STILL_CALLERS if arm.startswith("still") else args.callers
        _load(url, args, callers, max(1.0, args.seconds / 4))  # warm
        before = _cpu_s(processes)
        found = _load(url, args, callers, args.seconds)
        after = _cpu_s(processes)
        found["rss_mib"] = {
            name: psutil.Process(pid).memory_info().rss >> 20 for name, pid in processes.items()
        }
    count = found["requests"]
    by_process = {name: 1000 * (after[name] - before[name]) / count for name in before}
    found["cpu_ms"] = {name: round(value, 3) for name, value in by_process.items()}
    found["cpu_ms_all"] = round(sum(by_process.values()), 3)
    return found


def _load(url: str, args: argparse.Namespace, callers: int, seconds: float) -> Measured:
    if args.wrk is not None and not args.rate:
        headers = {"content-type": "application/json"}
        path = f"{url}/v1/completions"
        return wrk.run(args.wrk, path, BODY, headers, callers=callers, seconds=seconds)
    command = [sys.executable, "-m", "benchmarks.replica_load", "--url", url, "--model", MODEL,
               "--seconds", str(seconds), "--callers", str(callers),
               "--rate", str(args.rate)]  # fmt: skip
    out = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    found: Measured = json.loads(out)
    bad = {code: n for code, n in found["codes"].items() if code != "200"}
    if bad or not found["requests"]:
        raise RuntimeError(f"answers other than 200 from {url}: {bad or 'none at all'}")
    return found


def ratio(over: list[float], under: list[float]) -> dict[str, Any]:
    """The ratio of pairs: geometric mean, and its 95 % interval where there are several."""
    logs = [math.log(a / b) for a, b in zip(over, under, strict=True)]
    center = statistics.fmean(logs)
    found = {"ratio": round(math.exp(center), 3), "low": None, "high": None, "pairs": len(logs)}
    if len(logs) > 1:
        half = stats.t.ppf(0.975, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
        found["low"], found["high"] = (round(math.exp(center + s * half), 3) for s in (-1, 1))
    return found


def compare(runs: dict[str, list[Measured]], over: str, under: str, key: str) -> Any:
    """`ratio` of a figure of two arms; None where one of them was not measured."""
    if len(runs.get(over, [])) != len(runs.get(under, [])) or not runs.get(over):
        return None
    return ratio([r[key] for r in runs[over]], [r[key] for r in runs[under]])


def main() -> None:
    """Parses, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument(
        "--checkpoint", type=Path, default=ROOT / "examples" / "checkpoints" / "tiny-gec-1"
    )
    parser.add_argument("--wrk", type=Path, help="where it is, unless scripts/wrk.sh fetched it")
    args = parser.parse_args()
    args.wrk = wrk.binary(args.wrk)
    args.checkpoint = args.checkpoint.resolve()
    described = machine.describe()
    runs: dict[str, list[Measured]] = {}
    asked = [arm for arm in args.arms.split(",") if arm]
    if unknown := set(asked) - set(ARMS):
        parser.error(f"unknown arms {sorted(unknown)}; there are {', '.join(ARMS)}")
    missing: dict[str, str] = {arm: "not asked for" for arm in ARMS if arm not in asked}
    for repeat in range(args.repeats):
        for arm in ["still-1", "still-2", *asked]:
            if arm in missing:
                continue  # it failed before; it would again
            try:
                found = measure(arm, args)
            except (RuntimeError, subprocess.SubprocessError, psutil.NoSuchProcess) as exc:
                missing[arm] = str(exc)
                runs.pop(arm, None)
                print(f"{arm}: {exc}", flush=True)
                continue
            runs.setdefault(arm, []).append(found)
            print(f"repeat {repeat} {arm}: {json.dumps(found)}", flush=True)
    print(machine.result({**figures(runs), "missing": missing, "machine": described}))


def figures(runs: dict[str, list[Measured]]) -> dict[str, Any]:
    """The keys of the last line; what could not be measured is null, and `missing` says why."""
    return {
        "vs_ray_serve_llm": compare(runs, "ours-2", "ray", "rps"),
        "cpu_vs_vllm_server": compare(runs, "ours-1", "vllm", "cpu_ms_all"),
        "frontend_cpu_ms": {
            arm: round(statistics.fmean(r["cpu_ms_all"] for r in each), 3)
            for arm, each in runs.items()
        },
        "frontend_cpu_ms_by_process": {arm: each[-1]["cpu_ms"] for arm, each in runs.items()},
        "frontends_2_over_1": compare(runs, "still-2", "still-1", "rps"),
        "rps": {
            arm: round(statistics.fmean(r["rps"] for r in each), 1) for arm, each in runs.items()
        },
    }


if __name__ == "__main__":
    main()
