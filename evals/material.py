"""The answers of one metric on one suite, or on a family of suites, as one gate reads them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from evals import evidence, metrics
from evals.comparison import Rates
from evals.evidence import Bools, Compared
from evals.outcome import Outcome
from evals.policy import Unit
from evals.rules import Rule
from evals.stats import bootstrap
from evals.stats.sample import Ints, Scores
from evals.suite import Example, SuiteKind

T = TypeVar("T")

MIN_CLUSTERS = 20
"""Fewer cannot speak for others: with 8 unequal ones a candidate at the margin passed a gate of
level 5 % in 7 % of simulated samples, with 20 in 5 % (benchmarks/gates.py)."""
MIN_EXAMPLES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """All examples of a gate's suites, in order; a tag takes some of them."""

    suite_digests: tuple[str, ...]
    checkpoint_digests: tuple[str, ...]
    """Of candidate and champion."""
    kind: SuiteKind | None
    """None where the suites of a family have different ones."""
    tags: tuple[frozenset[str], ...]
    is_missing: Bools
    is_missing_of_champion: Bools
    has_champion: bool
    sample: Rates | Scores
    fixed_clusters: int | None = None
    """How many clusters the examples come in, where they are not what is resampled."""

    def of(self, tag: str | None, unit: Unit) -> Material:
        """The examples with a tag, or all where it is None, by the unit to be resampled.

        Bounds over few clusters are wrong more often than they may be, and none can be right; so
        below `MIN_CLUSTERS` nothing is said of other clusters.
        """
        part = self if tag is None else self._with(tag)
        clusters = part.sample.clusters
        if clusters is None:
            return part
        count = int(clusters.max()) + 1
        if unit is Unit.EXAMPLE or (unit is Unit.AUTO and count < MIN_CLUSTERS):
            apart = dataclasses.replace(part.sample, clusters=None)
            return dataclasses.replace(part, sample=apart, fixed_clusters=count)
        return part

    def _with(self, tag: str) -> Material:
        chosen = np.array([i for i, tags in enumerate(self.tags) if tag in tags], dtype=np.intp)
        champion = self.is_missing_of_champion
        return dataclasses.replace(
            self,
            tags=tuple(self.tags[i] for i in chosen),
            is_missing=self.is_missing[chosen],
            is_missing_of_champion=champion[chosen] if self.has_champion else champion,
            sample=self.sample.take(chosen),
        )

    @property
    def missing(self) -> tuple[int, int]:
        """Missing answers of candidate and champion."""
        return int(self.is_missing.sum()), int(self.is_missing_of_champion.sum())

    @property
    def suite_digest(self) -> str:
        """Of the suite, or over those of a family."""
        if len(self.suite_digests) == 1:
            return self.suite_digests[0]
        return "sha256:" + hashlib.sha256("\n".join(self.suite_digests).encode()).hexdigest()

    @property
    def wrong(self) -> Bools:
        """Which of the candidate's answers are wrong; of right-or-wrong material."""
        assert isinstance(self.sample, Rates)
        return ~self.sample.candidate

    @property
    def flipped(self) -> Bools:
        """Which answers changed sides; of right-or-wrong material with a champion."""
        assert isinstance(self.sample, Rates)
        assert self.sample.champion is not None
        return self.sample.candidate ^ self.sample.champion

    @property
    def can_be_judged(self) -> bool:
        """Whether the score has a value, and there are enough units where they are resampled."""
        scores = self.sample.scores if isinstance(self.sample, Rates) else self.sample
        units = len(scores.units())
        least = MIN_CLUSTERS if scores.clusters is not None else MIN_EXAMPLES
        is_counted = isinstance(self.sample, Rates) and scores.clusters is None
        has_value = bool(np.isfinite(scores.number(scores.rows.sum(axis=0))))
        return has_value and (is_counted or units >= least)

    def seed(self, rule: Rule) -> int:
        """The same for the same evidence and gate."""
        return bootstrap.seed_of(*self.suite_digests, *self.checkpoint_digests, rule.name)


def read(rule: Rule, compared: Sequence[Compared]) -> Material:
    """The material of every gate that has this rule's suites and metric."""
    champion = _champion(compared)
    kinds = {item.suite.kind for item in compared}
    answers = _Answers(
        examples=[example for item in compared for example in item.suite.examples],
        candidate=[outcome for item in compared for outcome in item.candidate.outcomes],
        champion=champion,
        clusters=evidence.clusters(
            [(item.suite.name, e.cluster) for item in compared for e in item.suite.examples]
        ),
    )
    return Material(
        suite_digests=tuple(item.suite.digest for item in compared),
        checkpoint_digests=tuple(_checkpoints(compared)),
        kind=kinds.pop() if len(kinds) == 1 else None,
        tags=tuple(frozenset(example.tags) for example in answers.examples),
        is_missing=_missing(answers.candidate),
        is_missing_of_champion=_missing(champion or ()),
        has_champion=champion is not None,
        sample=_sample(rule, answers),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    examples: list[Example]
    candidate: list[Outcome]
    champion: list[Outcome] | None
    clusters: Ints | None

    def both(self, of: Callable[[list[Outcome]], T]) -> tuple[T, T | None]:
        """Something of the candidate's and of the champion's answers."""
        return of(self.candidate), None if self.champion is None else of(self.champion)


def _sample(rule: Rule, answers: _Answers) -> Rates | Scores:
    if rule.is_scored:
        candidate, champion = answers.both(evidence.right)
        return Rates(candidate=candidate, champion=champion, clusters=answers.clusters)
    metric = metrics.get(rule.metric)
    rows, of_champion = answers.both(lambda o: evidence.statistics(metric, answers.examples, o))
    if metric.is_rate:
        wanted = 1.0 if rule.higher_is_better else 0.0
        return Rates(
            candidate=rows[:, 0] == wanted,
            champion=None if of_champion is None else of_champion[:, 0] == wanted,
            clusters=answers.clusters,
        )
    sign = 1.0 if rule.higher_is_better else -1.0
    return Scores(
        candidate=rows,
        champion=of_champion,
        lost=evidence.worthless(metric, answers.examples),
        value=lambda totals: sign * np.asarray(metric.value(totals)),
        clusters=answers.clusters,
    )


def _champion(compared: Sequence[Compared]) -> list[Outcome] | None:
    """The champion's answers to all suites; None if any is of a first version."""
    found: list[Outcome] = []
    for item in compared:
        if item.champion is None:
            return None
        found += item.champion.outcomes
    return found


def _missing(outcomes: Sequence[Outcome]) -> Bools:
    return np.array([outcome.is_missing for outcome in outcomes], dtype=bool)


def _checkpoints(compared: Sequence[Compared]) -> Iterator[str]:
    for item in compared:
        yield item.candidate.checkpoint_digest
        yield "none" if item.champion is None else item.champion.checkpoint_digest
