"""The endpoints one router chooses among: who takes part, and who is ejected for failing.

Belongs to one event loop. No clock of its own: every call that needs the time is given it, in
seconds of any clock that only goes forward.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from serving.router.lease import Lease, Outcome
from serving.router.settings import RouterSettings
from serving.router.tracker import Destination, Group, Phase, Tracker

_NEVER = float("inf")
_FORGOTTEN = 0.01
"""A failure rate below this is zero, so that healthy endpoints cost no arithmetic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointView:
    """What is known of an endpoint, for a status page or a test."""

    phase: Phase
    in_flight: int
    failure_rate: float


class Fleet:
    """State of one router. `pick` chooses from it, leases give back to it.

    `zone` is where the router runs; None means that no zone is preferred.
    """

    def __init__(self, settings: RouterSettings | None = None, zone: str | None = None) -> None:
        self.settings = settings or RouterSettings()
        self.zone = zone
        self.near = Group(self.settings)
        self.far = Group(self.settings)
        self.spill_at = self.settings.spill_at
        self.next_return = _NEVER
        """When the first ejection ends."""
        self.picks = 0
        """Requests sent so far."""
        self._trackers: dict[str, Tracker] = {}
        self._ejected: set[Tracker] = set()
        self._present = 0
        """Endpoints that are not draining."""

    def update(self, destinations: Iterable[Destination], now: float) -> None:
        """Takes the whole list of endpoints: new ones join, missing ones go, draining ones get
        nothing new. Of several with one id the last counts. The first list starts in full, since
        it is the router that is new then; later ones join slowly."""
        listed = {destination.id: destination for destination in destinations}
        first = Phase.WARMING if self._trackers else Phase.SERVING
        for gone in [known for known in self._trackers if known not in listed]:
            self._drop(gone)
        for destination in listed.values():
            tracker = self._trackers.get(destination.id)
            if tracker is None:
                self._add(destination, first, now)
            else:
                self._change(tracker, destination, now)
        self._keep_cap(now)

    def remove(self, endpoint_id: str, now: float) -> None:
        """Forgets an endpoint that died; does nothing where it is not known."""
        if endpoint_id in self._trackers:
            self._drop(endpoint_id)
            self._keep_cap(now)

    def report(self, endpoint_id: str, in_flight: int, now: float) -> None:
        """Takes the answer to a probe: requests of everybody that the endpoint holds. It proposes
        the endpoint to the choices of the next moment."""
        tracker = self._trackers.get(endpoint_id)
        if tracker is not None and tracker.group is not None:
            tracker.hear(in_flight, now)
            tracker.group.probed.append(tracker)

    def settle(self, lease: Lease, outcome: Outcome, now: float, in_flight: int | None) -> None:
        """Called by a lease, once: its request is over."""
        tracker = lease.tracker
        tracker.in_flight -= 1
        if in_flight is not None:
            tracker.hear(in_flight, now)
        if lease.term != tracker.term or tracker.group is None:
            return  # chosen before an ejection, or out of the choice now
        if outcome is Outcome.FAILURE:
            self._failed(tracker, self.settings.failure_weight, now)
        elif outcome is Outcome.SUCCESS and (tracker.failure_rate or tracker.thinned):
            self._succeeded(tracker, now)
        elif outcome is Outcome.UNREACHED:
            self._failed(tracker, self.settings.unreached_weight, now)

    def readmit(self, now: float) -> None:
        """Puts those on probation whose ejection is over."""
        for tracker in [t for t in self._ejected if t.since <= now]:
            self._end_ejection(tracker, now)
        self._plan_return()

    def views(self) -> Mapping[str, EndpointView]:
        """What is known of every endpoint, by id."""
        return {
            known.id: EndpointView(
                phase=known.phase, in_flight=known.in_flight, failure_rate=known.failure_rate
            )
            for known in self._trackers.values()
        }

    @property
    def ejected(self) -> list[Tracker]:
        """Those that are left out for failing."""
        return sorted(self._ejected, key=lambda tracker: tracker.id)

    @property
    def ejections_allowed(self) -> int:
        """How many endpoints may be ejected at once; never all of them."""
        share = int(self.settings.max_ejected_share * self._present)
        return max(share, 1 if self._present > 1 else 0)

    def _failed(self, tracker: Tracker, weight: float, now: float) -> None:
        tracker.failure_rate += weight * (1.0 - tracker.failure_rate)
        failing = tracker.failure_rate >= self.settings.eject_at
        if (failing or tracker.phase is Phase.PROBATION) and (
            len(self._ejected) < self.ejections_allowed
        ):
            self._eject(tracker, now)

    def _succeeded(self, tracker: Tracker, now: float) -> None:
        rate = tracker.failure_rate * (1.0 - self.settings.failure_weight)
        tracker.failure_rate = rate if rate > _FORGOTTEN else 0.0
        if tracker.phase is Phase.PROBATION:
            tracker.successes += 1
            if tracker.successes >= self.settings.probation_successes:
                tracker.failure_rate = 0.0
                tracker.enter(Phase.WARMING, now)

    def _eject(self, tracker: Tracker, now: float) -> None:
        assert tracker.group is not None
        tracker.group.leave(tracker)
        tracker.ejections += 1
        tracker.term += 1
        length = min(self.settings.ejection_s * tracker.ejections, self.settings.max_ejection_s)
        tracker.enter(Phase.EJECTED, now + length)
        self._ejected.add(tracker)
        self._plan_return()

    def _end_ejection(self, tracker: Tracker, now: float) -> None:
        self._ejected.discard(tracker)
        tracker.successes = 0
        self._come_back(tracker, Phase.PROBATION, now)

    def _keep_cap(self, now: float) -> None:
        """Ends the ejections that a smaller fleet does not allow any more, the oldest first."""
        excess = len(self._ejected) - self.ejections_allowed
        if excess > 0:
            for tracker in sorted(self._ejected, key=lambda t: t.since)[:excess]:
                self._end_ejection(tracker, now)
        self._plan_return()

    def _plan_return(self) -> None:
        self.next_return = min((t.since for t in self._ejected), default=_NEVER)

    def _add(self, destination: Destination, phase: Phase, now: float) -> None:
        tracker = Tracker(destination, phase, now)
        self._trackers[destination.id] = tracker
        if destination.draining:
            tracker.enter(Phase.DRAINING, now)
        else:
            self._come_back(tracker, phase, now)
            self._present += 1

    def _change(self, tracker: Tracker, destination: Destination, now: float) -> None:
        if tracker.zone != destination.zone:
            tracker.zone = destination.zone
            if tracker.group is not None:
                tracker.group.leave(tracker)
                self._join(tracker)
        if destination.draining:
            self._drain(tracker, now)
        elif tracker.phase is Phase.DRAINING:
            self._come_back(tracker, Phase.WARMING, now)
            self._present += 1

    def _come_back(self, tracker: Tracker, phase: Phase, now: float) -> None:
        tracker.enter(phase, now)
        self._join(tracker)

    def _join(self, tracker: Tracker) -> None:
        near = self.zone is None or tracker.zone == self.zone
        (self.near if near else self.far).join(tracker)

    def _drain(self, tracker: Tracker, now: float) -> None:
        if tracker.phase is not Phase.DRAINING:
            self._take_out(tracker)
            tracker.enter(Phase.DRAINING, now)

    def _drop(self, endpoint_id: str) -> None:
        tracker = self._trackers.pop(endpoint_id)
        if tracker.phase is not Phase.DRAINING:
            self._take_out(tracker)
        tracker.enter(Phase.GONE, 0.0)

    def _take_out(self, tracker: Tracker) -> None:
        self._present -= 1
        self._ejected.discard(tracker)
        if tracker.group is not None:
            tracker.group.leave(tracker)
