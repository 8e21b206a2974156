"""The numbers of one gate: estimate, bounds, p-value, power, and how many examples would do.

Two ways lead to them. Right-or-wrong outcomes of independent examples are counted and judged
exactly. Everything else, corpus scores and examples that come in clusters, is resampled; for
clustered right-or-wrong outcomes the bounds are never narrower than the exact ones.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from evals import stats
from evals.evidence import Bools
from evals.stats import bootstrap, randomization, sizing
from evals.stats.interval import Interval
from evals.stats.sample import Floats, Ints, Scores, renumbered
from evals.stats.sizing import Noise

T = TypeVar("T")

_MAX_EXACT_N = 3_000
_MAX_EXACT_PSI = 0.25
"""Above these the normal approximation is within 12 % of the exact test, which takes seconds."""
_PSI_WHEN_UNSEEN = 0.5
"""Discordant examples assumed when none was seen: half of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Right or wrong, example by example, shape (n,)."""

    candidate: Bools
    champion: Bools | None
    clusters: Ints | None = None

    @property
    def n(self) -> int:
        """Examples."""
        return len(self.candidate)

    def take(self, chosen: Ints) -> Rates:
        """The same of some examples only, by position."""
        return Rates(
            candidate=self.candidate[chosen],
            champion=None if self.champion is None else self.champion[chosen],
            clusters=renumbered(self.clusters, chosen),
        )

    @property
    def wins(self) -> int:
        """Examples that only the candidate got right."""
        return 0 if self.champion is None else int((self.candidate & ~self.champion).sum())

    @property
    def losses(self) -> int:
        """Examples that only the champion got right."""
        return 0 if self.champion is None else int((self.champion & ~self.candidate).sum())

    @property
    def scores(self) -> Scores:
        """The same as additive statistics: (right, 1)."""
        return Scores(
            candidate=_counted(self.candidate),
            champion=None if self.champion is None else _counted(self.champion),
            lost=_counted(np.zeros(self.n, dtype=bool)),
            value=lambda totals: np.asarray(totals[..., 0] / totals[..., 1]),
            clusters=self.clusters,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What is asked of a comparison. The margin is positive, in the units of the value."""

    margin: float
    alpha: float
    power: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was found, in the units of the value; differences are in favor of the candidate."""

    candidate: float
    champion: float | None
    estimate: float
    interval: Interval
    method: str
    units: int | None = None
    """How many were resampled; None where nothing was."""
    seed: int | None = None
    p_value: float | None = None
    """Two-sided, of "neither is better"."""
    power: float | None = None
    """Chance that an equal candidate, as unlike the champion as this one, passes."""
    psi: float | None = None
    """Share of examples that changed sides, where they were counted; at least half of one."""
    noise: Noise | None = None
    """Where they were resampled."""


def against_champion(sample: Rates | Scores, demand: Demand) -> Comparison:
    """The candidate held against the champion.

    Raises:
        ValueError: fewer than two units where they must be resampled.
    """
    if isinstance(sample, Scores):
        return _scores(sample, demand)
    found = _rates(sample, demand)
    if sample.clusters is None:
        return found
    return _wider(found, _scores(sample.scores, demand))


def alone(sample: Rates | Scores, alpha: float, seed: int) -> Comparison:
    """The candidate by itself.

    Raises:
        ValueError: fewer than two units where they must be resampled.
    """
    if isinstance(sample, Scores):
        return _own_score(sample, alpha, seed)
    found = _own_rate(int(sample.candidate.sum()), sample.n, alpha)
    if sample.clusters is None:
        return found
    own = dataclasses.replace(sample, champion=None)
    return _wider(found, _own_score(own.scores, alpha, seed))


def share(count: int, n: int, alpha: float) -> Interval:
    """Exact bounds of a share, each at level alpha."""
    return Interval(
        lower=stats.clopper_pearson_lower(count, n, alpha),
        upper=stats.clopper_pearson_upper(count, n, alpha),
    )


def _rates(rates: Rates, demand: Demand) -> Comparison:
    wins, losses, n = rates.wins, rates.losses, rates.n
    psi = max(wins + losses, _PSI_WHEN_UNSEEN) / n
    return Comparison(
        candidate=float(rates.candidate.mean()),
        champion=None if rates.champion is None else float(rates.champion.mean()),
        estimate=(wins - losses) / n,
        interval=stats.paired_difference_interval(wins, losses, n, demand.alpha),
        method="exact",
        p_value=stats.mcnemar_pvalue(wins, losses),
        power=rate_power(n, psi, demand),
        psi=psi,
    )


def examples_needed(found: Comparison, demand: Demand) -> int:
    """About how many examples equal models need that are as unlike as these."""
    needed = [1]
    if found.psi is not None:
        needed.append(rate_examples_needed(found.psi, demand))
    if found.noise is not None:
        needed.append(
            sizing.score_examples_needed(found.noise, demand.margin, demand.alpha, demand.power)
        )
    return max(needed)


def rate_power(n: int, psi: float, demand: Demand) -> float:
    """Chance that equal models pass with n examples of which a share psi is discordant."""
    if n <= _MAX_EXACT_N and psi <= _MAX_EXACT_PSI:
        return stats.power(n, psi, demand.margin, demand.alpha)
    return sizing.score_power(n, rate_noise(psi), demand.margin, demand.alpha)


def rate_examples_needed(psi: float, demand: Demand) -> int:
    """About how many examples equal models need, of which a share psi is discordant."""
    quick = stats.required_n(psi, demand.margin, demand.alpha, demand.power)
    if quick > _MAX_EXACT_N or psi > _MAX_EXACT_PSI:
        return quick
    return stats.examples_needed(psi, demand.margin, demand.alpha, demand.power)


def rate_noise(psi: float) -> Noise:
    """A share psi of examples changes sides, each by a whole example."""
    return Noise(spread=math.sqrt(psi), step=1.0)


def _scores(scores: Scores, demand: Demand) -> Comparison:
    found = bootstrap.estimate(scores, alpha=demand.alpha, seed=demand.seed)
    return dataclasses.replace(
        _resampled(scores, found, demand.seed),
        p_value=randomization.pvalue(scores, seed=demand.seed),
        power=sizing.score_power(scores.n, found.noise, demand.margin, demand.alpha),
    )


def _own_rate(right: int, n: int, alpha: float) -> Comparison:
    return Comparison(
        candidate=right / n,
        champion=None,
        estimate=right / n,
        interval=share(right, n, alpha),
        method="exact",
    )


def _own_score(scores: Scores, alpha: float, seed: int) -> Comparison:
    return _resampled(scores, bootstrap.estimate(scores, alpha=alpha, seed=seed), seed)


def _resampled(scores: Scores, found: bootstrap.Estimate, seed: int) -> Comparison:
    return Comparison(
        candidate=scores.candidate_value,
        champion=scores.champion_value,
        estimate=found.estimate,
        interval=found.interval,
        method="bootstrap" if scores.clusters is None else "cluster bootstrap",
        units=found.units,
        seed=seed,
        noise=found.noise,
    )


def _wider(exact: Comparison, over: Comparison) -> Comparison:
    """The more careful of two readings, number by number."""
    return dataclasses.replace(
        over,
        estimate=exact.estimate,
        interval=Interval(
            lower=min(exact.interval.lower, over.interval.lower),
            upper=max(exact.interval.upper, over.interval.upper),
        ),
        p_value=_either(max, exact.p_value, over.p_value),
        power=_either(min, exact.power, over.power),
        psi=exact.psi,
    )


def _either(pick: Callable[[T, T], T], one: T | None, other: T | None) -> T | None:
    return None if one is None or other is None else pick(one, other)


def _counted(right: Bools) -> Floats:
    """(right, 1) of each example, shape (n, 2)."""
    return np.column_stack([right.astype(np.float64), np.ones(len(right))])
