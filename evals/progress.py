"""How far a suite is, how fast it goes and how long it will take, in lines for people."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

LEAST_PAUSE_S = 2.0
STEPS = 20
"""A suite is reported about this often, and never twice within the pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which suite of how many."""

    name: str
    number: int
    of: int


class Progress:
    """Counts inputs and tells about examples; each example has `parts` inputs."""

    def __init__(
        self,
        place: Place,
        tell: Callable[[str], None],
        *,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._place = place
        self._tell = tell
        self._clock_s = clock_s
        self._parts = 1
        self._total = self._before = self._done = self._told = 0
        self._began_s = self._told_s = 0.0

    def begin(self, *, total: int, done: int, parts: int) -> None:
        """`done` of `total` inputs were answered by an earlier run; they do not count as speed."""
        self._parts = parts
        self._total, self._before = total, done
        self._done = self._told = done
        self._began_s = self._told_s = self._clock_s()
        if done:
            self._tell(f"{self._head()} were answered before")

    def step(self) -> None:
        """One more input is answered."""
        self._done += 1
        now_s = self._clock_s()
        is_last = self._done == self._total
        is_due = self._done - self._told >= self._total / STEPS
        if is_last or (is_due and now_s - self._told_s >= LEAST_PAUSE_S):
            self._told, self._told_s = self._done, now_s
            self._tell(f"{self._head()}{self._speed(now_s)}")

    def _head(self) -> str:
        place = self._place
        of = f" (suite {place.number} of {place.of})" if place.of > 1 else ""
        return f"{place.name} {self._done // self._parts}/{self._total // self._parts}{of}"

    def _speed(self, now_s: float) -> str:
        elapsed_s = now_s - self._began_s
        made = self._done - self._before
        if elapsed_s <= 0:
            return ""
        per_s = made / elapsed_s
        left_s = (self._total - self._done) / per_s
        left = f", {_duration(left_s)} left" if self._done < self._total else ""
        return f", {per_s / self._parts:.3g} examples/s{left}"


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
