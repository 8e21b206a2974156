"""Writes the held-out suites: sentences that no demo checkpoint was trained on.

    python -m examples.tiny_gec.heldout [--out evals/suites/synthetic]

The same files come out every time. Spelling is never combined with another kind of error, so that
a model that cannot spell loses that one group and no other.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from examples.tiny_gec import examples
from examples.tiny_gec.examples import Example
from examples.tiny_gec.tokens import Label

SINGLE_PER_LABEL = 400
DOUBLE = 100
CLEAN = 1_700
DEFAULT_OUT = Path("evals/suites/synthetic")
SUITE_YAML = """\
# Written by `python -m examples.tiny_gec.heldout`; the data comes out the same every time.
name: synthetic-{name}
language: en
kind: {kind}
data: {name}.jsonl
sha256: {sha256}
license: Apache-2.0
description: >-
  {description}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """One file of examples and what its definition says about it."""

    name: str
    kind: str
    description: str
    plan: tuple[tuple[Label, ...], ...]  # the errors of each example, in file order
    group_by: str | None = None

    def examples(self) -> Iterator[Example]:
        """The examples in file order, no source twice."""
        rng = Random(f"held out {self.name}")
        seen: set[str] = set()
        for labels in self.plan:
            example = _draw_new(rng, labels, seen)
            seen.add(example.source)
            yield example

    def lines(self) -> Iterator[str]:
        """The examples as JSON lines."""
        for number, example in enumerate(self.examples()):
            record = {
                "id": f"{self.name}-{number:04d}",
                "source": example.source,
                "references": [example.target],
                "tags": list(example.labels),
            }
            yield json.dumps(record) + "\n"

    def definition(self, sha256: str) -> str:
        """The suite definition for data with this checksum."""
        text = SUITE_YAML.format(
            name=self.name, kind=self.kind, sha256=sha256, description=self.description
        )
        return text + (f"group_by: {self.group_by}\n" if self.group_by else "")


def _draw_new(rng: Random, labels: tuple[Label, ...], seen: set[str]) -> Example:
    while True:
        example = examples.draw(rng, labels)
        is_ours = examples.is_held_out(example.target) and example.target not in examples.SHOWN
        if is_ours and example.source not in seen:
            return example


def _erroneous_plan() -> Iterator[tuple[Label, ...]]:
    for _ in range(SINGLE_PER_LABEL):
        yield from ((label,) for label in Label)
    combinable = [label for label in Label if label is not Label.SPELLING]
    yield from itertools.islice(itertools.cycle(itertools.combinations(combinable, 2)), DOUBLE)


def suites() -> tuple[Suite, Suite]:
    """The erroneous and the clean suite."""
    erroneous = Suite(
        name="erroneous",
        kind="correction",
        description="Sentences of the demo grammar with one or two errors, tagged by kind.",
        plan=tuple(_erroneous_plan()),
        group_by="tags",
    )
    clean = Suite(
        name="clean",
        kind="clean",
        description="Correct sentences of the demo grammar, to be left alone.",
        plan=((),) * CLEAN,
    )
    return erroneous, clean


def write(suite: Suite, out: Path) -> Path:
    """Writes data and definition of one suite; returns the path of the data."""
    data = "".join(suite.lines()).encode()
    path = out / f"{suite.name}.jsonl"
    path.write_bytes(data)
    sha256 = hashlib.sha256(data).hexdigest()
    (out / f"{suite.name}.yaml").write_text(suite.definition(sha256), encoding="utf-8")
    return path


def main(argv: Iterable[str] | None = None) -> None:
    """Writes both suites."""
    parser = argparse.ArgumentParser(description="Write the held-out suites.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    out = parser.parse_args(argv if argv is None else list(argv)).out
    out.mkdir(parents=True, exist_ok=True)
    for suite in suites():
        print(f"{write(suite, out)}: {len(suite.plan):,} examples")


if __name__ == "__main__":
    main()
