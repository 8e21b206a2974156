"""Who answers a call by Serve handle: `serving.router` over the replicas of one deployment.

Knows no Ray: `serving.ray_router` tells it what Serve says. The one idea: a call has one lease at
most, found by the call's id, and whatever ends the call, its replica or the wait for one takes the
lease out of the table and gives it back. So a table that is empty is a fleet at rest.

Belongs to the event loop of Serve's router; `stats` may be asked from any thread.
"""

from __future__ import annotations

import collections
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from serving import router

# Whoever calls by handle is one of few, so it sees much of what it does; no probes are sent.
SETTINGS = router.RouterSettings(probes_per_pick=0.0)
_FULL = 429
_FAULT = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleStats:
    """What the calls of one deployment's handle came to, in this process."""

    picks: int
    """Choices made; a call whose replica died or was full has several."""
    in_flight: int
    """Calls that are not over."""
    by_replica: Mapping[str, int]
    """Choices by replica, those included that are gone."""


class HandleLeases:
    """The leases of the calls under way. Times are of any clock that only goes forward."""

    def __init__(self, zone: str | None = None, rng: random.Random | None = None) -> None:
        self.fleet = router.Fleet(SETTINGS, zone)
        self._rng = rng or random.Random()
        self._leases: dict[str, router.Lease] = {}
        self._picks: collections.Counter[str] = collections.Counter()

    def update(self, replicas: Iterable[router.Destination], now: float) -> None:
        """Takes the whole list of replicas. Calls on one that is missing are given back: Serve
        does not tell of every call that ends with its replica."""
        listed = list(replicas)
        names = {replica.id for replica in listed}
        self.fleet.update(listed, now)
        for call, lease in list(self._leases.items()):
            if lease.endpoint_id not in names:
                self._give_back(call, router.Outcome.CANCELED, now)

    def died(self, replica: str, now: float) -> None:
        """Forgets a replica, with the calls that it held."""
        for call, lease in list(self._leases.items()):
            if lease.endpoint_id == replica:
                self._give_back(call, router.Outcome.UNREACHED, now)
        self.fleet.remove(replica, now)

    def choose(self, call: str, now: float) -> str:
        """The replica for a call, counted there. One that comes again goes elsewhere, if it can.

        Raises:
            NoEndpoints: there is none.
        """
        before = self._leases.get(call)
        tried = () if before is None else (before.endpoint_id,)
        self._give_back(call, router.Outcome.CANCELED, now)
        lease = router.pick(self.fleet, self._rng, now, tried)
        self._leases[call] = lease
        self._picks[lease.endpoint_id] += 1
        return lease.endpoint_id

    def unsent(self, call: str, now: float) -> None:
        """A call was given up before it was sent."""
        self._give_back(call, router.Outcome.CANCELED, now)

    def over(
        self,
        call: str,
        replica: str,
        outcome: router.Outcome,
        now: float,
        in_flight: int | None = None,
    ) -> None:
        """A call has ended at a replica. Late news of one that has gone elsewhere say nothing.

        in_flight: what the replica said that it holds beside this call.
        """
        lease = self._leases.get(call)
        if lease is not None and lease.endpoint_id == replica:
            self._give_back(call, outcome, now, in_flight)

    def stats(self) -> HandleStats:
        """What was chosen so far, and what is under way."""
        by_replica = dict(self._picks)
        return HandleStats(
            picks=sum(by_replica.values()), in_flight=len(self._leases), by_replica=by_replica
        )

    def _give_back(
        self, call: str, outcome: router.Outcome, now: float, in_flight: int | None = None
    ) -> None:
        lease = self._leases.pop(call, None)
        if lease is not None:
            lease.done(outcome, now, in_flight)


def judged(answer: object) -> tuple[router.Outcome, int | None]:
    """What an answer says about its replica: how it did, and what it holds.

    Answers of `Replica.correct` name a status; what else a method answers is a success.
    """
    if not isinstance(answer, Mapping):
        return router.Outcome.SUCCESS, None
    status, load = answer.get("status"), answer.get("in_flight")
    bad = isinstance(status, int) and (status == _FULL or status >= _FAULT)
    outcome = router.Outcome.FAILURE if bad else router.Outcome.SUCCESS
    return outcome, load if isinstance(load, int) else None


_known: dict[str, HandleLeases] = {}


def register(application: str, leases: HandleLeases) -> None:
    """Makes a router's leases known in its process; the newest of an application counts."""
    _known[application] = leases


def stats(application: str) -> HandleStats:
    """What this process sent to an application by handle."""
    leases = _known.get(application)
    return HandleLeases().stats() if leases is None else leases.stats()
