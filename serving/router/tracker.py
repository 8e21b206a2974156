"""What a router knows of one endpoint, and the endpoints of one zone side by side.

The one idea: counts live on the tracker, not in a table. Whoever holds a lease holds the tracker,
so the lease of a removed endpoint counts down what nobody looks at any more, and nothing leaks.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass

from serving.router.settings import RouterSettings

_LONG_AGO = float("-inf")


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """An endpoint as discovery names it. `id` names one incarnation: a replica, not an address
    that several replicas have in turn."""

    id: str
    zone: str | None = None
    draining: bool = False


class Phase(enum.Enum):
    """How an endpoint takes part."""

    SERVING = "serving"
    """Takes its full share."""
    WARMING = "warming"
    """New; its share grows (slow start)."""
    EJECTED = "ejected"
    """Failed too often; takes nothing until its time is over."""
    PROBATION = "probation"
    """Back from an ejection; takes one request at a time, now and then."""
    DRAINING = "draining"
    """Finishes what it holds; takes nothing new."""
    GONE = "gone"
    """Removed; only leases still know it."""


class Tracker:
    """Counts and health of one endpoint. `in_flight` changes in `pick` and `Fleet.settle` only."""

    __slots__ = (
        "ejections", "failure_rate", "group", "heard_at", "id", "in_flight", "others", "phase",
        "place", "since", "successes", "term", "thinned", "zone",
    )  # fmt: skip

    def __init__(self, destination: Destination, phase: Phase, now: float) -> None:
        self.id = destination.id
        self.zone = destination.zone
        self.in_flight = 0
        """Requests of this router."""
        self.others = 0
        """Requests of everybody else, from the newest report at `heard_at`."""
        self.heard_at = _LONG_AGO
        self.failure_rate = 0.0
        self.ejections = 0
        """Since it last served in full."""
        self.term = 0
        """Ejections so far; outcomes of requests chosen in an earlier term are not judged."""
        self.successes = 0
        """In this probation."""
        self.group: Group | None = None
        self.place = -1
        """Index among the group's members."""
        self.enter(phase, now)

    def enter(self, phase: Phase, now: float) -> None:
        """Changes the phase; `since` says when an ejection ends, else when the phase began."""
        self.phase = phase
        self.since = now
        self.thinned = phase in (Phase.WARMING, Phase.PROBATION)

    def hear(self, in_flight: int, now: float) -> None:
        """Takes what the endpoint said it has in flight, everybody's requests together."""
        others = in_flight - self.in_flight
        self.others = others if others > 0 else 0
        self.heard_at = now


class Group:
    """The endpoints of one zone (or of all others) that may be chosen, each in O(1)."""

    __slots__ = (
        "members", "probe_max_age_s", "probed", "probes_owed", "probes_per_pick",
        "report_max_age_s",
    )  # fmt: skip

    def __init__(self, settings: RouterSettings) -> None:
        self.members: list[Tracker] = []
        self.probed: deque[Tracker] = deque(maxlen=settings.probe_pool_size)
        """Endpoints with a fresh answer to a probe, the newest last."""
        self.probes_owed = 0.0
        self.probes_per_pick = settings.probes_per_pick
        self.probe_max_age_s = settings.probe_max_age_s
        self.report_max_age_s = settings.report_max_age_s

    def join(self, tracker: Tracker) -> None:
        """Lets the tracker be chosen."""
        tracker.group = self
        tracker.place = len(self.members)
        self.members.append(tracker)

    def leave(self, tracker: Tracker) -> None:
        """Lets it be chosen no more; the last member takes its place."""
        last = self.members.pop()
        if last is not tracker:
            self.members[tracker.place] = last
            last.place = tracker.place
        tracker.group = None
        tracker.place = -1
