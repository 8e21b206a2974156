"""How long does the main job take, from nothing to an answering endpoint, stage by stage?

    python -m benchmarks.first_promotion

Runs `liftlock promote examples/checkpoints/tiny-gec-1` on a new home folder, all parts real, then a
second time, when every stage but the rollout is in the record.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from serving.client import Client
from tests.e2e.stack import LiveStack

TEXT = "She go to school every days."


def measure() -> dict[str, Any]:
    """Seconds of the whole command and of its stages, first and second time."""
    home = Path(tempfile.mkdtemp(prefix="liftlock-bench-"))
    stack = LiveStack(home=home)
    figures: dict[str, Any] = {}
    try:
        for name in ("first", "again"):
            started = time.monotonic()
            ran = stack.promote("tiny-gec-1")
            if ran.code != 0:
                raise SystemExit(f"promotion failed with {ran.code}: {ran.err}")
            figures[f"{name}_total_s"] = round(time.monotonic() - started, 1)
            figures[f"{name}_stages_s"] = {s["stage"]: s["seconds"] for s in ran.json()["stages"]}
            print(f"{name}: {figures[f'{name}_total_s']} s {figures[f'{name}_stages_s']}")
        with Client(stack.url) as client:
            figures["answer"] = str(client.correct(TEXT))
    finally:
        stack.run("serve", "--stop", timeout_s=180)
        shutil.rmtree(home, ignore_errors=True)
    return figures


def main() -> None:
    """Measures and prints."""
    about = machine.describe()
    print(machine.result({"benchmark": "first_promotion", **about, **measure()}))


if __name__ == "__main__":
    main()
