"""The outcome of a gate as data: one result per suite and tag, and the verdict over all of them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

FORMAT = "liftlock/verdict/v1"


class GateStatus(StrEnum):
    """What the evidence shows."""

    PASS = "pass"  # shown to be good enough
    FAIL = "fail"  # shown to be worse
    UNDERPOWERED = "underpowered"  # neither is shown; more examples or a person must decide


class Basis(StrEnum):
    """What the candidate was held against."""

    CHAMPION = "champion"  # paired difference, in percentage points; the threshold is -margin
    FLOOR = "floor"  # share of right answers, in per cent; the threshold is the floor


@dataclass(frozen=True, slots=True, kw_only=True)
class GateResult:
    """One gate. `*_points` are percentage points (champion) or per cent (floor).

    Numbers are None where answers are missing, and champion's numbers where there is none.
    `wins` are examples that only the candidate got right, `losses` only the champion.
    `needed_n` is about how many examples would decide; None unless underpowered.
    """

    name: str
    suite: str
    suite_digest: str
    tag: str | None
    n: int
    basis: Basis
    status: GateStatus
    reason: str
    threshold_points: float
    candidate_rate: float | None = None
    champion_rate: float | None = None
    wins: int | None = None
    losses: int | None = None
    estimate_points: float | None = None
    lower_points: float | None = None
    upper_points: float | None = None
    needed_n: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision of record, bound to what was judged and by which rule."""

    status: GateStatus
    candidate_digest: str
    champion_digest: str | None
    policy_digest: str
    results: tuple[GateResult, ...]

    @classmethod
    def combine(
        cls,
        results: Iterable[GateResult],
        *,
        candidate_digest: str,
        champion_digest: str | None,
        policy_digest: str,
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
            return cls(**{**raw, "status": GateStatus(raw["status"])}, results=results)
        except (KeyError, TypeError, AttributeError) as exc:
            raise ValueError(f"not a liftlock verdict document: {exc!r}") from exc


def _worst_first(results: Iterable[GateResult]) -> tuple[GateResult, ...]:
    """By how far the estimate is below the threshold; those without an estimate come last."""

    def shortfall(result: GateResult) -> float:
        if result.estimate_points is None:
            return float("inf")
        return result.estimate_points - result.threshold_points

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
