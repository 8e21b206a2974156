"""CPU of a front end before and after a change: the same arm as several commits have it.

    python -m benchmarks.replica_steps REV [REV …] [--arm still-1] [--repeats 6] [--seconds 8]

Each revision is checked out into a folder of its own; each repetition measures all of them in turn,
in an order that alternates, and ratios to the first are taken within a repetition. `still-N` is the
front end alone, over an engine that costs no CPU; `ours-N` has the real engine behind it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks import machine
from benchmarks.replica import ROOT, Measured, measure, ratio


@contextlib.contextmanager
def checked_out(revisions: list[str]) -> Iterator[dict[str, Path]]:
    """A folder for each revision; gone afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        found = {}
        for number, revision in enumerate(revisions):
            path = Path(folder, str(number))
            subprocess.run(["git", "clone", "-q", str(ROOT), str(path)], check=True)
            subprocess.run(["git", "checkout", "-q", revision], cwd=path, check=True)
            found[revision] = path
        yield found


def main() -> None:
    """Parses, measures, prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revisions", nargs="+")
    parser.add_argument("--arm", default="still-1")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--callers", type=int, default=64)
    parser.add_argument(
        "--checkpoint", type=Path, default=ROOT / "examples" / "checkpoints" / "tiny-gec-1"
    )
    args = parser.parse_args()
    args.rate, args.wrk = 0.0, None
    described = machine.describe()
    runs: dict[str, list[Measured]] = {revision: [] for revision in args.revisions}
    with checked_out(args.revisions) as folders:
        for repeat in range(args.repeats):
            for revision in args.revisions[:: 1 if repeat % 2 == 0 else -1]:
                found = measure(args.arm, args, folders[revision])
                runs[revision].append(found)
                print(f"repeat {repeat} {revision}: {json.dumps(found)}", flush=True)
    first = args.revisions[0]
    cpu = {rev: [run["cpu_ms_all"] for run in each] for rev, each in runs.items()}
    figures = {
        "arm": args.arm,
        "cpu_ms": {rev: round(statistics.fmean(each), 3) for rev, each in cpu.items()},
        "over_first": {rev: ratio(each, cpu[first]) for rev, each in cpu.items() if rev != first},
        "subjects": {rev: _subject(rev) for rev in args.revisions},
        "machine": described,
    }
    print(machine.result(figures))


def _subject(revision: str) -> str:
    command = ["git", "log", "-1", "--format=%s", revision]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


if __name__ == "__main__":
    main()
