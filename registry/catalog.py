"""What there is on a tracking server beyond one model's record: models, and who works right now.

Read by those who only look. What a promotion itself needs is in registry.store.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A promotion, a rollback or one of their stages, ended or not."""

    run_id: str
    name: str
    stage: str
    """`promotion`, `rollback`, or a stage's name."""
    is_running: bool
    """As its maker left it: that of a command that was killed says so for ever."""
    params: Mapping[str, str]
    tags: Mapping[str, str]
    started_at_ms: int
    """Unix time."""
    ended_at_ms: int | None


class Catalog(Protocol):
    """See the module."""

    def models(self) -> tuple[str, ...]:
        """The models that were ever promoted or tried here, sorted."""
        ...

    def unfinished(self, model: str) -> Run | None:
        """The newest promotion or rollback that nobody has ended, if there is one."""
        ...

    def stages(self, model: str, run_id: str) -> tuple[Run, ...]:
        """The stages of a promotion so far, oldest first."""
        ...
