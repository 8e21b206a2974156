"""What many routers do to a fleet of unequal replicas, with what they know."""

from __future__ import annotations

import dataclasses
import random
import statistics

import pytest

from serving import router
from serving.simulate.balancers import AtRandom, Balancer, RoundRobin, TwoChoices
from serving.simulate.replicas import ReplicaSpec
from tests.serving.simulate import fleets

ROUTERS = 64
FLEET = fleets.unequal(170, 9)


def _p99_ms(make: fleets.MakeBalancer, routers: int, requests: int, seed: int = 0) -> float:
    return fleets.serve(FLEET, routers, make, requests, seed).quantile_s(0.99) * 1e3


def test_reported_loads_and_probes_make_up_for_what_other_routers_send() -> None:
    # The sizes are for a fast test; what each source is worth is measured by benchmarks/router.py.
    local = _p99_ms(fleets.local, ROUTERS, 20_000)
    informed = _p99_ms(fleets.informed(2.0), ROUTERS, 20_000)
    assert informed < 0.75 * local


@pytest.mark.slow
def test_64_routers_stay_within_a_tenth_of_an_omniscient_one() -> None:
    def ratio(make: fleets.MakeBalancer, routers: int, seed: int) -> float:
        return _p99_ms(make, routers, 60_000, seed) / _p99_ms(fleets.local, 1, 60_000, seed)

    ratios = [ratio(fleets.informed(2.0), ROUTERS, seed) for seed in range(3)]
    # Above the mean by twice its standard error.
    bound = statistics.fmean(ratios) + 2 * statistics.stdev(ratios) / 3**0.5
    assert bound < 1.10
    assert ratio(fleets.local, ROUTERS, 0) > 2.0  # local counts alone cannot


def test_a_slower_replica_gets_less() -> None:
    found = fleets.serve(fleets.unequal(20, 4), 1, fleets.local, 8000, 0)
    slow, quick = found.served[:4], found.served[4:]
    assert max(slow) < min(quick)
    # In proportion to its speed, as far as the others have room: 1 / 1.6 of a quick one's.
    assert 0.5 < statistics.fmean(slow) / statistics.fmean(quick) < 0.8


def test_every_request_served_was_one_choice_and_nothing_stays_in_flight() -> None:
    routers: list[TwoChoices] = []

    def make(replicas: int, rng: random.Random) -> Balancer:
        made = TwoChoices(replicas, rng, router.RouterSettings(), reports=True)
        routers.append(made)
        return made

    found = fleets.serve(fleets.unequal(10, 2), 3, make, 2000, 0)
    assert sum(made.fleet.picks for made in routers) == sum(found.served) == 2000
    assert not any(v.in_flight for made in routers for v in made.fleet.views().values())


@pytest.mark.parametrize("blind", [AtRandom, RoundRobin])
def test_blind_rules_give_a_slower_replica_as_much(blind: fleets.MakeBalancer) -> None:
    found = fleets.serve(fleets.unequal(20, 4), 1, blind, 8000, 0)
    assert statistics.fmean(found.served[:4]) / statistics.fmean(found.served[4:]) > 0.9


def _failing(settings: router.RouterSettings) -> float:
    """Share of requests lost when one replica of ten answers everything with a fault."""
    healthy = (ReplicaSpec(slots=fleets.SLOTS),) * 9

    def make(replicas: int, rng: random.Random) -> Balancer:
        return TwoChoices(replicas, rng, settings, reports=True)

    found = fleets.serve((*healthy, ReplicaSpec(fails=True)), 2, make, 4000, 0)
    return found.failed / 4000


def test_a_replica_that_fails_fast_attracts_requests_until_it_is_ejected() -> None:
    settings = router.RouterSettings(probes_per_pick=0.0)
    never = dataclasses.replace(settings, failure_weight=1e-9)
    assert _failing(never) > 0.15  # it looks idle: more than its tenth
    assert _failing(settings) < 0.01
