"""A replica as a queue: first come, first served, into a fixed number of slots."""

from __future__ import annotations

import heapq
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSpec:
    """What a replica can do.

    Raises:
        ValueError: a field is out of its bounds.
    """

    slots: int = 1
    """Requests worked on at once; the rest waits."""
    slowdown: float = 1.0
    """Work takes this many times as long here."""
    fails: bool = False
    """Answers every request at once with a fault."""

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"slots must be at least 1, got {self.slots}")
        if self.slowdown <= 0:
            raise ValueError(f"slowdown must be above 0, got {self.slowdown}")


class Replica:
    """The queue itself. With first come, first served, the end of a request is known at its start,
    so a request costs two events, not one for each step in the queue."""

    __slots__ = ("_free_at", "fails", "in_flight", "served", "slowdown")

    def __init__(self, spec: ReplicaSpec) -> None:
        self.slowdown = spec.slowdown
        self.fails = spec.fails
        self.in_flight = 0
        """Waiting and worked on."""
        self.served = 0
        self._free_at = [0.0] * spec.slots
        """When each slot is free; a heap."""

    def arrive(self, now: float, work_s: float) -> float:
        """Takes a request; returns when it will be done."""
        self.in_flight += 1
        if self.fails:
            return now
        starts = max(self._free_at[0], now)
        ends = starts + work_s * self.slowdown
        heapq.heapreplace(self._free_at, ends)
        return ends

    def depart(self) -> int:
        """Lets a request go; returns how many are left, which goes on its answer."""
        self.in_flight -= 1
        self.served += 1
        return self.in_flight
