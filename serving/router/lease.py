"""A choice that was made: the place at an endpoint that a request holds until it is over."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from serving.router.fleet import Fleet
    from serving.router.tracker import Tracker


class Outcome(enum.Enum):
    """How a request ended, as far as it says something about the endpoint."""

    SUCCESS = "success"
    """The endpoint did what it should; a refused bad request is one, too."""
    FAILURE = "failure"
    """The endpoint's fault: late, broke off, 5xx, or refused for being full. A replica that
    refuses looks idle, and would attract more."""
    UNREACHED = "unreached"
    """No connection came about, or none is left: a failure that may weigh more than others."""
    CANCELED = "canceled"
    """The caller gave up; says nothing about the endpoint."""


class Lease:
    """One request's place at one endpoint; give it back with `done`, whatever happened.

    Leases are not recycled: a second `done` on a recycled one would give back another's place.
    """

    __slots__ = ("_fleet", "_open", "term", "tracker")

    def __init__(self, fleet: Fleet, tracker: Tracker) -> None:
        self._fleet = fleet
        self._open = True
        self.term = tracker.term
        self.tracker = tracker

    @property
    def endpoint_id(self) -> str:
        """Where the request goes."""
        return self.tracker.id

    def done(self, outcome: Outcome, now: float, in_flight: int | None = None) -> bool:
        """Gives the place back. Only the first call counts and returns True, so that a
        cancellation may race with an answer.

        `in_flight` is what the endpoint reported on its answer: requests of everybody that it
        still holds, the answered one left out; None where it said nothing.
        """
        if not self._open:
            return False
        self._open = False
        self._fleet.settle(self, outcome, now, in_flight)
        return True
