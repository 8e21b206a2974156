"""Where a promotion works: the record, the serving plane, local folders, who is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipelines.stage import Progress
from registry.store import Record
from serving.plane import Plane


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Everything outside the promotion itself; passed down, never global."""

    record: Record
    plane: Callable[[int], Plane]
    """Opens the serving plane of the model under an owner's epoch; older owners are refused by it
    from then on. Called only when traffic is about to change."""
    edge_epoch: Callable[[], int]
    """The highest epoch that the edge has seen for the model; 0 where there is none."""
    cache: Path
    """Verified checkpoint directories by digest."""
    journal: Path
    """What is kept for a record that is away, and what going back without it needs."""
    work: Path
    """Scratch space of stage workers."""
    progress: Progress
    now: Callable[[], str]
    """UTC now, ISO 8601 to the second."""
    standing: Callable[[], bool]
    """Whether a serving plane runs already; opening one where none does would start it."""
    actor: str
    """Who asked, as far as the machine knows; not proof of identity."""
