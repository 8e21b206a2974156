"""Decides whether a candidate may replace the champion, from outcomes alone.

The one idea: a promotion needs evidence that the candidate is *not worse* by more than a margin
fixed beforehand. "No significant difference" is not such evidence, so there are three answers:
pass, fail, and underpowered - not enough examples, or answers missing, to say either.

For every suite and, where the suite is grouped, every tag, with d the difference in the share of
right answers between candidate and champion on the same examples:

    pass          lower bound of d > -margin
    fail          otherwise, upper bound of d < 0: worse, and not shown to be within the margin
    underpowered  otherwise

A first version has no champion; its own share of right answers is held against a floor instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from evals import errors, stats
from evals.outcome import Outcomes
from evals.policy import GatePolicy
from evals.suite import Suite, SuiteKind
from evals.verdict import Basis, GateResult, GateStatus

_MAX_EXACT_N = 3_000
_MAX_EXACT_PSI = 0.25
"""Above these the normal approximation is within 12 % of the exact test, which takes seconds."""
_PSI_WHEN_UNSEEN = 0.5
"""Discordant examples assumed when none was seen: half of one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The scores of one gate: a whole suite, or its examples with one tag."""

    suite: Suite
    tag: str | None
    candidate: tuple[float | None, ...]
    champion: tuple[float | None, ...] | None

    @property
    def name(self) -> str:
        return self.suite.name if self.tag is None else f"{self.suite.name}/{self.tag}"

    @property
    def label(self) -> str:
        """How a sentence about this gate begins."""
        return self.suite.name if self.tag is None else self.tag.replace("_", " ")

    @property
    def n(self) -> int:
        return len(self.candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Paired:
    """Counts of examples by who got them right."""

    wins: int
    losses: int
    candidate_right: int
    champion_right: int


def decide(
    candidate: Outcomes, champion: Outcomes | None, suite: Suite, policy: GatePolicy
) -> tuple[GateResult, ...]:
    """One result for the suite and one for each of its tags, the suite first.

    Raises:
        EvidenceMismatch: the outcomes are not of this suite, or not comparable with each other.
    """
    _check_belongs(candidate, suite)
    if champion is not None:
        _check_belongs(champion, suite)
        _check_comparable(candidate, champion)
    return tuple(_judge(group, policy) for group in _groups(candidate, champion, suite, policy))


def _check_belongs(outcomes: Outcomes, suite: Suite) -> None:
    if outcomes.suite_digest != suite.digest:
        raise errors.EvidenceMismatch(
            f"outcomes of {outcomes.checkpoint_digest} were made on suite {outcomes.suite} "
            f"{outcomes.suite_digest}, not on {suite.name} {suite.digest}; evaluate again"
        )
    answered = [outcome.example_id for outcome in outcomes.outcomes]
    if answered != [example.id for example in suite.examples]:
        raise errors.EvidenceMismatch(
            f"outcomes of {outcomes.checkpoint_digest} on suite {suite.name} hold "
            f"{len(answered)} examples that are not the suite's {len(suite.examples)} in its "
            "order; evaluate again"
        )


def _check_comparable(candidate: Outcomes, champion: Outcomes) -> None:
    if candidate.runtime_digest != champion.runtime_digest:
        raise errors.EvidenceMismatch(
            f"candidate and champion were evaluated on suite {candidate.suite} with different "
            f"software or hardware ({candidate.runtime_digest} and {champion.runtime_digest}); "
            "evaluate the champion again"
        )


def _groups(
    candidate: Outcomes, champion: Outcomes | None, suite: Suite, policy: GatePolicy
) -> Iterator[_Group]:
    tags: tuple[str | None, ...] = (None, *(suite.tags if policy.per_tag else ()))
    for tag in tags:
        chosen = [
            index
            for index, example in enumerate(suite.examples)
            if tag is None or tag in example.tags
        ]
        yield _Group(
            suite=suite,
            tag=tag,
            candidate=_scores(candidate, chosen),
            champion=None if champion is None else _scores(champion, chosen),
        )


def _scores(outcomes: Outcomes, chosen: list[int]) -> tuple[float | None, ...]:
    return tuple(outcomes.outcomes[index].score for index in chosen)


def _judge(group: _Group, policy: GatePolicy) -> GateResult:
    missing = sum(score is None for score in group.candidate)
    missing_champion = sum(score is None for score in group.champion or ())
    if missing or missing_champion:
        return _undecided(group, policy, missing, missing_champion)
    if group.champion is None:
        return _against_floor(group, policy)
    return _against_champion(group, policy, _paired(group.candidate, group.champion))


def _paired(candidate: tuple[float | None, ...], champion: tuple[float | None, ...]) -> _Paired:
    pairs = [(c == 1.0, p == 1.0) for c, p in zip(candidate, champion, strict=True)]
    return _Paired(
        wins=sum(c and not p for c, p in pairs),
        losses=sum(p and not c for c, p in pairs),
        candidate_right=sum(c for c, _ in pairs),
        champion_right=sum(p for _, p in pairs),
    )


def _undecided(group: _Group, policy: GatePolicy, missing: int, champion: int) -> GateResult:
    paired = group.champion is not None
    of_champion = f" and {champion:,} of the champion" if champion else ""
    return GateResult(
        name=group.name,
        suite=group.suite.name,
        suite_digest=group.suite.digest,
        tag=group.tag,
        n=group.n,
        basis=Basis.CHAMPION if paired else Basis.FLOOR,
        status=GateStatus.UNDERPOWERED,
        reason=(
            f"{group.label}: of {group.n:,} answers, {missing:,} of the candidate{of_champion} are "
            "missing, and a missing answer is neither right nor wrong; evaluate again"
        ),
        threshold_points=_threshold_points(group, policy),
    )


def _threshold_points(group: _Group, policy: GatePolicy) -> float:
    is_tag = group.tag is not None
    if group.champion is None:
        return 100.0 * policy.floor(group.suite.kind, is_tag=is_tag)
    return -policy.margin(group.suite.name, is_tag=is_tag)


def _against_champion(group: _Group, policy: GatePolicy, paired: _Paired) -> GateResult:
    interval = stats.paired_difference_interval(paired.wins, paired.losses, group.n, policy.alpha)
    threshold = _threshold_points(group, policy)
    lower, upper = 100.0 * interval.lower, 100.0 * interval.upper
    status = _status(lower > threshold, upper < 0.0)
    difference = 100.0 * (paired.wins - paired.losses) / group.n
    bounds = f"difference {difference:+.1f} points [{lower:+.1f}, {upper:+.1f}]"
    needed = _needed(status, lambda: _paired_needed(paired, group.n, -threshold, policy.alpha))
    return GateResult(
        name=group.name,
        suite=group.suite.name,
        suite_digest=group.suite.digest,
        tag=group.tag,
        n=group.n,
        basis=Basis.CHAMPION,
        status=status,
        reason=(
            f"{group.label}: {_change(group.suite.kind, paired)}; {bounds}, "
            f"margin {threshold:+.1f}{_advice(needed)}"
        ),
        candidate_rate=paired.candidate_right / group.n,
        champion_rate=paired.champion_right / group.n,
        wins=paired.wins,
        losses=paired.losses,
        estimate_points=difference,
        lower_points=lower,
        upper_points=upper,
        threshold_points=threshold,
        needed_n=needed,
    )


def _status(is_shown_good: bool, is_shown_bad: bool) -> GateStatus:
    if is_shown_good:
        return GateStatus.PASS
    return GateStatus.FAIL if is_shown_bad else GateStatus.UNDERPOWERED


def _change(kind: SuiteKind, paired: _Paired) -> str:
    """What changed between champion and candidate, in sentences of the suite."""
    right = f"{paired.champion_right:,}"
    if kind is SuiteKind.CLEAN:
        lost = f"of {right} clean sentences that the champion left alone, {paired.losses:,} are now"
        return f"{lost} edited and {paired.wins:,} others are edited no longer"
    lost = f"{paired.losses:,} of {right} sentences that the champion fixed are no longer fixed"
    return f"{lost} and {paired.wins:,} others are newly fixed"


def _needed(status: GateStatus, examples: Callable[[], int]) -> int | None:
    return examples() if status is GateStatus.UNDERPOWERED else None


def _paired_needed(paired: _Paired, n: int, margin_points: float, alpha: float) -> int:
    """About how many examples show it, were the two models equally good and as discordant."""
    psi = max(paired.wins + paired.losses, _PSI_WHEN_UNSEEN) / n
    delta = margin_points / 100.0
    quick = stats.required_n(psi, delta, alpha, power=0.8)
    if quick > _MAX_EXACT_N or psi > _MAX_EXACT_PSI:
        return quick
    return stats.examples_needed(psi, delta, alpha)


def _advice(needed: int | None) -> str:
    if needed is None:
        return ""
    return f"; not enough examples to decide, about {needed:,} are needed for equal models"


def _against_floor(group: _Group, policy: GatePolicy) -> GateResult:
    right = sum(score == 1.0 for score in group.candidate)
    threshold = _threshold_points(group, policy)
    lower = 100.0 * stats.clopper_pearson_lower(right, group.n, policy.alpha)
    upper = 100.0 * stats.clopper_pearson_upper(right, group.n, policy.alpha)
    status = _status(lower >= threshold, upper < threshold)
    done = "left alone" if group.suite.kind is SuiteKind.CLEAN else "fixed"
    advice = "; not enough examples to decide" if status is GateStatus.UNDERPOWERED else ""
    return GateResult(
        name=group.name,
        suite=group.suite.name,
        suite_digest=group.suite.digest,
        tag=group.tag,
        n=group.n,
        basis=Basis.FLOOR,
        status=status,
        reason=(
            f"{group.label}: {right:,} of {group.n:,} sentences {done}, "
            f"{100.0 * right / group.n:.1f} % [{lower:.1f}, {upper:.1f}], "
            f"floor {threshold:.1f} %{advice}"
        ),
        candidate_rate=right / group.n,
        estimate_points=100.0 * right / group.n,
        lower_points=lower,
        upper_points=upper,
        threshold_points=threshold,
    )
