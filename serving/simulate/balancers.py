"""Who chooses a replica in a simulation: the router, and the plain rules it is compared with."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from serving import router


@dataclass(frozen=True, slots=True)
class Ticket:
    """A choice; the lease of those who count."""

    replica: int
    lease: router.Lease | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back to whoever chose."""

    in_flight: int
    """Requests that the replica still holds."""
    failed: bool = False


class Balancer(Protocol):
    """One router of a fleet; it sees only what comes back to it."""

    def choose(self, now: float) -> Ticket:
        """Chooses for a request that goes now."""
        ...

    def answered(self, ticket: Ticket, answer: Answer, now: float) -> None:
        """The request is over."""
        ...

    def probes(self) -> Sequence[int]:
        """Replicas to ask for their load now."""
        ...

    def probed(self, replica: int, in_flight: int, now: float) -> None:
        """A probe is answered."""
        ...


class _Blind:
    """Takes no notice of anything that comes back."""

    def answered(self, ticket: Ticket, answer: Answer, now: float) -> None:
        """Nothing to count."""

    def probes(self) -> Sequence[int]:
        """None."""
        return ()

    def probed(self, replica: int, in_flight: int, now: float) -> None:
        """Never asked."""


class AtRandom(_Blind):
    """Any replica."""

    def __init__(self, replicas: int, rng: random.Random) -> None:
        self._replicas = replicas
        self._rng = rng

    def choose(self, now: float) -> Ticket:
        """Any of them with the same probability."""
        return Ticket(int(self._rng.random() * self._replicas))


class RoundRobin(_Blind):
    """One after the other, from a random start."""

    def __init__(self, replicas: int, rng: random.Random) -> None:
        self._replicas = replicas
        self._next = rng.randrange(replicas)

    def choose(self, now: float) -> Ticket:
        """The next one."""
        self._next = (self._next + 1) % self._replicas
        return Ticket(self._next)


class TwoChoices:
    """`serving.router`. `reports` says whether it is told the loads that come on answers."""

    def __init__(
        self, replicas: int, rng: random.Random, settings: router.RouterSettings, *, reports: bool
    ) -> None:
        self.fleet = router.Fleet(settings)
        self._rng = rng
        self._reports = reports
        self._places = {str(place): place for place in range(replicas)}
        self.fleet.update([router.Destination(id=name) for name in self._places], 0.0)

    def choose(self, now: float) -> Ticket:
        """As `router.pick` does."""
        lease = router.pick(self.fleet, self._rng, now)
        return Ticket(self._places[lease.endpoint_id], lease)

    def answered(self, ticket: Ticket, answer: Answer, now: float) -> None:
        """Gives the lease back."""
        assert ticket.lease is not None
        outcome = router.Outcome.FAILURE if answer.failed else router.Outcome.SUCCESS
        ticket.lease.done(outcome, now, answer.in_flight if self._reports else None)

    def probes(self) -> Sequence[int]:
        """As many as the router asks for."""
        targets = []
        while (target := router.next_probe(self.fleet, self._rng)) is not None:
            targets.append(self._places[target])
        return targets

    def probed(self, replica: int, in_flight: int, now: float) -> None:
        """Told to the router."""
        self.fleet.report(str(replica), in_flight, now)
