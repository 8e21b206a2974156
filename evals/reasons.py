"""The sentence of each gate: what changed, by how much, against what, and what would decide."""

from __future__ import annotations

from evals.comparison import Comparison, Rates
from evals.material import Material
from evals.rules import Measure, Rule
from evals.suite import SuiteKind

_DONE = {
    SuiteKind.CLEAN: "sentences left alone",
    SuiteKind.CORRECTION: "sentences fixed",
    SuiteKind.SPELLING: "sentences fixed",
    SuiteKind.MINIMAL_PAIRS: "pairs told apart",
}
_COUNTED = {
    Measure.FLIPS: "answers changed sides against the champion",
    Measure.FALSE_POSITIVES: "clean sentences edited",
}


NOT_ENOUGH = "; not enough examples to decide"


def shown(rule: Rule, of: Material, value: float) -> float:
    """A value as the metric has it, in per cent; inside a gate greater is always better."""
    if rule.higher_is_better:
        return 100.0 * value
    return 100.0 * (1.0 - value if isinstance(of.sample, Rates) else -value)


def of_difference(rule: Rule, of: Material, found: Comparison) -> str:
    """Against the champion."""
    lower, upper = 100.0 * found.interval.lower, 100.0 * found.interval.upper
    # One decimal, but for a bound that it would show equal to the margin.
    places = 1 if abs(lower + rule.margin_points) >= 0.1 else 3
    estimate, low = f"{100.0 * found.estimate:+.1f}", f"{lower:+.{places}f}"
    bounds = f"difference {estimate} points [{low}, {upper:+.1f}]"
    if isinstance(of.sample, Rates):
        what = _change(rule, of.sample, of.kind)
    else:
        champion = shown(rule, of, found.champion or 0.0)
        candidate = shown(rule, of, found.candidate)
        what = f"{rule.words} {candidate:.1f}, champion {champion:.1f}"
    return f"{rule.label}: {what}; {bounds}, margin {-rule.margin_points:+.1f}"


def _change(rule: Rule, rates: Rates, kind: SuiteKind | None) -> str:
    """What changed between champion and candidate, in sentences of the suite."""
    right = f"{0 if rates.champion is None else int(rates.champion.sum()):,}"
    if kind is SuiteKind.CLEAN and rule.is_scored:
        lost = f"of {right} clean sentences that the champion left alone, {rates.losses:,} are now"
        return f"{lost} edited and {rates.wins:,} others are edited no longer"
    if kind is SuiteKind.MINIMAL_PAIRS and rule.is_scored:
        lost = f"{rates.losses:,} of {right} pairs that the champion told apart are no longer told"
        return f"{lost} apart and {rates.wins:,} others newly are"
    if kind in _DONE and rule.is_scored:
        lost = f"{rates.losses:,} of {right} sentences that the champion fixed are no longer fixed"
        return f"{lost} and {rates.wins:,} others are newly fixed"
    lost = f"{rates.losses:,} of {right} answers good by {rule.words} are no longer good"
    return f"{lost} and {rates.wins:,} others newly are"


def advice(needed_n: int, n: int) -> str:
    """How an undecided gate can be decided."""
    needed = f"about {needed_n:,} are needed for equal models"
    if needed_n > n:
        return f"{NOT_ENOUGH}, {needed}"
    return f"; not decided: {needed}, so this candidate is probably somewhat worse"


def of_floor(rule: Rule, of: Material, found: Comparison) -> str:
    """A first version against its floor."""
    lower, upper = sorted(
        (shown(rule, of, found.interval.lower), shown(rule, of, found.interval.upper))
    )
    value = f"{shown(rule, of, found.estimate):.1f}"
    bar = f"{'floor' if rule.higher_is_better else 'ceiling'} {100.0 * (rule.floor or 0.0):.1f}"
    if not isinstance(of.sample, Rates):
        return f"{rule.label}: {rule.words} {value} [{lower:.1f}, {upper:.1f}], {bar}"
    done = _DONE.get(of.kind) if of.kind is not None and rule.is_scored else None
    good = int(of.sample.candidate.sum())
    count = good if rule.higher_is_better else of.sample.n - good
    return (
        f"{rule.label}: {count:,} of {of.sample.n:,} {done or f'answers counted by {rule.words}'}, "
        f"{value} % [{lower:.1f}, {upper:.1f}], {bar} %"
    )


def of_limit(rule: Rule, count: int, n: int, bounds: tuple[float, float]) -> str:
    """A share against the most that is allowed; bounds in per cent."""
    return (
        f"{rule.label}: {count:,} of {n:,} {_COUNTED[rule.measure]}, {100.0 * count / n:.1f} % "
        f"[{bounds[0]:.1f}, {bounds[1]:.1f}], at most {rule.margin_points:g} %"
    )


def of_missing(rule: Rule, n: int, candidate: int, champion: int) -> str:
    """Answers that are not there."""
    of_champion = f" and {champion:,} of the champion" if champion else ""
    return (
        f"{rule.label}: of {n:,} answers, {candidate:,} of the candidate{of_champion} are "
        "missing, and a missing answer is neither right nor wrong; evaluate again"
    )


def of_no_floor(rule: Rule) -> str:
    """A corpus score without a floor."""
    return (
        f"{rule.label}: a first version has no champion, and no floor is set for {rule.words}; "
        "add an override with this suite, metric and floor to the gates"
    )


def of_nothing_to_resample(rule: Rule) -> str:
    """Few clusters, or a score that is not defined."""
    return (
        f"{rule.label}: {rule.words} cannot be judged: it has no value here, or too few clusters "
        "to speak for others; judge by another metric, or with unit: example"
    )


def scope(of: Material) -> str:
    """What the claim is about, where it is less than one might think."""
    if of.fixed_clusters is None:
        return ""
    return f"; said of these {of.fixed_clusters:,} clusters only"


def of_absent(name: str, why: str) -> str:
    """A suite that could not be run."""
    return f"{name}: not run, and what was not run is no evidence: {why}"
