"""Paired bootstrap of corpus scores: bounds of a difference that can be trusted to hold a gate.

Units (examples, or whole documents where examples come in them) are drawn with replacement, the
same ones for both models, and the score is computed from their summed statistics (Koehn 2004,
"Statistical Significance Tests for Machine Translation Evaluation").

The one idea beyond that: **the unit not seen yet**. Good models differ on few examples, and a
sample that happens to hold none of the lost ones has no way to know that there are any; resampling
it says "no difference, for certain". So each bound is taken from the sample and one more unit that
goes the wrong way: as bad as the worst unit that was seen, and at least one example lost
altogether. It is the same supposition by which the exact bound of a rate with l losses in n is that
of l + 1, and for "nothing lost among n" it gives the same 3 / n. Without it a candidate at the
margin passes up to five times as often as it may; benchmarks/gates.py prints both.

Bounds are percentiles with the level adjusted for the number of units (Hesterberg 2015, "What
Teachers Should Know About the Bootstrap") and, for clusters, whose few and unequal sums are skewed,
accelerated (Efron 1987, "Better Bootstrap Confidence Intervals"). The choice is by measured
coverage: benchmarks/gates.py.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special

from evals.stats.interval import Interval
from evals.stats.sample import Floats, Scores, gradient
from evals.stats.sizing import Noise

RESAMPLES = 4_000
"""Puts the 5 % point of a resampled score within about 3 % of a standard error."""
_CELLS = 1 << 22
"""Weights held at once: 32 MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A difference of two scores, or one score, with what is known of it."""

    estimate: float
    interval: Interval
    noise: Noise
    units: int
    """How many were resampled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unseen:
    """The unit that is supposed, in the columns of `Scores.rows`, and what it takes away."""

    row: Floats
    effect: float


def seed_of(*parts: str) -> int:
    """A seed that anybody with the same evidence gets too, so that nobody can try for a better."""
    return int.from_bytes(hashlib.sha256("\n".join(parts).encode()).digest()[:8], "big")


def estimate(
    scores: Scores,
    *,
    alpha: float,
    seed: int,
    resamples: int = RESAMPLES,
    suppose_unseen: bool = True,
) -> Estimate:
    """Estimate and one-sided bounds, each at level alpha.

    `suppose_unseen` is False only where the effect of the supposition itself is measured.

    Raises:
        ValueError: fewer than two units; their spread cannot be seen.
    """
    units = scores.units()
    if len(units) < 2:
        raise ValueError(f"resampling needs at least 2 units, got {len(units)}")
    low, high = _unseen(scores, units) if suppose_unseen else _nothing(units)
    drawn = _Drawn(scores=scores, units=units, alpha=alpha, seed=seed, resamples=resamples)
    lower, upper = drawn.bounds(low.row, high.row)
    found = scores.number(units.sum(axis=0))
    return Estimate(
        estimate=float(found),
        interval=Interval(lower=min(lower, float(found)), upper=max(upper, float(found))),
        noise=_noise(scores, units, low),
        units=len(units),
    )


def noise(scores: Scores) -> Noise:
    """The noise alone, without resampling."""
    units = scores.units()
    return _noise(scores, units, _unseen(scores, units)[0])


def _noise(scores: Scores, units: Floats, low: _Unseen) -> Noise:
    totals = units.sum(axis=0)
    influence = units @ gradient(scores.number, totals)
    step = max(0.0, float(scores.number(totals) - scores.number(totals + low.row)))
    correction = len(units) / max(len(units) - 1, 1)
    variance = float(((influence - influence.mean()) ** 2).sum()) * correction
    return Noise(spread=math.sqrt(variance * scores.n), step=step * scores.n)


def _nothing(units: Floats) -> tuple[_Unseen, _Unseen]:
    none = _Unseen(row=np.zeros(units.shape[1]), effect=0.0)
    return none, none


def _unseen(scores: Scores, units: Floats) -> tuple[_Unseen, _Unseen]:
    """The supposed unit of the lower and of the upper bound."""
    influence = units @ gradient(scores.number, units.sum(axis=0))
    worst, best = float(-influence.min()), float(influence.max())
    lost = _lost_example(scores, scores.candidate if scores.champion is None else scores.champion)
    if scores.champion is None:
        # What a perfect answer's statistics would be is not known; the upper bound only fails.
        return _scaled(lost.row, lost.effect, worst), _nothing(units)[1]
    gained = _lost_example(scores, scores.candidate)
    k = scores.candidate.shape[1]
    mirrored = np.concatenate([gained.row[k:], gained.row[:k]])
    return _scaled(lost.row, lost.effect, worst), _scaled(mirrored, gained.effect, best)


