"""Examples of two models side by side: the whole table, and the ones worth reading first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evals.outcome import Outcome, Outcomes
from evals.suite import Example, Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """An example the candidate gets wrong: with a champion, one that the champion gets right."""

    example: Example
    candidate: Outcome
    champion: Outcome | None


def per_example_table(
    suite: Suite, candidate: Outcomes, champion: Outcomes | None
) -> dict[str, list[Any]]:
    """Columns of equal length, one row per example in suite order.

    The champion's columns are there only if there is a champion. Scores are 1.0, 0.0 or None.
    """
    table: dict[str, list[Any]] = {
        "id": [example.id for example in suite.examples],
        "tags": [", ".join(example.tags) for example in suite.examples],
        "source": [example.source for example in suite.examples],
        "references": [" | ".join(example.references) for example in suite.examples],
        **_columns("candidate", candidate),
    }
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
