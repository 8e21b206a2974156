"""Which variant of a sweep to take, from numbers alone.

The rule: the fastest variant that passes the gate and is measurably faster than its parent. Where
memory is the aim, the smallest that passes and is smaller than its parent, however slow. Nothing is
picked where nothing qualifies: the parent stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evals.pace import Measured
from evals.verdict import GateStatus
from pipelines.recipe import Aim


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """What is known of a variant; None was not measured."""

    name: str
    status: GateStatus | None
    """What the gate says of it against its parent."""
    speedup: Measured | None
    """Requests per second over those of its parent."""
    size_bytes: int
    """Weight files."""
    quality_points: float | None = None
    """The worst difference to the parent over the suites, in percentage points."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The answer of a sweep."""

    name: str | None
    """None keeps the parent."""
    reason: str


def pick(candidates: Sequence[Candidate], aim: Aim, *, parent_bytes: int) -> Pick:
    """The variant to take. Pure; ties go to the smaller, then to the first name."""
    passing = [c for c in candidates if c.status is GateStatus.PASS]
    if not passing:
        return Pick(name=None, reason=_none_passes(candidates))
    if aim is Aim.MEMORY:
        return _smallest(passing, parent_bytes)
    return _fastest(passing)


def _fastest(passing: Sequence[Candidate]) -> Pick:
    faster = [(c, c.speedup) for c in passing if c.speedup is not None and c.speedup.is_above_one]
    if not faster:
        told = [(c, c.speedup) for c in passing if c.speedup is not None]
        reason = f"{_count(passing)} pass the gate, and none is measurably faster than its parent"
        if told:
            best, speedup = max(told, key=lambda item: item[1].value)
            reason += f"; the fastest, {best.name}, makes {_times(speedup)} of its requests/s"
        return Pick(name=None, reason=reason)
    best, speedup = min(faster, key=lambda item: (-item[1].value, item[0].size_bytes, item[0].name))
    return Pick(
        name=best.name,
        reason=f"the fastest of the {_count(passing)} that pass the gate: {_times(speedup)} of its "
        "parent's requests/s",
    )


def _smallest(passing: Sequence[Candidate], parent_bytes: int) -> Pick:
    smaller = [c for c in passing if c.size_bytes < parent_bytes]
    if not smaller:
        return Pick(
            name=None,
            reason=f"{_count(passing)} pass the gate, and none is smaller than its parent",
        )
    best = min(smaller, key=lambda c: (c.size_bytes, -_speed(c), c.name))
    reason = (
        f"the smallest of the {_count(passing)} that pass the gate: "
        f"{best.size_bytes / parent_bytes:.2f} of its parent's size"
    )
    if best.speedup is not None and not best.speedup.is_above_one:
        reason += (
            f", at {_times(best.speedup)} of its requests/s: taken for its size, not its speed"
        )
    return Pick(name=best.name, reason=reason)


def _speed(candidate: Candidate) -> float:
    return 0.0 if candidate.speedup is None else candidate.speedup.value


def _none_passes(candidates: Sequence[Candidate]) -> str:
    undecided = sum(c.status is GateStatus.UNDERPOWERED for c in candidates)
    failed = sum(c.status is GateStatus.FAIL for c in candidates)
    return f"no variant passes the gate: {failed} failed, {undecided} could not be decided"


def _count(found: Sequence[Candidate]) -> str:
    return f"{len(found)} variant{'s' if len(found) != 1 else ''}"


def _times(speedup: Measured) -> str:
    return f"{speedup.value:.2f} [{speedup.lower:.2f}, {speedup.upper:.2f}]"


def front(points: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """Positions of the points that no other point beats: none is as good in every coordinate and
    better in one. Greater is better; equal points are all kept. Pure.

    Raises:
        ValueError: points differ in their number of coordinates.
    """
    return tuple(
        i for i, mine in enumerate(points) if not any(_beats(other, mine) for other in points)
    )


def _beats(one: Sequence[float], other: Sequence[float]) -> bool:
    pairs = list(zip(one, other, strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def pareto(candidates: Sequence[Candidate]) -> frozenset[str]:
    """Names of the variants on the front of speed, size and quality; those that were measured."""
    known = [
        (c.name, (c.speedup.value, -float(c.size_bytes), c.quality_points))
        for c in candidates
        if c.speedup is not None and c.quality_points is not None
    ]
    return frozenset(known[i][0] for i in front([point for _, point in known]))
