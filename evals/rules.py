"""From suites and a policy to the list of gates, before any answer is there.

The one idea: deciding and planning read the same list, so `liftlock gate power` speaks of exactly
the gates that a promotion will have to meet.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evals import errors, metrics
from evals.evidence import SCORED
from evals.metrics import Metric
from evals.policy import Direction, Family, GatePolicy, SuiteOverride, Unit
from evals.suite import Suite, SuiteKind

_WORDS = {"gleu": "GLEU", "maxmatch_f0.5": "MaxMatch F0.5", "errant_f0.5": "ERRANT F0.5"}


class Measure(StrEnum):
    """What a gate looks at."""

    QUALITY = "quality"  # a metric, against the champion or a floor
    FLIPS = "flips"  # answers that changed sides, against a limit
    FALSE_POSITIVES = "false positives"  # clean sentences edited, against a limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One gate as it will be judged. Points are positive."""

    name: str
    """Unique; `suite`, `suite/tag`, `suite/metric`, or the name of a family."""
    label: str
    """How a sentence about it begins."""
    suites: tuple[str, ...]
    tag: str | None
    measure: Measure
    metric: str
    is_scored: bool
    """Whether the metric says what `Outcome.score` says, right or wrong."""
    higher_is_better: bool
    """Always so where it is scored: right is better than wrong."""
    margin_points: float
    alpha: float
    power: float
    floor: float | None
    """Least value of a first version, 0..1; None if nobody has set one."""
    limit: float | None = None
    """Most that is allowed, 0..1, where the measure is not quality."""
    unit: Unit = Unit.AUTO

    @property
    def key(self) -> tuple[tuple[str, ...], str]:
        """Gates with the same key read the same answers in the same way."""
        return self.suites, self.metric

    @property
    def words(self) -> str:
        """The metric for people."""
        return _WORDS.get(self.metric, self.metric.replace("_", " "))


def planned(suites: Sequence[Suite], policy: GatePolicy, *, has_champion: bool) -> tuple[Rule, ...]:
    """Every gate over these suites: of each suite, then of each family whose suites are here.

    Raises:
        SuiteInvalid: a metric is not known.
        PolicyInvalid: the suites of a family have different metrics.
    """
    rules = [rule for suite in suites for rule in _of_suite(suite, policy, has_champion)]
    by_name = {suite.name: suite for suite in suites}
    for family in policy.families:
        members = members_of(family, policy, by_name)
        if members and all(name in by_name for name in members):
            rules.append(_of_family(family, [by_name[n] for n in members], policy))
    return tuple(rules)


def members_of(family: Family, policy: GatePolicy, present: Container[str]) -> tuple[str, ...]:
    """The suites that a family needs: all but optional ones that are not there."""
    return tuple(n for n in family.suites if n in present or n not in policy.optional_suites)


def check_names(policy: GatePolicy, suites: Iterable[str]) -> None:
    """Raises PolicyInvalid if the policy speaks of a suite that is not among these."""
    known = sorted(suites)
    spoken = [("override", item.suite) for item in policy.overrides]
    spoken += [(f"family {f.name}", name) for f in policy.families for name in f.suites]
    spoken += [("optional_suites", name) for name in policy.optional_suites]
    for where, name in spoken:
        if name not in known:
            raise errors.PolicyInvalid(
                f"gates: {where} names suite {name}, which is not configured; "
                f"configured are {', '.join(known)}"
            )
    taken = [family.name for family in policy.families if family.name in known]
    if taken:
        raise errors.PolicyInvalid(f"gates: family {taken[0]} is named like a suite; rename it")


def check(policy: GatePolicy, suites: Sequence[Suite], absent: Collection[str]) -> None:
    """Refuses what could only fail once everything has been evaluated.

    Args:
        policy: the policy.
        suites: those that are there.
        absent: names of those that are not.

    Raises:
        SuiteInvalid: a metric is not known.
        PolicyInvalid: the policy does not fit the suites, or judges nothing.
    """
    names = [*(suite.name for suite in suites), *absent]
    _check_once("two suites are named", names)
    check_names(policy, names)
    found = planned(suites, policy, has_champion=True)
    _check_once("two gates are named", [rule.name for rule in found])
    for rule in found:
        _check_metric(rule, suites)
    if not (
        set(absent) - set(policy.optional_suites) or planned(suites, policy, has_champion=False)
    ):
        raise errors.PolicyInvalid(
            "gates: nothing would be judged, and no evidence is not a pass: every suite is "
            "optional and not there, or none of its metrics is gated"
        )


