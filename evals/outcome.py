"""What one model answered on one suite, example by example.

Outcomes are kept per example because gates are paired: they count sentences that changed sides,
not means. A score that is missing is None and means "no decision"; it is never counted as wrong.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

FORMAT = "liftlock/outcomes/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One answer.

    `score` is 1.0 right, 0.0 wrong, None missing (the engine gave no answer, or no answer is right
    or wrong). `statistics` are what the answer adds to the sums of each metric, by its name; any
    score, interval and slice can be computed from them without the texts.
    """

    example_id: str
    output: str
    score: float | None
    finish_reason: str
    statistics: Mapping[str, tuple[float, ...]] = field(default_factory=dict, hash=False)
    """What the example adds to the sums of each metric, by its name; empty where missing."""

    @property
    def is_missing(self) -> bool:
        """Whether there is nothing to judge; such an answer is neither right nor wrong."""
        return self.score is None and not self.statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """One model's answers to one suite, in suite order.

    The three digests say what was answered, by what, and on which software and hardware: equal
    digests mean the evaluation need not be repeated.
    """

    suite: str
    suite_digest: str
    checkpoint_digest: str
    runtime_digest: str
    outcomes: tuple[Outcome, ...]

    @property
    def missing(self) -> int:
        """How many examples have no score."""
        return sum(outcome.score is None for outcome in self.outcomes)

    @property
    def rate(self) -> float | None:
        """Mean score, 0..1; None when a score is missing or there is no example."""
        scores = [outcome.score for outcome in self.outcomes if outcome.score is not None]
        if self.missing or not scores:
            return None
        return sum(scores) / len(scores)

    def to_json(self) -> str:
        """The stored form; statistics are left out where there are none."""
        content = {"format": FORMAT, **dataclasses.asdict(self)}
        for item in content["outcomes"]:
            if not item["statistics"]:
                del item["statistics"]
        return json.dumps(content, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Outcomes:
        """Reads the stored form.

        Raises:
            ValueError: the text is not such a document.
        """
        try:
            raw: dict[str, Any] = json.loads(text)
            if raw.pop("format") != FORMAT:
                raise ValueError(f"not {FORMAT}")
            outcomes = tuple(_outcome(item) for item in raw.pop("outcomes"))
            return cls(**raw, outcomes=outcomes)
        except (KeyError, TypeError, AttributeError, RecursionError) as exc:
            raise ValueError(f"not a liftlock outcomes document: {exc!r}") from exc


def _outcome(raw: dict[str, Any]) -> Outcome:
    statistics = {name: tuple(row) for name, row in raw.pop("statistics", {}).items()}
    found = Outcome(**raw, statistics=statistics)
    texts = (found.example_id, found.output, found.finish_reason)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"example {found.example_id!r} holds what is no text")
    numbers = [] if found.score is None else [found.score]
    numbers += [number for row in statistics.values() for number in row]
    if not all(isinstance(number, int | float) and math.isfinite(number) for number in numbers):
        raise TypeError(f"example {found.example_id!r} holds what is no number")
    return found
