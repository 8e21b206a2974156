"""How much of an evaluation is the harness's own Python?

    python -m benchmarks.harness_overhead --data-dir DIR

Evaluates two suites with a model that answers at once, so that what is left is lm-eval's loop, the
journal and the metrics; and the metrics alone. The best of three, for the machine has other work.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks import machine
from evals import catalog, scoring, suite, suite_definition
from evals.harness import Evaluator, lm_task
from evals.journal import Journal, Key, Owner
from evals.model import SourceCopy
from evals.progress import Place, Progress
from evals.suite import Suite
from registry.manifest import Prompt
from tests.evals.models import StubModel

NAMES = ("jfleg-test", "blimp")
TIMES = 3


def measure(chosen: Suite, folder: Path) -> dict[str, Any]:
    """Seconds of one suite, the best of some times."""
    timed = [_once(chosen, folder / f"{chosen.name}-{number}.jsonl") for number in range(TIMES)]
    whole_s = min(whole for whole, _ in timed)
    return {
        "examples": len(chosen.examples),
        "seconds": round(whole_s, 2),
        "of_these_metrics_s": round(min(alone for _, alone in timed), 2),
        "ms_per_example": round(1000 * whole_s / len(chosen.examples), 2),
    }


def _once(chosen: Suite, path: Path) -> tuple[float, float]:
    owner = Owner(suite_digest=chosen.digest, checkpoint_digest="none", runtime_digest="none")
    evaluator = Evaluator(
        model=StubModel(),
        prompt=Prompt(template=SourceCopy.TEMPLATE),
        checkpoint_digest="none",
        runtime_digest="none",
    )
    progress = Progress(Place(name=chosen.name, number=1, of=1), lambda _: None)
    with Journal(path, owner) as journal:
        started = time.monotonic()
        evaluator.evaluate(chosen, journal, progress)
        whole_s = time.monotonic() - started
        started = time.monotonic()
        _score(chosen, journal)
        return whole_s, time.monotonic() - started


def _score(chosen: Suite, journal: Journal) -> None:
    for example in chosen.examples:
        parts = range(scoring.parts_of(chosen.kind))
        answers = [journal.answers[Key(example.id, part)] for part in parts]
        if len(answers) == 1:
            scoring.written(chosen, example, answers[0], answers[0].text)
        else:
            scoring.compared(chosen, example, answers)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, required=True)
    data_dir = parser.parse_args().data_dir
    about, found = machine.describe(), {}
    lm_task.load()
    paths = {suite_definition.read(path).name: path for path in catalog.shipped()}
    with tempfile.TemporaryDirectory(prefix="liftlock-bench-") as folder:
        for name in NAMES:
            found[name] = measure(suite.load(paths[name], data_dir=data_dir), Path(folder))
            print(f"{name}: {found[name]}")
    print(machine.result({"benchmark": "harness_overhead", **about, **found}))


if __name__ == "__main__":
    main()
