"""How long the queues of a simulated fleet are, over independent runs, beside what theory says.

The tolerance is derived, not chosen: each run gives one share of queues that hold i or more, the
runs are independent, so their mean has a standard error, and theory must lie within z of them.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from serving import router
from serving.simulate import run
from serving.simulate.balancers import AtRandom, Balancer, TwoChoices
from serving.simulate.replicas import Replica, ReplicaSpec

MakeBalancer = Callable[[int, random.Random], Balancer]


@dataclass(frozen=True, slots=True, kw_only=True)
class TailsPlan:
    """Single-slot queues with exponential work of mean 1 s, watched once a second.

    Fields are checked by the scenario that they become.
    """

    load: float
    queues: int
    levels: int
    """Shares of queues that hold 1, 2, ... so many or more."""
    runs: int
    """At least two; the more, the nearer z is to a normal one."""
    warmup_s: float
    """From empty queues to the usual ones; not watched."""
    watched_s: float
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """The share of queues that hold `at_least` or more."""

    at_least: int
    measured: float
    standard_error: float

    def z(self, theory: float) -> float:
        """By how many standard errors the measured share is above theory."""
        difference = self.measured - theory
        return difference / self.standard_error if self.standard_error else math.inf


def two_choices(queues: int, rng: random.Random) -> Balancer:
    """One router that sees every request: its own counts are all there is to know."""
    settings = router.RouterSettings(probes_per_pick=0.0)
    return TwoChoices(queues, rng, settings, reports=False)


def at_random(queues: int, rng: random.Random) -> Balancer:
    """No choice at all; its tails are load ** i, for a fleet of any size."""
    return AtRandom(queues, rng)


def measure(plan: TailsPlan, make: MakeBalancer) -> tuple[Tail, ...]:
    """The tails of level 1 to `levels`."""
    runs = [_one_run(plan, make, plan.seed + number) for number in range(plan.runs)]
    return tuple(
        Tail(
            at_least=level + 1,
            measured=statistics.fmean(shares),
            standard_error=statistics.stdev(shares) / math.sqrt(plan.runs),
        )
        for level, shares in enumerate(zip(*runs, strict=True))
    )


def _one_run(plan: TailsPlan, make: MakeBalancer, seed: int) -> tuple[float, ...]:
    """Mean shares over one run."""
    found = [0] * plan.levels
    looks = 0

    def look(now: float, replicas: Sequence[Replica]) -> None:
        nonlocal looks
        looks += 1
        for replica in replicas:
            for level in range(min(replica.in_flight, plan.levels)):
                found[level] += 1

    arrivals_rps = plan.load * plan.queues
    scenario = run.Scenario(
        replicas=(ReplicaSpec(),) * plan.queues,
        arrivals_rps=arrivals_rps,
        work=lambda rng: rng.expovariate(1.0),
        requests=math.ceil(arrivals_rps * (plan.warmup_s + plan.watched_s)),
        seed=seed,
    )
    balancer = make(plan.queues, random.Random(f"balancer {seed}"))
    run.simulate(scenario, [balancer], warmup_s=plan.warmup_s, observe=look)
    return tuple(count / (looks * plan.queues) for count in found)
