"""The noise floor: how much one and the same model differs from itself.

Greedy decoding is not quite deterministic, since batching changes the order of additions. A
candidate that differs from its champion no more than the champion from itself is the champion, and
no margin below that noise can be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals import comparison, errors, metrics
from evals.outcome import Outcomes
from evals.stats.interval import Interval

ALPHA = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """Two runs of one model on one suite."""

    suite: str
    n: int
    differing: int
    """Outputs that are not the same text."""
    flips: int
    """Answers that are right in one run and wrong in the other."""
    interval: Interval
    """Of the share of differing outputs, 0..1; each bound at level 5 %."""

    @property
    def sentence(self) -> str:
        """The summary in words."""
        return (
            f"{self.suite}: of {self.n:,} outputs of the same model, {self.differing:,} differ "
            f"between two runs, {100.0 * self.differing / self.n:.2g} % "
            f"[{100.0 * self.interval.lower:.2g}, {100.0 * self.interval.upper:.2g}], "
            f"and {self.flips:,} change sides"
        )


def noise_floor(first: Outcomes, second: Outcomes) -> NoiseFloor:
    """Compares two runs.

    Raises:
        EvidenceMismatch: they are not of one model on one suite, in the same order.
    """
    check_same(first, second)
    pairs = list(zip(first.outcomes, second.outcomes, strict=True))
    differing = sum(metrics.normalize(a.output) != metrics.normalize(b.output) for a, b in pairs)
    flips = sum(
        a.score is not None and b.score is not None and a.score != b.score for a, b in pairs
    )
    return NoiseFloor(
        suite=first.suite,
        n=len(pairs),
        differing=differing,
        flips=flips,
        interval=comparison.share(differing, len(pairs), ALPHA),
    )


def check_same(first: Outcomes, second: Outcomes) -> None:
    """Raises EvidenceMismatch unless these are two runs of one model on one suite."""
    ids: Sequence[list[str]] = [[o.example_id for o in run.outcomes] for run in (first, second)]
    same = (
        first.suite_digest == second.suite_digest
        and first.checkpoint_digest == second.checkpoint_digest
        and ids[0] == ids[1]
    )
    if not same or not ids[0]:
        raise errors.EvidenceMismatch(
            f"a noise floor needs two runs of one model on one suite; found {first.suite} "
            f"({len(ids[0])} examples, {first.checkpoint_digest}) and {second.suite} "
            f"({len(ids[1])} examples, {second.checkpoint_digest})"
        )
