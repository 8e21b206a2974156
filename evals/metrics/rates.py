"""Metrics that say yes or no of one example, so that exact paired tests apply.

`change_rate` and `false_positive` count the same thing, an output that differs from its source. On
sentences without an error each is damage; on others it only says how busy the model is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evals import errors
from evals.metrics import exact, metric, pairs, scripts, text
from evals.suite import Example

RUNAWAY_FACTOR = 2
RUNAWAY_SLACK_CHARACTERS = 20
"""An output longer than twice the longest accepted text and this is no correction of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The share of examples of which `holds` is true; statistics are (0 or 1, 1)."""

    name: str
    higher_is_better: bool
    holds: Callable[[Example, str], bool]
    is_rate: bool = True

    def statistics(self, example: Example, output: str) -> tuple[float, ...]:
        return (float(self.holds(example, output)), 1.0)

    def value(self, totals: metric.Floats) -> metric.Floats | float:
        return metric.ratio(totals[..., 0], totals[..., 1], empty=float("nan"))


def right(example: Example, output: str) -> bool:
    """Whether the output is one of the references."""
    if not example.references:
        raise errors.SuiteInvalid(
            f"example {example.id!r} has no reference, which exact compares with; "
            "use another metric for this suite"
        )
    return exact.exact_match(output, example.references)


def changed(example: Example, output: str) -> bool:
    """Whether the output differs from the source."""
    return not exact.left_alone(output, example.source)


def runaway(example: Example, output: str) -> bool:
    """Whether the output is blank though no accepted text is, or far longer than all of them."""
    accepted = [len(text.normalize(one)) for one in (example.source, *example.references)]
    length = len(text.normalize(output))
    too_long = length > RUNAWAY_FACTOR * max(accepted) + RUNAWAY_SLACK_CHARACTERS
    return too_long or (length == 0 and min(accepted) > 0)


def script_kept(example: Example, output: str) -> bool:
    """Whether the output is written in the script of the source or of a reference."""
    return scripts.kept(output, (example.source, *example.references))


EXACT = Rate(name="exact", higher_is_better=True, holds=right)
CHANGE_RATE = Rate(name="change_rate", higher_is_better=False, holds=changed)
FALSE_POSITIVE = Rate(name="false_positive", higher_is_better=False, holds=changed)
RUNAWAY = Rate(name="runaway", higher_is_better=False, holds=runaway)
SCRIPT_KEPT = Rate(name="script_kept", higher_is_better=True, holds=script_kept)
PAIR_ACCURACY = Rate(name="pair_accuracy", higher_is_better=True, holds=pairs.right)
