"""Which of several addresses to ask: `serving.router` over the edges that a client knows.

The one idea: the router belongs to one thread, a client is shared between several, so choosing,
giving back and looking happen under one lock, for which giving back does not wait: it may come out
of a garbage collection in the very thread that holds it. What a client tells the router:

- a connection that cannot be made, or breaks, leaves an address out at once;
- one late answer is a long text, three in a row are an address that hangs;
- whatever is answered is a success: through an edge a status speaks of a replica behind it. For the
  same reason the load that a replica reports on its answer (`endpoint-load-metrics`) is not read:
  as the load of the edge it would send requests away from an edge that had just chosen badly.
"""

from __future__ import annotations

import collections
import random
import threading
from collections.abc import Callable, Sequence
from types import TracebackType

from serving import router
from serving.client import types

LATE = router.Outcome.FAILURE
UNREACHED = router.Outcome.UNREACHED
ANSWERED = router.Outcome.SUCCESS

SETTINGS = router.RouterSettings(
    # Three late answers: 1 - 0.6^3 = 0.78; one without a connection: 1.
    failure_weight=0.4, unreached_weight=1.0, eject_at=0.75,
    # An edge is back within seconds, and a caller has nowhere else to go.
    ejection_s=1.0, max_ejection_s=15.0, probation_share=0.5, probation_successes=1,
    slow_start_s=1.0,
    # Callers name a few edges; the last one is never left out, whatever the share.
    max_ejected_share=0.99,
    probes_per_pick=0.0,
)  # fmt: skip


class Lease:
    """The right to ask an address once. Given back at the end, at the latest by `with`."""

    def __init__(self, edges: Edges, lease: router.Lease) -> None:
        self._edges = edges
        self._lease = lease
        self._ending = router.Outcome.CANCELED

    @property
    def address(self) -> str:
        return self._lease.endpoint_id

    def give_back(self, outcome: router.Outcome) -> None:
        """Ends it; only the first call counts."""
        self._edges.done(self._lease, outcome)

    def answered(self) -> None:
        """Somebody is there, and the request goes on."""
        self._ending = ANSWERED

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.give_back(self._ending)


class Edges:
    """The addresses of a client and what it knows about them. Safe to share between threads."""

    def __init__(
        self,
        addresses: Sequence[str],
        rng: random.Random,
        now_s: Callable[[], float],
        zone: str | None = None,
    ) -> None:
        """`zone` is the one whose edges are asked first; none where it is None."""
        self._rng = rng
        self._now_s = now_s
        self._lock = threading.Lock()
        self._over: collections.deque[tuple[router.Lease, router.Outcome]] = collections.deque()
        """Given back and not yet told to the router."""
        self._picks: collections.Counter[str] = collections.Counter()
        self._fleet = router.Fleet(SETTINGS, zone)
        self._addresses: tuple[str, ...] = ()
        self.replace([router.Destination(id=each) for each in addresses])

    def replace(self, destinations: Sequence[router.Destination]) -> None:
        """Takes the whole list of addresses. One that is new joins slowly, unless none was known;
        one that is missing gets nothing new, and what it holds goes on."""
        with self._lock:
            self._settle()
            self._fleet.update(destinations, self._now_s())
            self._addresses = tuple(each.id for each in destinations)
            for gone in self._picks.keys() - set(self._addresses):
                del self._picks[gone]

    def known(self) -> bool:
        """Whether there is an address to ask."""
        return bool(self._addresses)

    def lease(self, tried: Sequence[str]) -> Lease:
        """An address for the next attempt of a call: one it has not tried, where there is one."""
        with self._lock:
            self._settle()
            lease = router.pick(self._fleet, self._rng, self._now_s(), tried)
            self._picks[lease.endpoint_id] += 1
        return Lease(self, lease)

    def done(self, lease: router.Lease, outcome: router.Outcome) -> None:
        """Gives a lease back; for leases only."""
        self._over.append((lease, outcome))
        if self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def untried(self, tried: Sequence[str]) -> bool:
        """Whether there is an address that a call has not asked yet."""
        return any(each not in tried for each in self._addresses)

    def stats(self) -> types.Stats:
        """What was chosen so far, and what is under way at the addresses known now."""
        with self._lock:
            self._settle()
            views = self._fleet.views()
            edges = tuple(
                types.EdgeStats(
                    address=each,
                    picks=self._picks[each],
                    in_flight=views[each].in_flight,
                    is_left_out=views[each].phase is router.Phase.EJECTED,
                )
                for each in self._addresses
            )
            return types.Stats(picks=self._fleet.picks, edges=edges)

    def _settle(self) -> None:
        """With the lock held."""
        while self._over:
            lease, outcome = self._over.popleft()
            lease.done(outcome, self._now_s())
