"""Do our scorers give the scores that others published for the same texts?

    python -m benchmarks.scorers --data-dir DIR     # or LIFTLOCK_DATA_DIR

Prints every known score beside ours, in percent, and `absent` for data that is not in the data
directory. ERRANT is computed where the extra `errant` is installed; it takes minutes.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import golden_scores, machine
from benchmarks.golden_scores import Golden
from evals import m2
from evals.converters.m2 import corrected
from evals.metrics import errant_english, gleu, maxmatch
from evals.metrics.maxmatch import Counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table, in percent; `computed` is None where the data is absent."""

    scorer: str
    label: str
    published: float | None
    released: float | None
    computed: float | None
    remark: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Computed:
    """A score in percent, and what else is worth printing about it."""

    score: float
    remark: str


def lines(path: Path) -> Sequence[str]:
    """One sentence a line."""
    return path.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def score_gleu(root: Path, golden: Golden) -> Computed:
    """As the released script; the remark is the metric's own, deterministic value."""
    stem = root / golden.gold
    references = zip(*(lines(Path(f"{stem}.ref{k}")) for k in range(4)), strict=True)
    sources, outputs = lines(Path(f"{stem}.src")), lines(root / golden.output)
    statistics = list(map(gleu.sentence, sources, outputs, references))
    mean = float(gleu.score(np.array(statistics, dtype=np.float64).mean(axis=1).sum(axis=0)))
    return Computed(score=100 * gleu.released(statistics), remark=f"mean {100 * mean:.3f}")


def score_references(root: Path, golden: Golden) -> Computed:
    """Each of four references against the other three."""
    stem = root / golden.gold
    sources = lines(Path(f"{stem}.src"))
    columns = [lines(Path(f"{stem}.ref{k}")) for k in range(4)]
    scores = []
    for k, outputs in enumerate(columns):
        others = zip(*(columns[:k] + columns[k + 1 :]), strict=True)
        scores.append(100 * gleu.released(list(map(gleu.sentence, sources, outputs, others))))
    return Computed(score=sum(scores) / 4, remark=" ".join(f"{one:.2f}" for one in scores))


def score_maxmatch(root: Path, golden: Golden) -> Computed:
    """As the released scorer; the remark is the metric's value, and how long both took."""
    sentences, outputs = m2.read(root / golden.gold), lines(root / golden.output)
    started = time.process_time()
    choices = [
        maxmatch.count(" ".join(sentence.tokens), output, sentence.annotations.values())
        for sentence, output in zip(sentences, outputs, strict=True)
    ]
    seconds = time.process_time() - started
    alone = sum(map(maxmatch.kindest, choices), start=maxmatch.NOTHING)
    remark = f"metric {100 * alone.f:.2f}; {len(sentences)} sentences in {seconds:.1f} s of CPU"
    return _computed(maxmatch.released(choices), remark)


def score_errant(root: Path, golden: Golden) -> Computed:
    """As errant_compare: spans and corrections, one annotator."""
    sentences, outputs = m2.read(root / golden.gold), lines(root / golden.output)
    found, started = maxmatch.NOTHING, time.process_time()
    for sentence, output in zip(sentences, outputs, strict=True):
        (edits,) = sentence.annotations.values()
        proposed = errant_english.edits(" ".join(sentence.tokens), output)
        found = sum(errant_english.compare(proposed, edits).values(), start=found)
    seconds = time.process_time() - started
    return _computed(found, f"{len(sentences)} sentences in {seconds:.0f} s of CPU")


def score_self(root: Path, golden: Golden) -> Computed:
    """Every annotator's reference against that annotator's edits."""
    choices = [
        maxmatch.count(" ".join(sentence.tokens), corrected(sentence.tokens, edits), [edits])
        for sentence in m2.read(root / golden.gold)
        for edits in sentence.annotations.values()
    ]
    alone = sum(map(maxmatch.kindest, choices), start=maxmatch.NOTHING)
    return _computed(maxmatch.released(choices), f"metric {100 * alone.f:.2f}")


def _computed(counts: Counts, remark: str) -> Computed:
    precision, recall = counts.correct / counts.proposed, counts.correct / counts.gold
    return Computed(
        score=100 * counts.f, remark=f"P {100 * precision:.2f} R {100 * recall:.2f}; {remark}"
    )


def rows(root: Path) -> Iterator[Row]:
    """Everything that can be computed from the data directory, and what cannot."""
    for scorer, known, score in (
        ("gleu", golden_scores.GLEU, score_gleu),
        ("gleu", golden_scores.GLEU_REFERENCES, score_references),
        ("maxmatch", golden_scores.MAXMATCH, score_maxmatch),
        ("errant", golden_scores.ERRANT, score_errant),
        ("self", golden_scores.SELF, score_self),
    ):
        for golden in known:
            yield _row(scorer, golden, root, score)


def _row(scorer: str, golden: Golden, root: Path, score: Callable[[Path, Golden], Computed]) -> Row:
    found = Computed(score=float("nan"), remark="absent")
    if scorer == "errant" and importlib.util.find_spec("errant") is None:
        found = Computed(score=float("nan"), remark="absent: the extra errant is not installed")
    elif (root / golden.output).exists():
        found = score(root, golden)
    return Row(
        scorer=scorer,
        label=golden.label,
        published=golden.published,
        released=golden.released,
        computed=None if np.isnan(found.score) else found.score,
        remark=found.remark,
    )


def show(row: Row) -> str:
    """A line of the table."""
    known = "".join(
        f"{'-' if one is None else format(one, '.3f'):>10}"
        for one in (row.published, row.released, row.computed)
    )
    return f"{row.scorer:9} {row.label:45} {known}  {row.remark}"


def summary(found: Sequence[Row]) -> dict[str, object]:
    """The figures of the RESULT line, in points."""
    there = [row for row in found if row.computed is not None]
    own = [row.computed for row in there if row.scorer == "self" and row.computed is not None]
    return {
        "benchmark": "scorers",
        "max_abs_error": _worst(_errors(there, lambda row: row.published)),
        "max_abs_error_to_released_scorers": _worst(_errors(there, lambda row: row.released)),
        "max_abs_error_by_scorer": {
            scorer: _worst(_errors((r for r in there if r.scorer == scorer), lambda r: r.published))
            for scorer in ("gleu", "maxmatch", "errant")
        },
        "min_score_of_references": round(min(own), 2) if own else None,
        "absent": len(found) - len(there),
        "computed": len(there),
    }


def _errors(found: Iterable[Row], known: Callable[[Row], float | None]) -> Iterator[float]:
    for row in found:
        value = known(row)
        if value is not None and row.computed is not None:
            yield abs(row.computed - value)


def _worst(errors: Iterable[float]) -> float | None:
    worst = max(errors, default=None)
    return None if worst is None else round(worst, 3)


def main() -> None:
    """Computes and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("LIFTLOCK_DATA_DIR"))
    root = parser.parse_args().data_dir
    if root is None:
        parser.error("name the data directory: --data-dir or LIFTLOCK_DATA_DIR")
    about = machine.describe()
    head = "".join(f"{name:>10}" for name in ("published", "released", "computed"))
    print(f"{'scorer':9} {'data':45} {head}  remark")
    found = []
    for row in rows(Path(root)):
        found.append(row)
        print(show(row), flush=True)
    print(machine.result({**summary(found), **about}))


if __name__ == "__main__":
    main()
