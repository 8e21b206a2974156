"""Where two models differ: the same answers by error type, by length, by language.

Slices are for reading, not for deciding. There are many of them and some will differ by chance;
what must not get worse in a slice belongs into the policy, as a tag or a suite.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from evals import evidence, metrics
from evals.evidence import SCORED, Compared
from evals.metrics import Metric
from evals.outcome import Outcome
from evals.suite import Example

LENGTHS = ((1, 10), (11, 20), (21, 40), (41, None))
"""Bounds of the slices by length, in words; in characters of text without spaces between words."""
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR")


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some examples of one suite, or of one language. Values are 0..1, None where undefined."""

    where: str
    """Suite, or kind of suite."""
    name: str
    metric: str
    n: int
    candidate: float | None
    champion: float | None
    won: int
    """Answers that only the candidate got right."""
    lost: int
    changed: int
    """Outputs that are another text than the champion's, right or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    example: Example
    candidate: Outcome
    champion: Outcome | None


Of = Callable[[Sequence[_Answer], Sequence[Outcome]], float | None]
"""The value of some outcomes, given with their answers."""


def whole(item: Compared) -> Slice:
    """All examples of a suite, in right answers."""
    return _slice(item.suite.name, "all", "right", (list(_answers(item)), _share))


def by_type(compared: Sequence[Compared]) -> tuple[Slice, ...]:
    """By suite and tag, in the suite's first metric."""
    return tuple(part for item in compared for part in _of_suite(item, lambda a: a.example.tags))


def by_length(compared: Sequence[Compared]) -> tuple[Slice, ...]:
    """By suite and length of the source, in the suite's first metric."""
    return tuple(part for item in compared for part in _of_suite(item, _bucket))


def by_language(compared: Sequence[Compared]) -> tuple[Slice, ...]:
    """By kind of suite and language, over all suites of that kind, in right answers."""
    groups: dict[tuple[str, str], list[_Answer]] = {}
    for item in compared:
        key = str(item.suite.kind), item.suite.language
        groups.setdefault(key, []).extend(_answers(item))
    return tuple(_slice(kind, name, "right", (a, _share)) for (kind, name), a in groups.items())


def length(text: str) -> int:
    """Words, or characters where a script has no spaces between words."""
    letters = [c for c in text if c.isalpha()]
    unspaced = sum(unicodedata.name(c, "").startswith(_UNSPACED) for c in letters)
    return len(letters) if 2 * unspaced > len(letters) else len(text.split())


def _answers(item: Compared) -> Iterator[_Answer]:
    before: Sequence[Outcome | None] = (None,) * len(item.suite.examples)
    if item.champion is not None:
        before = item.champion.outcomes
    for example, now, then in zip(
        item.suite.examples, item.candidate.outcomes, before, strict=True
    ):
        yield _Answer(example=example, candidate=now, champion=then)


def _bucket(answer: _Answer) -> tuple[str, ...]:
    size = max(length(answer.example.source), 1)
    low, high = next(pair for pair in LENGTHS if pair[1] is None or size <= pair[1])
    return (f"{low} and more" if high is None else f"{low} to {high}",)


def _of_suite(item: Compared, keys: Callable[[_Answer], Iterable[str]]) -> Iterator[Slice]:
    parts: dict[str, list[_Answer]] = {}
    for answer in _answers(item):
        for key in keys(answer):
            parts.setdefault(key, []).append(answer)
    headline = item.suite.metrics[0]
    is_scored = SCORED.get(item.suite.kind) == headline
    of = _share if is_scored else _score_of(metrics.get(headline))
    for name in sorted(parts, key=_order):
        words = "right" if is_scored else headline
        yield _slice(item.suite.name, name, words, (parts[name], of))


def _order(name: str) -> tuple[int, str]:
    """Lengths by number, tags by name."""
    first = name.split(maxsplit=1)[0]
    return (int(first), name) if first.isdecimal() else (0, name)


def _slice(where: str, name: str, metric: str, part: tuple[Sequence[_Answer], Of]) -> Slice:
    answers, of = part
    pairs = [(a.candidate, a.champion) for a in answers if a.champion is not None]
    return Slice(
        where=where,
        name=name,
        metric=metric,
        n=len(answers),
        candidate=of(answers, [a.candidate for a in answers]),
        champion=of(answers, [champion for _, champion in pairs]) if pairs else None,
        won=sum(now.score == 1.0 and then.score == 0.0 for now, then in pairs),
        lost=sum(now.score == 0.0 and then.score == 1.0 for now, then in pairs),
        changed=sum(_differ(now, then) for now, then in pairs),
    )


def _differ(one: Outcome, other: Outcome) -> bool:
    return metrics.normalize(one.output) != metrics.normalize(other.output)


def _share(_: Sequence[_Answer], outcomes: Sequence[Outcome]) -> float | None:
    scores = [outcome.score for outcome in outcomes if outcome.score is not None]
    return sum(scores) / len(scores) if scores else None


def _score_of(metric: Metric) -> Of:
    def value(answers: Sequence[_Answer], outcomes: Sequence[Outcome]) -> float | None:
        rows = evidence.statistics(metric, [a.example for a in answers], outcomes)
        found = float(metric.value(rows.sum(axis=0)))
        return found if math.isfinite(found) else None

    return value
