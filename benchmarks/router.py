"""What does a choice between two endpoints cost, does it obey theory, what is knowledge worth?

    python -m benchmarks.router [SEEDS]

1. Cost of a choice in CPU time, median of many blocks, and the memory blocks that it makes.
2. The law of the supermarket: measured shares of long queues beside theory, in standard errors.
3. A simulated fleet: 170 replicas of 8 slots, 9 of them 1.6 times slower, 50 ms +-30 % a request,
   85 % of the slots, 0.5 ms of network one way, 60,000 requests a run, the first half second left
   out. Every way to choose meets the same requests; ratios are per seed, with Student's interval.
"""

from __future__ import annotations

import functools
import random
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scipy import stats

from benchmarks import machine
from serving import router
from serving.simulate import supermarket, tails
from serving.simulate.balancers import AtRandom, Balancer, RoundRobin, TwoChoices
from serving.simulate.replicas import ReplicaSpec
from tests.serving.simulate import fleets

REQUESTS = 60_000
UNEQUAL = fleets.unequal(170, 9)
EQUAL = fleets.unequal(170, 0)
QUEUES = 500
RUNS = 12
BLOCK = 2_000
BLOCKS = 60
SILENT = router.RouterSettings(probes_per_pick=0.0)
PROBED = router.RouterSettings(probe_pool_size=2 * BLOCK)

Fleet = tuple[ReplicaSpec, ...]


@dataclass(frozen=True, slots=True)
class Cost:
    """Microseconds of CPU for one call, and memory blocks that it leaves while it is held."""

    pick_us: float
    done_us: float
    blocks: float


def cost(endpoints: int, settings: router.RouterSettings) -> Cost:
    """A choice where every endpoint has reported its load; with probes, two answered ones for
    each choice, whose taking in is not counted."""
    made, rng = router.Fleet(settings), random.Random(0)
    made.update([router.Destination(id=str(place)) for place in range(endpoints)], 0.0)
    found = [_block(made, rng, endpoints, bool(settings.probes_per_pick)) for _ in range(BLOCKS)]
    return Cost(*(statistics.median(figures) for figures in zip(*found, strict=True)))


def _block(
    made: router.Fleet, rng: random.Random, endpoints: int, probed: bool
) -> tuple[float, float, float]:
    for _ in range(2 * BLOCK):
        made.report(str(int(rng.random() * endpoints)), 3, 0.0)
    if not probed:
        made.near.probed.clear()
    held: list[router.Lease] = [router.pick(made, rng, 0.0)] * BLOCK
    held[0].done(router.Outcome.CANCELED, 0.0)
    memory, started = sys.getallocatedblocks(), time.thread_time_ns()
    for place in range(BLOCK):
        held[place] = router.pick(made, rng, 0.0)
    picked, memory = time.thread_time_ns(), sys.getallocatedblocks() - memory
    for lease in held:
        lease.done(router.Outcome.SUCCESS, 0.0, 3)
    done = time.thread_time_ns()
    return (picked - started) / BLOCK / 1e3, (done - picked) / BLOCK / 1e3, memory / BLOCK


def costs() -> float:
    """Prints the table; returns the cost of a choice among 1,000 with probes answered."""
    print("\nCPU time of one call, us            pick   done   memory blocks")
    for endpoints in (10, 100, 1_000, 10_000):
        for name, settings in (("reports", SILENT), ("reports and probes", PROBED)):
            found = cost(endpoints, settings)
            print(
                f"{endpoints:6} endpoints, {name:18} {found.pick_us:5.2f}  {found.done_us:5.2f}"
                f"   {found.blocks:5.2f}"
            )
            if endpoints == 1_000:
                result = found.pick_us
    return result


def law() -> dict[str, float]:
    """Prints measured shares beside theory; returns the largest z against either form of it."""
    worst = {"law_max_z": 0.0, "law_endless_max_z": 0.0}
    tests = 0
    print(f"\nShare of queues with i or more, {QUEUES} queues, {RUNS} runs")
    print("load  i  measured    endless     z   this many    z")
    for load in (0.5, 0.7, 0.9, 0.95):
        # Levels that are seen often enough for the mean of the runs to be a normal one.
        levels = sum(supermarket.tail(load, level) > 1e-3 for level in range(1, 8))
        plan = tails.TailsPlan(
            load=load, queues=QUEUES, levels=levels, runs=RUNS, watched_s=60.0,
            warmup_s=8 * supermarket.relaxation_s(load),
        )  # fmt: skip
        finite = supermarket.finite_tails(load, plan.queues)
        for found, expected in zip(tails.measure(plan, tails.two_choices), finite, strict=False):
            endless = supermarket.tail(load, found.at_least)
            z, endless_z = found.z(expected), found.z(endless)
            worst["law_max_z"] = max(worst["law_max_z"], abs(z))
            worst["law_endless_max_z"] = max(worst["law_endless_max_z"], abs(endless_z))
            tests += 1
            print(
                f"{load:4}  {found.at_least}  {found.measured:.6f}  {endless:.6f}  {endless_z:5.2f}"
                f"  {expected:.6f}  {z:5.2f}",
                flush=True,
            )
    tolerance = float(stats.t.ppf(1 - 0.01 / (2 * tests), RUNS - 1))
    print(f"z that {tests} right ones exceed once in a hundred tries: {tolerance:.2f}")
    return {**worst, "law_tolerance_z": tolerance}


