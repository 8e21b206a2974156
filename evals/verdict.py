"""The outcome of a gate as data: one result per suite and tag, and the verdict over all of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

FORMAT = "liftlock/verdict/v1"


class GateStatus(StrEnum):
    """What the evidence shows."""

    PASS = "pass"  # shown to be good enough
    FAIL = "fail"  # shown to be worse
    UNDERPOWERED = "underpowered"  # neither is shown; more examples or a person must decide


class Basis(StrEnum):
    """What the candidate was held against."""

    CHAMPION = "champion"  # paired difference, in percentage points; the threshold is -margin
    FLOOR = "floor"  # a share or a score, in per cent, that must be above the threshold
    CEILING = "ceiling"  # a share or a score, in per cent, that must be below the threshold


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One gate. `*_points` are percentage points (champion) or per cent (floor, ceiling).

    Numbers are None where answers are missing, and champion's numbers where there is none. A
    difference is in favor of the candidate, also of a metric that is better when lower. Rates are
    the values of the metric, 0..1; of clean text the share left alone.
    """

    name: str
    suite: str
    """Name of the suite, or of the family of suites."""
    suite_digest: str
    tag: str | None
    n: int
    basis: Basis
    status: GateStatus
    reason: str
    threshold_points: float | None
    """None where nobody set a floor for a first version."""
    candidate_rate: float | None = None
    champion_rate: float | None = None
    wins: int | None = None
    """Examples that only the candidate got right; None of a corpus score."""
    losses: int | None = None
    """Examples that only the champion got right."""
    estimate_points: float | None = None
    lower_points: float | None = None
    upper_points: float | None = None
    needed_n: int | None = None
    """About how many examples equal models would need; None unless underpowered."""
    metric: str = ""
    method: str = ""
    """How the bounds were found: exact, bootstrap, cluster bootstrap."""
    units: int | None = None
    """How many were resampled; None where nothing was."""
    seed: int | None = None
    p_value: float | None = None
    """Two-sided, of "neither model is better"; not what the gate decides by."""
    power: float | None = None
    """Chance that an equal candidate, as unlike the champion as this one, passes this gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision of record, bound to what was judged and by which rule."""

    status: GateStatus
    candidate_digest: str
    champion_digest: str | None
    policy_digest: str
    results: tuple[GateResult, ...]
    policy: Mapping[str, Any] | None = field(default=None, hash=False)
    """The gate policy as plain data; None in verdicts of before it was kept."""
    skipped: tuple[str, ...] = ()
    """Sentences about optional suites that were not there."""

    @classmethod
    def combine(
        cls,
        results: Iterable[GateResult],
        *,
        candidate_digest: str,
        champion_digest: str | None,
        policy_digest: str,
        policy: Mapping[str, Any] | None = None,
    ) -> Verdict:
        """Pass when every gate passes, fail when any fails, underpowered otherwise.

        No correction for multiplicity: the claim is that *every* gate is met, and a candidate
        that misses one must slip through that very gate, which happens with probability at most
        alpha however many others there are (intersection-union test; Berger 1982,
        Technometrics 24). More gates cost power, never safety.

        Raises:
            ValueError: there is no result; no evidence is not a pass.
        """
        kept = tuple(results)
        if not kept:
            raise ValueError("a verdict needs at least one gate result; configure a suite")
        return cls(
            status=_combined({result.status for result in kept}),
            candidate_digest=candidate_digest,
            champion_digest=champion_digest,
            policy_digest=policy_digest,
            results=kept,
            policy=policy,
        )

    @property
    def reasons(self) -> tuple[str, ...]:
        """The sentences that explain the status: of what did not pass, worst first, else of all."""
        failed = _worst_first(r for r in self.results if r.status is GateStatus.FAIL)
        undecided = _worst_first(r for r in self.results if r.status is GateStatus.UNDERPOWERED)
        return tuple(r.reason for r in failed + undecided or self.results)

    def to_json(self) -> str:
        """The stored form."""
        return json.dumps({"format": FORMAT, **dataclasses.asdict(self)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Verdict:
        """Reads the stored form.

        Raises:
            ValueError: the text is not such a document.
        """
        try:
            raw = json.loads(text)
            if raw.pop("format") != FORMAT:
                raise ValueError(f"not {FORMAT}")
            results = tuple(_result(item) for item in raw.pop("results"))
            typed = {"status": GateStatus(raw["status"]), "skipped": tuple(raw.get("skipped", ()))}
            return cls(**{**raw, **typed}, results=results)
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"not a liftlock verdict document: {exc!r}") from exc


def _worst_first(results: Iterable[GateResult]) -> tuple[GateResult, ...]:
    """By how far the estimate is below the threshold; those without an estimate come last."""

    def shortfall(result: GateResult) -> float:
        if result.estimate_points is None or result.threshold_points is None:
            return float("inf")
        above = result.estimate_points - result.threshold_points
        return -above if result.basis is Basis.CEILING else above

    return tuple(sorted(results, key=shortfall))


def _result(raw: dict[str, object]) -> GateResult:
    typed = {"status": GateStatus(str(raw["status"])), "basis": Basis(str(raw["basis"]))}
    return GateResult(**{**raw, **typed})  # type: ignore[arg-type]


def _combined(statuses: set[GateStatus]) -> GateStatus:
    if GateStatus.FAIL in statuses:
        return GateStatus.FAIL
    if GateStatus.UNDERPOWERED in statuses:
        return GateStatus.UNDERPOWERED
    return GateStatus.PASS