def _check_once(what: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise errors.PolicyInvalid(f"gates: {what} {twice}; rename one, or leave it out")


def _check_metric(rule: Rule, suites: Sequence[Suite]) -> None:
    for suite in suites:
        if suite.name not in rule.suites or rule.tag is not None:
            continue
        problem = metrics.misfit(rule.metric, suite.examples[0])
        if problem is not None:
            raise errors.PolicyInvalid(
                f"gates: {rule.name} is to be judged by {rule.metric}, which suite {suite.name} "
                f"has nothing for: {problem}"
            )


def gated_metrics(suite: Suite, policy: GatePolicy) -> tuple[str, ...]:
    """Metrics that decide: those the suite has margins for, else its first; plus the policy's."""
    hinted = [hint.metric for hint in suite.margins]
    named = [o.metric for o in policy.overrides if o.suite == suite.name and o.metric is not None]
    wanted = dict.fromkeys([*(hinted or suite.metrics[:1]), *named])
    # The headline comes first, the rest in the order of the suite.
    order = [
        *(m for m in suite.metrics if m in wanted),
        *(m for m in wanted if m not in suite.metrics),
    ]
    return tuple(m for m in order if policy.override(suite.name, m).gated)


def _of_suite(suite: Suite, policy: GatePolicy, has_champion: bool) -> Iterator[Rule]:
    tags: tuple[str | None, ...] = (None, *(suite.tags if policy.per_tag else ()))
    family = policy.family_of(suite.name)
    for name in gated_metrics(suite, policy):
        metric = metrics.get(name)
        rules = [_quality(suite, metric, tag, policy) for tag in tags]
        if family is not None and name == (family.metric or suite.metrics[0]):
            rules = _as_member(rules, family)
        yield from rules
    yield from _limits(suite, policy, has_champion)


def _as_member(rules: Sequence[Rule], family: Family) -> list[Rule]:
    """The rules that are left where a family judges the suite."""
    if family.member_margin_points is None:
        return []
    whole, *tags = rules
    return [dataclasses.replace(whole, margin_points=family.member_margin_points), *tags]


def _quality(suite: Suite, metric: Metric, tag: str | None, policy: GatePolicy) -> Rule:
    said = policy.override(suite.name, metric.name)
    hint = next((h.points for h in suite.margins if h.metric == metric.name), None)
    is_headline = metric.name == suite.metrics[0]
    parts = [suite.name, "" if is_headline else metric.name, tag or ""]
    return Rule(
        name="/".join(part for part in parts if part),
        label=suite.name if tag is None else tag.replace("_", " "),
        suites=(suite.name,),
        tag=tag,
        measure=Measure.QUALITY,
        metric=metric.name,
        is_scored=_is_scored(suite, metric.name, said),
        higher_is_better=_is_higher_better(suite, metric, said),
        margin_points=policy.margin(
            suite.name, is_tag=tag is not None, metric=metric.name, hint=hint
        ),
        alpha=policy.alpha if said.alpha is None else said.alpha,
        power=policy.power if said.power is None else said.power,
        floor=_floor(suite, metric.name, tag, policy),
        unit=said.unit or Unit.AUTO,
    )


def _is_scored(suite: Suite, metric: str, said: SuiteOverride) -> bool:
    return SCORED.get(suite.kind) == metric and said.direction is None


def _is_higher_better(suite: Suite, metric: Metric, said: SuiteOverride) -> bool:
    if said.direction is not None:
        return said.direction is Direction.HIGHER
    return _is_scored(suite, metric.name, said) or metric.higher_is_better


def _floor(suite: Suite, metric: str, tag: str | None, policy: GatePolicy) -> float | None:
    """What is said of this metric, else the policy's for right answers; corpus scores have none."""
    said = policy.override(suite.name, metric)
    own = said.floor if tag is None else said.tag_floor
    if own is not None:
        return own
    if not _is_scored(suite, metric, said):
        return None
    return policy.floor(suite.kind, is_tag=tag is not None)


def _limits(suite: Suite, policy: GatePolicy, has_champion: bool) -> Iterator[Rule]:
    """Gates against a limit: flips where there is a champion, false positives on clean text."""
    most_flips = policy.flip_rate(suite.name)
    if has_champion and most_flips is not None and suite.kind in SCORED:
        yield _limit(suite, policy, Measure.FLIPS, most_flips)
    most_edited = policy.max_false_positive_rate
    if suite.kind is SuiteKind.CLEAN and most_edited is not None:
        yield _limit(suite, policy, Measure.FALSE_POSITIVES, most_edited)


def _limit(suite: Suite, policy: GatePolicy, measure: Measure, most: float) -> Rule:
    said = policy.override(suite.name, None)
    return Rule(
        name=f"{suite.name}/{measure}",
        label=suite.name,
        suites=(suite.name,),
        tag=None,
        measure=measure,
        metric=SCORED[suite.kind],
        is_scored=True,
        higher_is_better=True,
        margin_points=100.0 * most,
        alpha=policy.alpha if said.alpha is None else said.alpha,
        power=policy.power if said.power is None else said.power,
        floor=None,
        limit=most,
        unit=said.unit or Unit.AUTO,
    )


def _of_family(family: Family, suites: Sequence[Suite], policy: GatePolicy) -> Rule:
    names = {family.metric or suite.metrics[0] for suite in suites}
    if len(names) > 1:
        raise errors.PolicyInvalid(
            f"gates: the suites of family {family.name} are judged by different metrics "
            f"({', '.join(sorted(names))}); name one with metric, or make families of one metric"
        )
    metric = metrics.get(names.pop())
    is_scored = all(SCORED.get(suite.kind) == metric.name for suite in suites)
    floor = family.floor
    if floor is None and is_scored:
        floor = policy.floor(suites[0].kind, is_tag=False)
    return Rule(
        name=family.name,
        label=family.name,
        suites=tuple(suite.name for suite in suites),
        tag=None,
        measure=Measure.QUALITY,
        metric=metric.name,
        is_scored=is_scored,
        higher_is_better=is_scored or metric.higher_is_better,
        margin_points=family.margin_points or policy.margin_points,
        alpha=policy.alpha if family.alpha is None else family.alpha,
        power=policy.power if family.power is None else family.power,
        floor=floor,
        unit=family.unit,
    )