def _lost_example(scores: Scores, kept: Floats) -> _Unseen:
    """An average example among those where losing hurts: `lost` beside what is `kept`."""
    totals = kept.sum(axis=0)
    harm = np.asarray(scores.value(totals)) - scores.value(totals - kept + scores.lost)
    hurts = harm > 0.0
    width = scores.rows.shape[1]
    if not hurts.any():
        return _Unseen(row=np.zeros(width), effect=0.0)
    lost, of_kept = scores.lost[hurts].mean(axis=0), kept[hurts].mean(axis=0)
    row = lost if scores.champion is None else np.concatenate([lost, of_kept])
    return _Unseen(row=row, effect=float(harm[hurts].mean()))


def _scaled(row: Floats, effect: float, at_least: float) -> _Unseen:
    """As many lost examples as do the harm of the worst unit that was seen, and at least one."""
    if effect <= 0.0:
        return _Unseen(row=row, effect=0.0)
    times = max(1.0, at_least / effect)
    return _Unseen(row=times * row, effect=times * effect)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """One set of resamples, read for both bounds."""

    scores: Scores
    units: Floats
    alpha: float
    seed: int
    resamples: int

    def bounds(self, low: Floats, high: Floats) -> tuple[float, float]:
        """Lower and upper bound, each with its own supposed unit."""
        below, above = self._resampled(low, high)
        lower = self._lower(below, self.scores.number)
        upper = -self._lower(-above, lambda totals: -self.scores.number(totals))
        return lower, upper

    def _resampled(self, low: Floats, high: Floats) -> tuple[Floats, Floats]:
        """The number of each resample with either unit added; nan counts as the worst."""
        below, above = [], []
        for weights in self._weights():
            totals, extra = weights[:, :-1] @ self.units, weights[:, -1:]
            below.append(self.scores.number(totals + extra * low))
            above.append(self.scores.number(totals + extra * high))
        return (
            np.nan_to_num(np.concatenate(below), nan=-1.0),
            np.nan_to_num(np.concatenate(above), nan=1.0),
        )

    def _weights(self) -> Iterator[Floats]:
        """How often each unit is drawn, the supposed one last, some resamples at a time."""
        m = len(self.units) + 1
        rng = np.random.Generator(np.random.PCG64(self.seed))
        per_block = max(1, _CELLS // m)
        for start in range(0, self.resamples, per_block):
            count = min(per_block, self.resamples - start)
            chosen = rng.integers(0, m, size=(count, m)) + m * np.arange(count)[:, None]
            counts = np.bincount(chosen.ravel(), minlength=count * m)
            yield counts.reshape(count, m).astype(np.float64)

    def _lower(self, resampled: Floats, number: Callable[[Floats], Floats]) -> float:
        m = len(self.units) + 1
        # Percentile intervals are too narrow by a factor that depends on the units alone.
        narrow = math.sqrt(m / (m - 1)) * special.stdtrit(m - 1, self.alpha)
        level = float(special.ndtr(narrow))
        if self.scores.clusters is not None:
            level = _accelerated(level, number, self.units)
        return float(np.quantile(resampled, level, method="lower"))


def _accelerated(level: float, number: Callable[[Floats], Floats], units: Floats) -> float:
    """The level corrected for skew, by the acceleration of Efron (1987), from the jackknife.

    Of the units that were seen only: the skew of the supposed one is in the resamples already. The
    bias correction of BCa is left out; it mends nothing here and costs width.
    """
    totals = units.sum(axis=0)
    left_out = np.nan_to_num(number(totals - units), nan=float(number(totals)))
    deviation = left_out.mean() - left_out
    scale = float((deviation**2).sum()) ** 1.5
    acceleration = float((deviation**3).sum()) / (6.0 * scale) if scale > 0.0 else 0.0
    z = special.ndtri(level)
    return float(special.ndtr(z / (1.0 - acceleration * z)))
