"""Decides whether a candidate may replace the champion, from outcomes alone.

The one idea: a promotion needs evidence that the candidate is *not worse* by more than a margin
fixed beforehand. "No significant difference" is not such evidence, so there are three answers:
pass, fail, and underpowered - not enough examples, or answers missing, to say either.

For every suite and metric and, where the suite is grouped, every tag, with d the difference between
candidate and champion on the same examples, positive where the candidate is better:

    pass          lower bound of d > -margin
    fail          otherwise, upper bound of d < 0: worse, and not shown to be within the margin
    underpowered  otherwise

A first version has no champion; its own value is held against a floor instead. Gates against a
limit, of answers that changed sides and of clean sentences edited, ask whether a share is below it.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evals import comparison, evidence, material, reasons, rules
from evals.comparison import Comparison, Demand, Rates
from evals.evidence import Compared, Unavailable
from evals.material import Material
from evals.outcome import Outcomes
from evals.policy import GatePolicy
from evals.rules import Measure, Rule
from evals.suite import Suite
from evals.verdict import Basis, GateResult, GateStatus


def decide(
    candidate: Outcomes,
    champion: Outcomes | None,
    suite: Suite,
    policy: GatePolicy,
    *,
    across_runtimes: bool = False,
) -> tuple[GateResult, ...]:
    """One result for the suite and one for each of its tags, the suite first.

    A family needs its other suites too and is left to `decide_all`. `across_runtimes` is for a
    change of software, settings or hardware: only then may the two have been answered with
    different ones.

    Raises:
        EvidenceMismatch: the outcomes are not of this suite, or not comparable with each other.
        SuiteInvalid: a metric is not known.
    """
    compared = Compared(
        suite=suite, candidate=candidate, champion=champion, across_runtimes=across_runtimes
    )
    evidence.check(compared)
    return tuple(_results([compared], policy))


def decide_all(
    compared: Sequence[Compared], policy: GatePolicy, unavailable: Sequence[Unavailable] = ()
) -> tuple[GateResult, ...]:
    """The results over all suites: of each suite, of families, of suites that are not there.

    Raises:
        EvidenceMismatch, SuiteInvalid: as `decide`.
        PolicyInvalid: the policy does not fit the suites.
    """
    present = [item.suite.name for item in compared]
    rules.check_names(policy, [*present, *(item.suite for item in unavailable)])
    for item in compared:
        evidence.check(item)
    absent = _absent(policy, unavailable, present)
    return (*_results(compared, policy), *absent)


def skipped(policy: GatePolicy, unavailable: Iterable[Unavailable]) -> tuple[str, ...]:
    """What is to be said of optional suites that are not there."""
    return tuple(
        f"{item.suite}: not available, and not required: {item.reason}"
        for item in unavailable
        if item.suite in policy.optional_suites
    )


def _absent(
    policy: GatePolicy, unavailable: Sequence[Unavailable], present: Sequence[str]
) -> Iterator[GateResult]:
    """Required suites that are not there, and families that lack one."""
    required = {u.suite: u.reason for u in unavailable if u.suite not in policy.optional_suites}
    for name, why in required.items():
        yield _without_evidence(name, reasons.of_absent(name, why))
    for family in policy.families:
        lacking = [name for name in family.suites if name in required]
        if lacking:
            why = f"it lacks {', '.join(lacking)}"
            yield _without_evidence(family.name, reasons.of_absent(family.name, why))


def _without_evidence(name: str, reason: str) -> GateResult:
    return GateResult(
        name=name,
        suite=name,
        suite_digest="",
        tag=None,
        n=0,
        basis=Basis.CHAMPION,
        status=GateStatus.UNDERPOWERED,
        reason=reason,
        threshold_points=None,
    )


def _results(compared: Sequence[Compared], policy: GatePolicy) -> Iterator[GateResult]:
    by_name = {item.suite.name: item for item in compared}
    has_champion = any(item.champion is not None for item in compared)
    planned = rules.planned([item.suite for item in compared], policy, has_champion=has_champion)
    # Gates of one suite and metric read the same answers, which are made into arrays once.
    for _, group in itertools.groupby(planned, key=lambda rule: rule.key):
        same = list(group)
        all_of_it = material.read(same[0], [by_name[name] for name in same[0].suites])
        for rule in same:
            yield _judge(rule, all_of_it.of(rule.tag, rule.unit))


def _judge(rule: Rule, of: Material) -> GateResult:
    missing, missing_of_champion = of.missing
    if missing or missing_of_champion:
        return _undecided(
            rule, of, reasons.of_missing(rule, of.sample.n, missing, missing_of_champion)
        )
    if rule.measure is not Measure.QUALITY:
        return _against_limit(rule, of)
    if not of.has_champion and rule.floor is None:
        return _undecided(rule, of, reasons.of_no_floor(rule))
    if not of.can_be_judged:
        return _undecided(rule, of, reasons.of_nothing_to_resample(rule))
    return _against_champion(rule, of) if of.has_champion else _against_floor(rule, of)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ruling:
    """What was decided, and by which bar."""

    basis: Basis
    threshold_points: float | None
    status: GateStatus
    reason: str
    needed_n: int | None = None


def _against_champion(rule: Rule, of: Material) -> GateResult:
    margin = rule.margin_points
    demand = Demand(margin=margin / 100.0, alpha=rule.alpha, power=rule.power, seed=of.seed(rule))
    found = comparison.against_champion(of.sample, demand)
    lower, upper = 100.0 * found.interval.lower, 100.0 * found.interval.upper
    status = _status(lower > -margin, upper < 0.0)
    needed, advice = None, ""
    if status is GateStatus.UNDERPOWERED:
        needed = comparison.examples_needed(found, demand)
        advice = reasons.advice(needed, of.sample.n)
    ruling = _Ruling(
        basis=Basis.CHAMPION,
        threshold_points=-margin,
        status=status,
        reason=reasons.of_difference(rule, of, found) + reasons.scope(of) + advice,
        needed_n=needed,
    )
    return _with_numbers(_result(rule, of, ruling), rule, of, found)


def _against_floor(rule: Rule, of: Material) -> GateResult:
    found = comparison.alone(of.sample, rule.alpha, of.seed(rule))
    bar = 100.0 * (rule.floor or 0.0)
    good, bad = found.interval.lower, found.interval.upper
    lower, upper = sorted((reasons.shown(rule, of, good), reasons.shown(rule, of, bad)))
    if rule.higher_is_better:
        status, basis = _status(lower >= bar, upper < bar), Basis.FLOOR
    else:
        status, basis = _status(upper <= bar, lower > bar), Basis.CEILING
    ruling = _Ruling(
        basis=basis,
        threshold_points=bar,
        status=status,
        reason=reasons.of_floor(rule, of, found) + reasons.scope(of) + _not_enough(status),
    )
    return dataclasses.replace(
        _with_numbers(_result(rule, of, ruling), rule, of, found),
        estimate_points=reasons.shown(rule, of, found.estimate),
        lower_points=lower,
        upper_points=upper,
    )


def _against_limit(rule: Rule, of: Material) -> GateResult:
    """A share that must be shown to be small."""
    unwanted = of.flipped if rule.measure is Measure.FLIPS else of.wrong
    kept = Rates(candidate=~unwanted, champion=None, clusters=of.sample.clusters)
    found = comparison.alone(kept, rule.alpha, of.seed(rule))
    lower, upper = 100.0 * (1.0 - found.interval.upper), 100.0 * (1.0 - found.interval.lower)
    status = _status(upper <= rule.margin_points, lower > rule.margin_points)
    count, n = int(unwanted.sum()), len(unwanted)
    ruling = _Ruling(
        basis=Basis.CEILING,
        threshold_points=rule.margin_points,
        status=status,
        reason=reasons.of_limit(rule, count, n, (lower, upper))
        + reasons.scope(of)
        + _not_enough(status),
    )
    return dataclasses.replace(
        _with_numbers(_result(rule, of, ruling), rule, of, found),
        candidate_rate=count / n,
        estimate_points=100.0 * count / n,
        lower_points=lower,
        upper_points=upper,
    )


def _undecided(rule: Rule, of: Material, reason: str) -> GateResult:
    """No numbers at all; the threshold is still said."""
    basis = Basis.CHAMPION
    threshold: float | None = -rule.margin_points
    if rule.measure is not Measure.QUALITY:
        basis, threshold = Basis.CEILING, rule.margin_points
    elif not of.has_champion:
        basis = Basis.FLOOR if rule.higher_is_better else Basis.CEILING
        threshold = 100.0 * rule.floor if rule.floor is not None else None
    return _result(
        rule,
        of,
        _Ruling(
            basis=basis,
            threshold_points=threshold,
            status=GateStatus.UNDERPOWERED,
            reason=reason,
        ),
    )


def _result(rule: Rule, of: Material, ruling: _Ruling) -> GateResult:
    return GateResult(
        name=rule.name,
        suite=rule.suites[0] if len(rule.suites) == 1 else rule.name,
        suite_digest=of.suite_digest,
        tag=rule.tag,
        n=of.sample.n,
        basis=ruling.basis,
        status=ruling.status,
        reason=ruling.reason,
        threshold_points=ruling.threshold_points,
        needed_n=ruling.needed_n,
        metric=rule.metric,
    )


def _with_numbers(result: GateResult, rule: Rule, of: Material, found: Comparison) -> GateResult:
    rates = of.sample if isinstance(of.sample, Rates) and of.has_champion else None
    champion = None
    if found.champion is not None:
        champion = reasons.shown(rule, of, found.champion) / 100.0
    return dataclasses.replace(
        result,
        candidate_rate=reasons.shown(rule, of, found.candidate) / 100.0,
        champion_rate=champion,
        wins=None if rates is None else rates.wins,
        losses=None if rates is None else rates.losses,
        estimate_points=100.0 * found.estimate,
        lower_points=100.0 * found.interval.lower,
        upper_points=100.0 * found.interval.upper,
        method=found.method,
        units=found.units,
        seed=found.seed,
        p_value=found.p_value,
        power=found.power,
    )


def _status(is_shown_good: bool, is_shown_bad: bool) -> GateStatus:
    if is_shown_good:
        return GateStatus.PASS
    return GateStatus.FAIL if is_shown_bad else GateStatus.UNDERPOWERED


def _not_enough(status: GateStatus) -> str:
    return reasons.NOT_ENOUGH if status is GateStatus.UNDERPOWERED else ""
