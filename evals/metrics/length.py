"""How long outputs are beside their sources: a tripwire for models that cut off or chatter."""

from __future__ import annotations

from dataclasses import dataclass

from evals.metrics import metric, text
from evals.suite import Example


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthRatio:
    """Characters of all outputs per character of all sources; 1 for a copy, and not bounded by 1.

    Neither direction is better, so no gate should lean on it alone.
    """

    name: str = "length_ratio"
    higher_is_better: bool = False
    is_rate: bool = False

    def statistics(self, example: Example, output: str) -> tuple[float, ...]:
        return (float(len(text.normalize(output))), float(len(text.normalize(example.source))))

    def value(self, totals: metric.Floats) -> metric.Floats | float:
        return metric.ratio(totals[..., 0], totals[..., 1], empty=float("nan"))
