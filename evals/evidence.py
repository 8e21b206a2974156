"""What a gate decides from: the answers of two models to one suite, checked to belong together.

From answers come arrays: right or wrong for metrics that are rates, additive statistics for the
others. Stored statistics are used where an outcome holds them; otherwise they are made from its
text, so that outcomes of before a metric existed can still be judged by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals import errors
from evals.metrics import Metric
from evals.outcome import Outcome, Outcomes
from evals.stats.sample import Floats, Ints
from evals.suite import Example, Suite, SuiteKind

Bools = NDArray[np.bool_]

SCORED = {
    SuiteKind.CORRECTION: "exact",
    SuiteKind.SPELLING: "exact",
    SuiteKind.CLEAN: "false_positive",
    SuiteKind.MINIMAL_PAIRS: "pair_accuracy",
}
"""The metric that says of each kind what `Outcome.score` says: right or wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One suite with the answers of both models; no champion for a first version."""

    suite: Suite
    candidate: Outcomes
    champion: Outcomes | None
    across_runtimes: bool = False
    """Whether it is the software, settings or hardware that changed: only then may the two have
    been answered with different ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unavailable:
    """A suite that could not be run, and why, in words that follow its name and a colon."""

    suite: str
    reason: str


def check(compared: Compared) -> None:
    """Raises EvidenceMismatch unless the answers are to this suite and comparable."""
    _check_belongs(compared.candidate, compared.suite)
    if compared.champion is not None:
        _check_belongs(compared.champion, compared.suite)
        if not compared.across_runtimes:
            _check_comparable(compared.candidate, compared.champion)


def _check_belongs(outcomes: Outcomes, suite: Suite) -> None:
    if outcomes.suite_digest != suite.digest:
        raise errors.EvidenceMismatch(
            f"outcomes of {outcomes.checkpoint_digest} were made on suite {outcomes.suite} "
            f"{outcomes.suite_digest}, not on {suite.name} {suite.digest}; evaluate again"
        )
    answered = [outcome.example_id for outcome in outcomes.outcomes]
    if answered != [example.id for example in suite.examples]:
        raise errors.EvidenceMismatch(
            f"outcomes of {outcomes.checkpoint_digest} on suite {suite.name} hold "
            f"{len(answered)} examples that are not the suite's {len(suite.examples)} in its "
            "order; evaluate again"
        )


def _check_comparable(candidate: Outcomes, champion: Outcomes) -> None:
    if candidate.runtime_digest != champion.runtime_digest:
        raise errors.EvidenceMismatch(
            f"candidate and champion were evaluated on suite {candidate.suite} with different "
            f"software or hardware ({candidate.runtime_digest} and {champion.runtime_digest}); "
            "evaluate the champion again"
        )


def missing(outcomes: Sequence[Outcome]) -> int:
    """How many answers are not there."""
    return sum(outcome.is_missing for outcome in outcomes)


def right(outcomes: Sequence[Outcome]) -> Bools:
    """Which answers are right, as they were scored; shape (n,)."""
    return np.array([outcome.score == 1.0 for outcome in outcomes], dtype=bool)


def statistics(metric: Metric, examples: Sequence[Example], outcomes: Sequence[Outcome]) -> Floats:
    """The statistics of each answer, stored or made anew; shape (n, k)."""
    rows = [
        outcome.statistics.get(metric.name) or metric.statistics(example, outcome.output)
        for example, outcome in zip(examples, outcomes, strict=True)
    ]
    return np.array(rows, dtype=np.float64)


def worthless(metric: Metric, examples: Sequence[Example]) -> Floats:
    """The statistics of answering each example with nothing; shape (n, k)."""
    return np.array([metric.statistics(example, "") for example in examples], dtype=np.float64)


def clusters(names: Sequence[tuple[str, str | None]]) -> Ints | None:
    """Numbers for pairs of suite and cluster, shape (n,); None if each example stands for itself.

    An example without a cluster is one of its own.
    """
    keys = [(suite, name, -1 if name is not None else i) for i, (suite, name) in enumerate(names)]
    numbers: dict[tuple[str, str | None, int], int] = {}
    found = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)
    return None if len(numbers) == len(found) else found