class Comparison:
    """Runs of one fleet, each once per seed, and their ratios."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self._seeds = seeds

    @functools.cache  # noqa: B019  # lives as long as the program
    def p99_ms(self, fleet: Fleet, routers: int, make: fleets.MakeBalancer) -> tuple[float, ...]:
        """By seed."""
        runs = (fleets.serve(fleet, routers, make, REQUESTS, seed) for seed in self._seeds)
        return tuple(run.quantile_s(0.99) * 1e3 for run in runs)

    def ratio(
        self, fleet: Fleet, routers: int, make: fleets.MakeBalancer, other: tuple[float, ...]
    ) -> tuple[float, float]:
        """p99 over another's, mean over the seeds and the half width of its 95 % interval."""
        found = self.p99_ms(fleet, routers, make)
        ratios = [one / base for one, base in zip(found, other, strict=True)]
        spread = statistics.stdev(ratios) / len(ratios) ** 0.5
        return statistics.fmean(ratios), spread * float(stats.t.ppf(0.975, len(ratios) - 1))

    def show(self, name: str, fleet: Fleet, routers: int, make: fleets.MakeBalancer) -> None:
        """One line: p99 and its ratio to one router that sees everything."""
        omniscient = self.p99_ms(fleet, 1, fleets.local)
        ratio, half = self.ratio(fleet, routers, make, omniscient)
        p99_ms = statistics.fmean(self.p99_ms(fleet, routers, make))
        line = f"{routers:4} {name:34} {p99_ms:7.1f}   {ratio:6.3f} +- {half:.3f}"
        print(line, flush=True)


def random_choice(replicas: int, rng: random.Random) -> Balancer:
    """Any replica."""
    return AtRandom(replicas, rng)


def round_robin(replicas: int, rng: random.Random) -> Balancer:
    """One after the other."""
    return RoundRobin(replicas, rng)


def believing(age_s: float) -> fleets.MakeBalancer:
    """Loads on answers only, believed for so long."""
    settings = replace(SILENT, report_max_age_s=age_s)

    def make(replicas: int, rng: random.Random) -> Balancer:
        return TwoChoices(replicas, rng, settings, reports=True)

    return make


def knowledge(compare: Comparison) -> None:
    """Prints what each source of information is worth, by the number of routers."""
    reported = fleets.informed(0.0)
    probes = {count: fleets.informed(count) for count in (0.5, 1.0, 2.0, 3.0)}
    print("\nrouters, 9 of 170 replicas slow           p99 ms   over omniscient")
    compare.show("own counts: omniscient", UNEQUAL, 1, fleets.local)
    for routers in (4, 12, 64, 170):
        compare.show("own counts", UNEQUAL, routers, fleets.local)
        compare.show("and loads on answers", UNEQUAL, routers, reported)
        compare.show("and 2 probes a choice", UNEQUAL, routers, probes[2.0])
    for count in (0.5, 1.0, 3.0):
        compare.show(f"and {count:g} probes a choice", UNEQUAL, 64, probes[count])
    compare.show("round robin", UNEQUAL, 64, round_robin)
    compare.show("random", UNEQUAL, 64, random_choice)
    print("\nrouters, all 170 replicas equal           p99 ms   over omniscient")
    rows = (("own counts", fleets.local), ("and loads on answers", reported))
    for name, make in (*rows, ("and 2 probes a choice", probes[2.0])):
        compare.show(name, EQUAL, 64, make)
    compare.show("round robin", EQUAL, 64, round_robin)
    compare.show("random", EQUAL, 64, random_choice)
    print("\nrouters, loads on answers believed for    p99 ms   over omniscient")
    for age_s in (0.1, 0.3, 1.0, 3.0):
        compare.show(f"{age_s:g} s", UNEQUAL, 64, believing(age_s))


def failing() -> tuple[float, float]:
    """Share of requests lost to one of 170 replicas that answers all with a fault, 12 routers:
    without ejection and with it."""

    def lost(settings: router.RouterSettings) -> float:
        def make(replicas: int, rng: random.Random) -> Balancer:
            return TwoChoices(replicas, rng, settings, reports=True)

        broken = (*EQUAL[1:], ReplicaSpec(fails=True))
        return fleets.serve(broken, 12, make, REQUESTS, 0).failed / REQUESTS

    never = replace(router.RouterSettings(), max_ejected_share=0.0, failure_weight=1e-9)
    return lost(never), lost(router.RouterSettings())


def main() -> None:
    """Measures and prints."""
    about = machine.describe()
    seeds = range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
    figures: dict[str, Any] = {"pick_us": costs(), **law()}
    compare = Comparison(seeds)
    knowledge(compare)
    informed = compare.p99_ms(UNEQUAL, 64, fleets.informed(2.0))
    print("\none failing replica of 170: share of requests lost without ejection, with it")
    lost = failing()
    print(f"{lost[0]:.4f} {lost[1]:.4f}")
    for name, routers, make in (
        ("omniscient_64", 1, fleets.local),
        ("round_robin", 64, round_robin),
    ):
        base = compare.p99_ms(UNEQUAL, routers, make)
        ratios = [one / other for one, other in zip(informed, base, strict=True)]
        figures[f"p99_vs_{name}"] = statistics.fmean(ratios)
    local = compare.p99_ms(UNEQUAL, 64, fleets.local)
    figures["p99_local_only_vs_omniscient_64"] = statistics.fmean(local) / statistics.fmean(
        compare.p99_ms(UNEQUAL, 1, fleets.local)
    )
    figures["lost_without_ejection"], figures["lost"] = lost
    rounded = {name: round(value, 3) for name, value in figures.items()}
    print("\n" + machine.result({"benchmark": "router", **about, **rounded, "seeds": len(seeds)}))


if __name__ == "__main__":
    main()
