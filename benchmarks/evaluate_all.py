"""What do the demo checkpoint and a copy of the source score on every suite whose data is there?

    python -m benchmarks.evaluate_all --data-dir DIR

Runs `liftlock evaluate … --all` for both, on a new home folder, and prints the tables. The demo
checkpoint knows a small grammar of its own: outside of it these are the numbers of a model that
should be refused.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import machine
from jobs import evaluating

CHECKPOINT = Path(__file__).resolve().parents[1] / "examples" / "checkpoints" / "tiny-gec-1"
SUBJECTS = {"source_copy": ["--baseline", "source-copy"], "tiny_gec_1": [str(CHECKPOINT)]}


def evaluate(arguments: list[str], home: Path, data_dir: Path) -> dict[str, Any]:
    """The summary of one evaluation over all suites."""
    command = [sys.executable, "-m", "jobs", "--home", str(home), "evaluate", *arguments, "--all"]
    done = subprocess.run(
        [*command, "--data-dir", str(data_dir), "--json"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    summary: dict[str, Any] = json.loads(done.stdout)
    return {**summary, "out": "a folder of its own"}


def figures(summary: dict[str, Any]) -> dict[str, Any]:
    """A few numbers of one evaluation."""
    suites = summary["suites"]
    return {
        "suites": len(suites),
        "not_run": len(summary["unavailable"]),
        "examples": sum(of["examples"] for of in suites.values()),
        "missing": sum(of["missing"] for of in suites.values()),
        "wall_s": round(summary["wall_s"]),
        "headline": {name: round(of["metrics"][0]["value"], 4) for name, of in suites.items()},
    }


def main() -> None:
    """Evaluates both and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    data_dir = parser.parse_args().data_dir
    about, found = machine.describe(), {}
    home = Path(tempfile.mkdtemp(prefix="liftlock-bench-"))
    try:
        for name, arguments in SUBJECTS.items():
            summary = evaluate(arguments, home, data_dir)
            print("\n".join(evaluating.lines(summary)), end="\n\n", flush=True)
            found[name] = figures(summary)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    print(machine.result({"benchmark": "evaluate_all", **about, **found}))


if __name__ == "__main__":
    main()
