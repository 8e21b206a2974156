"""A quantization sweep of the demo checkpoint: its table, its layers, its pick.

    python -m benchmarks.sweep [--checkpoint DIR] [--aim throughput|memory] [--home DIR]

On a home folder and ports of its own. Prints what `liftlock quantize --sweep` prints. With --home
the folder is kept, and one that was used before goes on where it stopped.
"""

from __future__ import annotations

import argparse
import dataclasses
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from jobs import placing, progress, quantizing
from jobs.settings import Settings
from pipelines import config as configs
from pipelines import sweep
from pipelines.quantizing import Request
from pipelines.recipe import Aim
from registry import checkpoint as checkpoints
from tests.e2e.stack import CHECKPOINTS, LiveStack


def measure(checkpoint: Path, aim: Aim, home: Path) -> dict[str, Any]:
    """The sweep's figures; prints what the command prints."""
    stack = LiveStack(home=home)
    settings = Settings(home=home, mlflow_port=stack.mlflow_port, endpoint_port=stack.port)
    config = configs.load(None, model="grammar")
    config = dataclasses.replace(config, recipe=dataclasses.replace(config.recipe, aim=aim))
    request = Request(checkpoint=checkpoints.inspect(checkpoint), config=config)
    terminal = progress.Terminal()
    started = time.monotonic()
    try:
        record = placing.open_record(settings, terminal.note)
        place = placing.place(settings, config, record, terminal)
        done = sweep.sweep(request, place)
    finally:
        terminal.close()
        stack.run("serve", "--stop", timeout_s=180)
    seconds = time.monotonic() - started
    for line in quantizing.lines(done, request):
        if done.run_url not in line:  # of this run only
            print(line.replace(str(home), "HOME"))
    found = quantizing.summary(done, request)
    return {
        "aim": found["aim"],
        "seconds": round(seconds, 1),
        "stages_s": [[t.stage, round(t.seconds, 1), t.reused] for t in done.times],
        "picked": found["picked"],
        "variants": {v["name"]: _figures(v) for v in found["variants"]},
        "layer_errors": found["layer_errors"],
        "divergence_nats": found["divergence_nats"],
    }


def _figures(variant: dict[str, Any]) -> dict[str, Any]:
    pace, worst = variant["pace"], variant["worst"]
    return {
        "status": variant["status"],
        "size_bytes": variant["size_bytes"],
        "worst_points": worst and round(worst["points"], 3),
        "requests_per_s": pace and round(pace["requests_per_s"]["value"], 1),
        "busy_ms": pace and round(pace["busy_ms_per_request"]["value"], 3),
        "speedup": pace and [round(pace["speedup"][k], 3) for k in ("value", "lower", "upper")],
    }


def main() -> None:
    """Sweeps and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, default=CHECKPOINTS / "tiny-gec-1")
    parser.add_argument("--aim", choices=("throughput", "memory"), default="throughput")
    parser.add_argument("--home", type=Path, help="a folder that is kept")
    options = parser.parse_args()
    about = machine.describe()
    home = options.home or Path(tempfile.mkdtemp(prefix="liftlock-bench-"))
    try:
        figures = measure(options.checkpoint, Aim(options.aim), home.resolve())
    finally:
        if options.home is None:
            shutil.rmtree(home, ignore_errors=True)
    print(machine.result({"benchmark": "sweep", **about, **figures}))


if __name__ == "__main__":
    main()
