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
    plane: Callable[[], Plane]
    """Opens the serving plane of the model; called only when traffic is about to change."""
    cache: Path
    """Verified checkpoint directories by digest."""
    work: Path
    """Scratch space of stage workers."""
    progress: Progress
    now: Callable[[], str]
    """UTC now, ISO 8601 to the second."""
    actor: str
    """Who asked, as far as the machine knows; not proof of identity."""
