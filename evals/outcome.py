"""What one model answered on one suite, example by example.

Outcomes are kept per example because gates are paired: they count sentences that changed sides,
not means. A score that is missing is None and means "no decision"; it is never counted as wrong.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

FORMAT = "liftlock/outcomes/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One answer. `score` is 1.0 right, 0.0 wrong, None missing (the engine gave no answer)."""

    example_id: str
    output: str
    score: float | None
    finish_reason: str


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
        """The stored form."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, ensure_ascii=False)

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
            outcomes = tuple(Outcome(**item) for item in raw.pop("outcomes"))
            return cls(**raw, outcomes=outcomes)
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"not a liftlock outcomes document: {exc!r}") from exc
