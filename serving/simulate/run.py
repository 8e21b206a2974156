"""Runs requests through routers and replicas, event by event, and says how long they took.

The one idea: a run is a function of its scenario and its seed. Arrivals and work are drawn apart
from the routers' randomness, so that two ways to choose meet the very same requests.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from serving.simulate.balancers import Answer, Balancer, Ticket
from serving.simulate.replicas import Replica, ReplicaSpec

Work = Callable[[random.Random], float]
"""Draws the seconds of work of one request."""
Observe = Callable[[float, Sequence[Replica]], None]
"""Looks at the replicas at a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A fleet and what comes to it."""

    replicas: tuple[ReplicaSpec, ...]
    arrivals_rps: float
    """Of a Poisson process, over all routers; each request comes to a random router."""
    work: Work
    requests: int
    network_s: float = 0.0
    """One way, between a router and a replica."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.replicas:
            raise ValueError("a scenario needs at least one replica")
        if self.arrivals_rps <= 0 or self.requests < 1 or self.network_s < 0:
            raise ValueError(
                "a scenario needs arrivals_rps above 0, requests of at least 1 and network_s of at "
                f"least 0, got {self.arrivals_rps}, {self.requests} and {self.network_s}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run showed."""

    latencies_s: tuple[float, ...]
    """Of the requests that came after the warm-up, sorted; failed ones are left out."""
    served: tuple[int, ...]
    """Requests by replica, failed ones too."""
    failed: int
    probes: int

    def quantile_s(self, share: float) -> float:
        """The latency that this share of the requests did not exceed."""
        return self.latencies_s[max(math.ceil(share * len(self.latencies_s)) - 1, 0)]


def simulate(
    scenario: Scenario,
    balancers: Sequence[Balancer],
    *,
    warmup_s: float = 0.0,
    observe: Observe | None = None,
    observe_every_s: float = 1.0,
) -> Result:
    """Runs until every request is answered. `observe` is called at equal times after the warm-up,
    as long as requests arrive."""
    run = _Run(scenario, balancers, warmup_s)
    look_at = warmup_s if observe is not None else math.inf
    for now in run.arrivals():
        while look_at <= now:
            run.advance(look_at)
            if observe is not None:
                observe(look_at, run.replicas)
            look_at += observe_every_s
        run.advance(now)
        run.arrive(now)
    run.advance(math.inf)
    return run.result()


class _Run:
    """The state of one run: queues, and what is on its way."""

    def __init__(self, scenario: Scenario, balancers: Sequence[Balancer], warmup_s: float) -> None:
        self.replicas = [Replica(spec) for spec in scenario.replicas]
        self._scenario = scenario
        self._balancers = balancers
        self._warmup_s = warmup_s
        self._rng = random.Random(scenario.seed)
        self._order = itertools.count()
        self._events: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._latencies: list[float] = []
        self._failed = 0
        self._probes = 0

    def arrivals(self) -> Sequence[float]:
        """The times at which requests come, ascending."""
        rate = self._scenario.arrivals_rps
        gaps = (self._rng.expovariate(rate) for _ in range(self._scenario.requests))
        return list(itertools.accumulate(gaps))

    def advance(self, until: float) -> None:
        """Lets everything happen that happens by then."""
        events = self._events
        while events and events[0][0] <= until:
            now, _, happens, details = heapq.heappop(events)
            happens(now, *details)

    def arrive(self, now: float) -> None:
        """A request comes to some router, which sends it on."""
        balancer = self._balancers[int(self._rng.random() * len(self._balancers))]
        work_s = self._scenario.work(self._rng)
        ticket = balancer.choose(now)
        there = now + self._scenario.network_s
        self._plan(there, self._reach, balancer, ticket, now, work_s)
        for replica in balancer.probes():
            self._probes += 1
            self._plan(there, self._ask, balancer, replica)

    def result(self) -> Result:
        """All that was measured."""
        return Result(
            latencies_s=tuple(sorted(self._latencies)),
            served=tuple(replica.served for replica in self.replicas),
            failed=self._failed,
            probes=self._probes,
        )

    def _plan(self, when: float, happens: Callable[..., None], *details: Any) -> None:
        heapq.heappush(self._events, (when, next(self._order), happens, details))

    def _reach(
        self, now: float, balancer: Balancer, ticket: Ticket, came: float, work_s: float
    ) -> None:
        ends = self.replicas[ticket.replica].arrive(now, work_s)
        self._plan(ends, self._finish, balancer, ticket, came)

    def _finish(self, now: float, balancer: Balancer, ticket: Ticket, came: float) -> None:
        replica = self.replicas[ticket.replica]
        answer = Answer(replica.depart(), replica.fails)
        back = now + self._scenario.network_s
        self._plan(back, self._answer, balancer, ticket, came, answer)

    def _answer(
        self, now: float, balancer: Balancer, ticket: Ticket, came: float, answer: Answer
    ) -> None:
        balancer.answered(ticket, answer, now)
        if answer.failed:
            self._failed += 1
        elif came >= self._warmup_s:
            self._latencies.append(now - came)

    def _ask(self, now: float, balancer: Balancer, replica: int) -> None:
        back = now + self._scenario.network_s
        self._plan(back, self._tell, balancer, replica, self.replicas[replica].in_flight)

    def _tell(self, now: float, balancer: Balancer, replica: int, in_flight: int) -> None:
        balancer.probed(replica, in_flight, now)
