"""The events of a run: queues, network, what routers are told, and that nothing is lost."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from scipy import stats

from serving.simulate import run
from serving.simulate.balancers import Answer, RoundRobin, Ticket
from serving.simulate.replicas import Replica, ReplicaSpec


class Recorder:
    """Sends everything to the first replica and asks the second one; notes what comes back."""

    def __init__(self) -> None:
        self.answers: list[tuple[float, int]] = []
        self.loads: list[tuple[int, int, float]] = []

    def choose(self, now: float) -> Ticket:
        return Ticket(0)

    def answered(self, ticket: Ticket, answer: Answer, now: float) -> None:
        self.answers.append((now, answer.in_flight))

    def probes(self) -> Sequence[int]:
        return (0,)

    def probed(self, replica: int, in_flight: int, now: float) -> None:
        self.loads.append((replica, in_flight, now))


def _scenario(**changes: object) -> run.Scenario:
    given: dict[str, object] = {
        "replicas": (ReplicaSpec(),), "arrivals_rps": 1e6, "work": lambda rng: 1.0, "requests": 3,
        **changes,
    }  # fmt: skip
    return run.Scenario(**given)  # type: ignore[arg-type]


def test_requests_wait_for_a_slot_first_come_first_served() -> None:
    found = run.simulate(_scenario(), [Recorder()])
    assert found.latencies_s == pytest.approx([1.0, 2.0, 3.0], abs=1e-4)
    two = run.simulate(_scenario(replicas=(ReplicaSpec(slots=2),)), [Recorder()])
    assert two.latencies_s == pytest.approx([1.0, 1.0, 2.0], abs=1e-4)


def test_a_slow_replica_takes_longer() -> None:
    found = run.simulate(_scenario(replicas=(ReplicaSpec(slots=3, slowdown=1.5),)), [Recorder()])
    assert found.latencies_s == pytest.approx([1.5] * 3, abs=1e-4)


def test_answers_and_probes_take_the_network_and_carry_the_load_at_the_replica() -> None:
    recorder = Recorder()
    found = run.simulate(_scenario(network_s=0.25), [recorder])
    assert found.latencies_s == pytest.approx([1.5, 2.5, 3.5], abs=1e-4)
    assert [left for _, left in recorder.answers] == [2, 1, 0]
    assert [load for _, load, _ in recorder.loads] == [1, 2, 3]
    assert [at for _, _, at in recorder.loads] == pytest.approx([0.5] * 3, abs=1e-4)
    assert found.probes == 3


def test_a_failing_replica_answers_at_once_and_is_not_timed() -> None:
    found = run.simulate(_scenario(replicas=(ReplicaSpec(fails=True),)), [Recorder()])
    assert (found.failed, found.latencies_s, found.served) == (3, (), (3,))


def test_requests_of_the_warm_up_are_not_timed() -> None:
    found = run.simulate(_scenario(arrivals_rps=1.0, requests=50), [Recorder()], warmup_s=10.0)
    assert 30 < len(found.latencies_s) < 50
    assert found.served == (50,)


def test_replicas_are_looked_at_at_equal_times() -> None:
    looks = []

    def look(now: float, replicas: Sequence[Replica]) -> None:
        looks.append(now)

    scenario = _scenario(arrivals_rps=10.0, requests=100)
    run.simulate(scenario, [Recorder()], warmup_s=2.0, observe=look, observe_every_s=0.5)
    assert looks[:3] == [2.0, 2.5, 3.0]
    assert 7.0 < looks[-1] < 13.0


def test_a_run_is_a_function_of_its_seed() -> None:
    def once(seed: int) -> run.Result:
        scenario = _scenario(
            replicas=(ReplicaSpec(),) * 3, seed=seed, requests=200,
            work=lambda rng: rng.expovariate(1.0), arrivals_rps=2.0,
        )  # fmt: skip
        return run.simulate(scenario, [RoundRobin(3, random.Random(seed))])

    assert once(1) == once(1)
    assert once(1) != once(2)


def test_waiting_obeys_erlangs_formula() -> None:
    # M/M/c: a request waits with probability C(c, a) (Erlang, 1917). Runs are independent; the
    # share of busy moments is compared within Student's t at 1e-4.
    slots, offered, runs = 4, 3.0, 10
    busy_shares = []
    for seed in range(runs):
        found = []

        def look(now: float, replicas: Sequence[Replica], found: list[bool] = found) -> None:
            found.append(replicas[0].in_flight >= slots)

        scenario = _scenario(
            replicas=(ReplicaSpec(slots=slots),), arrivals_rps=offered, requests=1500, seed=seed,
            work=lambda rng: rng.expovariate(1.0),
        )  # fmt: skip
        run.simulate(scenario, [Recorder()], warmup_s=50.0, observe=look)
        busy_shares.append(sum(found) / len(found))
    erlang_c = 0.5094339622641509  # for c = 4, a = 3
    assert stats.ttest_1samp(busy_shares, erlang_c).pvalue > 1e-4


@pytest.mark.parametrize(
    "changes", [{"replicas": ()}, {"arrivals_rps": 0.0}, {"requests": 0}, {"network_s": -1.0}]
)
def test_scenarios_without_sense_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="a scenario needs"):
        _scenario(**changes)


@pytest.mark.parametrize(("field", "value"), [("slots", 0), ("slowdown", 0.0)])
def test_replicas_without_sense_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be .*, got {value}"):
        ReplicaSpec(**{field: value})  # type: ignore[arg-type]
