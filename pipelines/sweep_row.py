"""One variant of a sweep with all that was found out about it, as data for tables and plots."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from evals.pace import Pace
from evals.verdict import Basis, GateStatus, Verdict
from pipelines.pick import Candidate

PARENT = "parent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A suite's difference to the parent, percentage points; positive is better than the parent."""

    gate: str
    points: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A variant; the parent is the row that the others are held against."""

    name: str
    version: int
    recipe: str
    """Label of the scheme."""
    excluded: tuple[str, ...]
    """Layer groups left in BF16."""
    size_bytes: int
    """Weight files of the checkpoint."""
    weight_error: float | None
    """Largest relative error over the kinds of layers; None where nothing was written."""
    status: GateStatus | None
    """None: not judged, because it is the parent or could not be run."""
    reason: str
    """Why it did not pass, or why it could not be run; empty otherwise."""
    worst: Difference | None
    pace: Pace | None

    @property
    def is_parent(self) -> bool:
        """Whether the others are held against it."""
        return self.name == PARENT

    @property
    def candidate(self) -> Candidate:
        """What the pick is made from."""
        return Candidate(
            name=self.name,
            status=self.status,
            speedup=self.pace.speedup if self.pace is not None else None,
            size_bytes=self.size_bytes,
            quality_points=0.0 if self.is_parent else self.worst.points if self.worst else None,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            **dataclasses.asdict(self),
            "status": None if self.status is None else str(self.status),
            "excluded": list(self.excluded),
        }


def worst_of(verdict: Verdict) -> Difference | None:
    """The suite, or family, with the lowest estimate; tags are left to the gate. Pure."""
    found = [
        Difference(
            gate=r.name, points=r.estimate_points, lower=r.lower_points, upper=r.upper_points
        )
        for r in verdict.results
        if r.basis is Basis.CHAMPION
        and r.tag is None
        and r.estimate_points is not None
        and r.lower_points is not None
        and r.upper_points is not None
    ]
    return min(found, key=lambda d: (d.points, d.gate), default=None)
