"""Examples of two models side by side: the whole table, and the ones worth reading first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evals import evidence, metrics
from evals.evidence import SCORED, Compared
from evals.metrics import Metric
from evals.outcome import Outcome, Outcomes
from evals.stats.sample import Floats, gradient
from evals.suite import Example, Suite, SuiteKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """An example that got worse: wrong now and right before, or one that lowers a corpus score.

    Without a champion, one that the candidate gets wrong.
    """

    example: Example
    candidate: Outcome
    champion: Outcome | None


def per_example_table(
    suite: Suite, candidate: Outcomes, champion: Outcomes | None
) -> dict[str, list[Any]]:
    """Columns of equal length, one row per example in suite order.

    The champion's columns are there only if there is a champion, and contrasts only for minimal
    pairs. Scores are 1.0, 0.0 or None.
    """
    table: dict[str, list[Any]] = {
        "id": [example.id for example in suite.examples],
        "tags": [", ".join(example.tags) for example in suite.examples],
        "source": [example.source for example in suite.examples],
        "references": [" | ".join(example.references) for example in suite.examples],
    }
    if suite.kind is SuiteKind.MINIMAL_PAIRS:
        table["contrast"] = [example.contrast for example in suite.examples]
    table |= _columns("candidate", candidate)
    if champion is not None:
        table |= _columns("champion", champion)
    return table


def _columns(prefix: str, outcomes: Outcomes) -> dict[str, list[Any]]:
    return {
        f"{prefix}_output": [outcome.output for outcome in outcomes.outcomes],
        f"{prefix}_score": [outcome.score for outcome in outcomes.outcomes],
        f"{prefix}_finish_reason": [outcome.finish_reason for outcome in outcomes.outcomes],
    }


def regressions(
    suite: Suite, candidate: Outcomes, champion: Outcomes | None
) -> tuple[Regression, ...]:
    """Every regression, in suite order."""
    before: tuple[Outcome | None, ...] = (None,) * len(suite.examples)
    if champion is not None:
        before = champion.outcomes
    return tuple(
        Regression(example=example, candidate=now, champion=then)
        for example, now, then in zip(suite.examples, candidate.outcomes, before, strict=True)
        if now.score == 0.0 and (then is None or then.score == 1.0)
    )


def worst(compared: Compared) -> tuple[Regression, ...]:
    """Regressions in the order they should be read in.

    Suite order for right and wrong; for a corpus score by how much of the difference is due to the
    example, to first order, the worst first.
    """
    item, headline = compared, compared.suite.metrics[0]
    if item.champion is None or SCORED.get(item.suite.kind) == headline:
        return regressions(item.suite, item.candidate, item.champion)
    metric = metrics.get(headline)
    after = _influence(metric, item.suite, item.candidate)
    due = after - _influence(metric, item.suite, item.champion)
    order = [int(i) for i in np.argsort(due, kind="stable") if due[i] < -1e-12]
    return tuple(
        Regression(
            example=item.suite.examples[i],
            candidate=item.candidate.outcomes[i],
            champion=item.champion.outcomes[i],
        )
        for i in order
    )


def _influence(metric: Metric, suite: Suite, outcomes: Outcomes) -> Floats:
    """What each example adds to the score, greater being better; shape (n,)."""
    rows = evidence.statistics(metric, suite.examples, outcomes.outcomes)
    slope = gradient(lambda totals: np.asarray(metric.value(totals)), rows.sum(axis=0))
    return np.asarray(rows @ slope) * (1.0 if metric.higher_is_better else -1.0)
