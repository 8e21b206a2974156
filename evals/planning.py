"""What a policy asks of the suites there are, before anything is run.

For every gate: with what chance would a candidate that is just as good as the champion pass, and
how many examples would do? That depends on how unlike their answers are, which is assumed as a
share of examples that change sides, or taken from two runs of one model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evals import comparison, evidence, material, metrics, noise, rules
from evals.comparison import Demand, Rates
from evals.evidence import Compared
from evals.material import Material
from evals.outcome import Outcomes
from evals.policy import PSI, GatePolicy
from evals.rules import Measure, Rule
from evals.stats import bootstrap, sizing
from evals.stats.sizing import Noise
from evals.suite import Example, Suite

MEASURED = "noise of two runs"

Runs = Mapping[str, tuple[Outcomes, Outcomes]]
"""Two runs of one model, by suite."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One gate under one assumption."""

    gate: str
    metric: str
    n: int
    clusters: int | None
    """How many clusters the examples come in; None if each stands for itself."""
    margin_points: float
    """Or the limit, where the gate has one."""
    alpha: float
    wanted_power: float
    assumed: str
    power: float
    needed_n: int | None
    """None where no number of examples would do."""

    @property
    def is_enough(self) -> bool:
        """Whether the suite has the power that the policy wants."""
        return self.power >= self.wanted_power


def plan(
    suites: Sequence[Suite],
    policy: GatePolicy,
    psi: Sequence[float] = PSI,
    runs: Runs | None = None,
) -> tuple[Row, ...]:
    """A row for every gate against a champion and every assumption.

    Where `runs` has a gate's suites, its rows are for their noise; otherwise for each `psi`.

    Raises:
        SuiteInvalid, PolicyInvalid: as `rules.planned`.
        EvidenceMismatch: the runs are not of one model on these suites.
    """
    by_name = {suite.name: suite for suite in suites}
    compared = _compared(by_name, runs or {})
    rows: list[Row] = []
    for rule in rules.planned(suites, policy, has_champion=True):
        chosen = [by_name[name] for name in rule.suites]
        if all(name in compared for name in rule.suites):
            of = material.read(rule, [compared[name] for name in rule.suites]).of(
                rule.tag, rule.unit
            )
            rows.append(_measured(rule, chosen, of))
        else:
            rows += [_assumed(rule, chosen, share) for share in psi]
    return tuple(rows)


def _compared(suites: Mapping[str, Suite], runs: Runs) -> dict[str, Compared]:
    """The runs as if one were a candidate and the other its champion."""
    found = {}
    for name, (first, second) in runs.items():
        noise.check_same(first, second)
        found[name] = Compared(suite=suites[name], candidate=first, champion=second)
        evidence.check(found[name])
    return found


def _assumed(rule: Rule, suites: Sequence[Suite], psi: float) -> Row:
    """If a share psi of examples changes sides; of a corpus score, by a whole example each."""
    n = sum(1 for _ in _examples(rule, suites))
    words = f"{100.0 * psi:g} % change sides"
    if rule.limit is not None:
        words = f"{100.0 * psi:g} % in truth"
    return _row(rule, suites, words, _Size(n=n, psi=psi))


def _measured(rule: Rule, suites: Sequence[Suite], of: Material) -> Row:
    sample = of.sample
    words = MEASURED
    if rule.limit is not None:
        unwanted = of.flipped if rule.measure is Measure.FLIPS else of.wrong
        return _row(rule, suites, words, _Size(n=sample.n, psi=float(unwanted.mean())))
    if isinstance(sample, Rates) and sample.clusters is None:
        # None seen is not none there: half of one is assumed.
        psi = max(sample.wins + sample.losses, 0.5) / sample.n
        return _row(rule, suites, words, _Size(n=sample.n, psi=psi))
    scores = sample.scores if isinstance(sample, Rates) else sample
    return _row(rule, suites, words, _Size(n=sample.n, noise=bootstrap.noise(scores)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """How many examples, and how unlike the answers are."""

    n: int
    psi: float | None = None
    noise: Noise | None = None


def _row(rule: Rule, suites: Sequence[Suite], assumed: str, size: _Size) -> Row:
    power, needed = _power(rule, size)
    clusters = {e.cluster for e in _examples(rule, suites) if e.cluster is not None}
    return Row(
        gate=rule.name,
        metric=rule.metric,
        n=size.n,
        clusters=len(clusters) or None,
        margin_points=rule.margin_points,
        alpha=rule.alpha,
        wanted_power=rule.power,
        assumed=assumed,
        power=power,
        needed_n=needed,
    )


def _power(rule: Rule, size: _Size) -> tuple[float, int | None]:
    """Chance to pass, and how many examples have the wanted chance."""
    margin, alpha = rule.margin_points / 100.0, rule.alpha
    if rule.limit is not None and size.psi is not None:
        return (
            sizing.limit_power(size.n, size.psi, rule.limit, alpha),
            sizing.limit_examples_needed(size.psi, rule.limit, alpha, rule.power),
        )
    if size.psi is not None and metrics.get(rule.metric).is_rate:
        demand = Demand(margin=margin, alpha=alpha, power=rule.power, seed=0)
        return (
            comparison.rate_power(size.n, size.psi, demand),
            comparison.rate_examples_needed(size.psi, demand),
        )
    known = size.noise or comparison.rate_noise(size.psi or 0.0)
    return (
        sizing.score_power(size.n, known, margin, alpha),
        sizing.score_examples_needed(known, margin, alpha, rule.power),
    )


def _examples(rule: Rule, suites: Sequence[Suite]) -> Iterator[Example]:
    for suite in suites:
        yield from (e for e in suite.examples if rule.tag is None or rule.tag in e.tags)
