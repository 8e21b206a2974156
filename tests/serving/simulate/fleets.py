"""Fleets with unequal replicas, for tests."""

from __future__ import annotations

import random
from collections.abc import Callable

from serving import router
from serving.simulate import run
from serving.simulate.balancers import Balancer, TwoChoices
from serving.simulate.replicas import ReplicaSpec

SLOTS = 8
WORK_S = 0.05
LOAD = 0.85
"""Of the slots, counted as if no replica were slow."""

MakeBalancer = Callable[[int, random.Random], Balancer]


def unequal(replicas: int, slow: int) -> tuple[ReplicaSpec, ...]:
    """Replicas of 8 slots, the first few of them 1.6 times slower."""
    return tuple(
        ReplicaSpec(slots=SLOTS, slowdown=1.6 if place < slow else 1.0) for place in range(replicas)
    )


def work(rng: random.Random) -> float:
    """50 ms, give or take 30 %."""
    return WORK_S * rng.uniform(0.7, 1.3)


def serve(
    replicas: tuple[ReplicaSpec, ...], routers: int, make: MakeBalancer, requests: int, seed: int
) -> run.Result:
    """The same requests for every `make`; timed after the first half second."""
    scenario = run.Scenario(
        replicas=replicas,
        arrivals_rps=LOAD * len(replicas) * SLOTS / WORK_S,
        work=work,
        requests=requests,
        network_s=0.0005,
        seed=seed,
    )
    rngs = [random.Random(f"router {seed} {number}") for number in range(routers)]
    balancers = [make(len(replicas), rng) for rng in rngs]
    return run.simulate(scenario, balancers, warmup_s=0.5)


def local(replicas: int, rng: random.Random) -> Balancer:
    """Own counts only; with one router that sees everything, omniscient."""
    return TwoChoices(replicas, rng, router.RouterSettings(probes_per_pick=0.0), reports=False)


def informed(probes_per_pick: float) -> MakeBalancer:
    """Own counts, loads on answers, and so many probes a choice."""
    settings = router.RouterSettings(probes_per_pick=probes_per_pick)

    def make(replicas: int, rng: random.Random) -> Balancer:
        return TwoChoices(replicas, rng, settings, reports=True)

    return make
