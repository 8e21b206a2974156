"""Asks again while MLflow is away, for as long as somebody is willing to wait, and says so.

Only being away is waited for. A refusal is the same the next time and goes straight to the caller.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from registry.errors import RecordUnavailable

T = TypeVar("T")

FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 5.0
NOTE_EVERY_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long to wait for MLflow, and who is told meanwhile."""

    patience_s: float
    """Longest wait of one call, in seconds; 0 asks once."""
    note: Callable[[str], None]
    clock: Callable[[], float]
    """Seconds that never go backwards."""
    sleep: Callable[[float], None]
    kept: Callable[[], str]
    """What is kept for MLflow and where, as a sentence; empty for nothing."""
    jitter: Callable[[], float] = field(default=random.random)
    """Uniform in 0..1; keeps many waiting commands from asking in step."""

    def wait_for(self, action: str, call: Callable[[], T]) -> T:
        """The call's result.

        Raises:
            RecordUnavailable: MLflow was away all the time; says what is kept.
        """
        started = self.clock()
        next_note_s, pause_s = 0.0, FIRST_PAUSE_S
        while True:
            try:
                return call()
            except RecordUnavailable as exc:
                waited_s = self.clock() - started
                if waited_s >= self.patience_s:
                    raise self._gave_up(action, waited_s, exc) from exc
            if waited_s >= next_note_s:
                self.note(
                    f"MLflow does not answer ({waited_s:.0f} s); waiting up to "
                    f"{self.patience_s:.0f} s"
                )
                next_note_s = waited_s + NOTE_EVERY_S
            # Half of the pause is certain, so that nobody hammers; half is chance.
            wanted_s = pause_s * (0.5 + 0.5 * self.jitter())
            self.sleep(max(min(wanted_s, self.patience_s - waited_s), 0.01))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _gave_up(self, action: str, waited_s: float, exc: RecordUnavailable) -> RecordUnavailable:
        waited = f" for {waited_s:.0f} s" if self.patience_s > 0 else ""
        return RecordUnavailable(
            " ".join(
                part
                for part in (
                    f"MLflow has not answered{waited} while {action}: {exc}.",
                    self.kept(),
                    "Once it answers, the same command goes on where this one stopped",
                )
                if part
            )
        )
