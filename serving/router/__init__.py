"""Chooses one of many endpoints for a request, by two choices and fresh loads.

    fleet = Fleet(zone="a")
    fleet.update([Destination(id="r1", zone="a"), Destination(id="r2", zone="b")], now)
    lease = pick(fleet, rng, now)
    ...                                             # send to lease.endpoint_id
    lease.done(Outcome.SUCCESS, now, in_flight=7)   # 7: as the endpoint reported on its answer

Choosing only: it sends nothing, waits for nothing and imports no library.
"""

from serving.router.errors import NoEndpoints
from serving.router.fleet import EndpointView, Fleet
from serving.router.lease import Lease, Outcome
from serving.router.policy import next_probe, pick
from serving.router.settings import RouterSettings
from serving.router.tracker import Destination, Phase

__all__ = [
    "Destination",
    "EndpointView",
    "Fleet",
    "Lease",
    "NoEndpoints",
    "Outcome",
    "Phase",
    "RouterSettings",
    "next_probe",
    "pick",
]
