"""How fast models are beside each other, from turns that they took in one process.

The one idea: a busy machine slows everybody, so each round lets every model answer the same prompts
once, and what is compared is the ratio within a round. Ratios and rates are averaged as logarithms,
with Student's interval over the rounds (a ratio is as often doubled as halved by chance, and its
logarithm is symmetric). The level is shared among all models compared with one reference
(Bonferroni), so that "some model is faster" is wrong with probability at most 5 %.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

ALPHA = 0.05
LEAST_ROUNDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One model's answers to all prompts, once."""

    arm: str
    round: int
    requests: int
    wall_s: float
    busy_s: float
    """Seconds of CPU over all threads of the process, or of the GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A positive number with its interval."""

    value: float
    lower: float
    upper: float

    @property
    def is_above_one(self) -> bool:
        """Whether the whole interval is."""
        return self.lower > 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast one model is."""

    requests_per_s: Measured
    busy_ms_per_request: Measured
    speedup: Measured
    """Requests per second over those of the reference, in the same rounds."""


def paces(turns: Sequence[Turn], reference: str) -> dict[str, Pace]:
    """The pace of every model, by its name, in the order of their first turns.

    Raises:
        ValueError: there are fewer than three rounds, or somebody missed one.
    """
    arms = list(dict.fromkeys(turn.arm for turn in turns))
    by_key = {(turn.arm, turn.round): turn for turn in turns}
    rounds = sorted({turn.round for turn in turns})
    if len(rounds) < LEAST_ROUNDS:
        raise ValueError(f"an interval needs {LEAST_ROUNDS} rounds or more, got {len(rounds)}")
    if reference not in arms or len(by_key) != len(arms) * len(rounds):
        raise ValueError(f"every model must take one turn in each round, {reference} included")
    alpha = ALPHA / max(1, len(arms) - 1)
    return {
        arm: _pace([by_key[arm, n] for n in rounds], [by_key[reference, n] for n in rounds], alpha)
        for arm in arms
    }


def _pace(mine: Sequence[Turn], others: Sequence[Turn], alpha: float) -> Pace:
    rates = [turn.requests / turn.wall_s for turn in mine]
    beside = [turn.requests / turn.wall_s for turn in others]
    return Pace(
        requests_per_s=averaged(rates, alpha),
        busy_ms_per_request=averaged([1000.0 * t.busy_s / t.requests for t in mine], alpha),
        speedup=averaged([a / b for a, b in zip(rates, beside, strict=True)], alpha),
    )


def averaged(values: Sequence[float], alpha: float = ALPHA) -> Measured:
    """The geometric mean of positive numbers with Student's interval for it."""
    from scipy import special  # a tenth of a second, and only where something was measured

    logs = [math.log(value) for value in values]
    n, mean = len(logs), sum(logs) / len(logs)
    spread = math.sqrt(sum((x - mean) ** 2 for x in logs) / (n - 1) / n)
    half = float(special.stdtrit(n - 1, 1.0 - alpha / 2.0)) * spread
    return Measured(value=math.exp(mean), lower=math.exp(mean - half), upper=math.exp(mean + half))
