"""What a client tells the router of its addresses, from several threads; no count is ever lost."""

from __future__ import annotations

import gc
import random
import threading
from collections import Counter

import hypothesis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from serving import router
from serving.client import edges
from serving.client.edges import ANSWERED, LATE, UNREACHED, Edges, Lease


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def made(number: int, clock: Clock | None = None) -> tuple[Edges, list[str]]:
    names = [f"http://{place}" for place in range(number)]
    return Edges(names, random.Random(0), clock or Clock()), names


def lease_on(some: Edges, name: str) -> Lease:
    """Of that address: what a call gets that has tried all others."""
    return some.lease([each.address for each in some.stats().edges if each.address != name])


def left_out(some: Edges) -> list[str]:
    return [each.address for each in some.stats().edges if each.is_left_out]


def asked(some: Edges, times: int = 50) -> set[str]:
    found = set()
    for _ in range(times):
        with some.lease([]) as lease:
            found.add(lease.address)
    return found


def test_an_address_that_is_not_reached_is_left_out_for_ever_longer_up_to_a_bound() -> None:
    clock = Clock()
    some, (failing, well) = made(2, clock)
    spans = []
    for _ in range(18):
        lease_on(some, failing).give_back(UNREACHED)
        assert asked(some) == {well}
        began_s = clock.now_s
        while left_out(some):
            clock.now_s += 0.5
            some.lease([]).give_back(router.Outcome.CANCELED)
        spans.append(clock.now_s - began_s)
        assert asked(some) == {failing, well}
    assert spans == [float(min(n, 15)) for n in range(1, 19)]


def test_many_that_fail_together_are_one_failure() -> None:
    clock = Clock()
    some, (failing, _) = made(2, clock)
    for lease in [lease_on(some, failing) for _ in range(50)]:
        lease.give_back(UNREACHED)
    clock.now_s = 1.0
    assert asked(some) == {each.address for each in some.stats().edges}


def test_lateness_counts_only_in_a_row() -> None:
    some, (slow, _) = made(2)
    for outcome in (LATE, LATE, ANSWERED, LATE, router.Outcome.CANCELED):
        lease_on(some, slow).give_back(outcome)
    assert left_out(some) == []
    for _ in range(2):
        lease_on(some, slow).give_back(LATE)
    assert left_out(some) == [slow]


def test_the_last_address_is_never_left_out() -> None:
    some, names = made(3)
    for _ in range(3):
        for name in names:
            lease_on(some, name).give_back(UNREACHED)
    assert len(left_out(some)) == 2
    assert len(asked(some)) == 1


def test_a_call_goes_on_to_an_address_that_is_left_out_rather_than_to_one_it_has_tried() -> None:
    some, (failing, well) = made(2)
    lease_on(some, failing).give_back(UNREACHED)
    assert some.untried([well])
    with some.lease([well]) as lease:
        assert lease.address == failing
    assert not some.untried([failing, well])


def test_an_answer_that_goes_on_is_a_success_at_its_end() -> None:
    some, (slow, _) = made(2)
    for _ in range(2):
        lease_on(some, slow).give_back(LATE)
    with lease_on(some, slow) as lease:
        lease.answered()
        lease_on(some, slow)  # in flight meanwhile
    lease_on(some, slow).give_back(LATE)  # 0.64 * 0.6 + 0.4 * 0.6 < 0.75
    assert left_out(some) == []


def test_threads_that_ask_and_fail_at_once_lose_no_count() -> None:
    some, names = made(4)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(500):
            with some.lease([]) as lease:
                lease.give_back(rng.choice([ANSWERED, LATE, UNREACHED]))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = some.stats()
    assert stats.picks == sum(each.picks for each in stats.edges) == 4000
    assert [each.in_flight for each in stats.edges] == [0] * len(names)


def test_a_lease_given_back_by_the_garbage_collector_while_choosing_blocks_nobody() -> None:
    class Collects(random.Random):
        def random(self) -> float:
            gc.collect()
            return super().random()

    class Forgotten:
        """A stream in a cycle, as a generator that was never closed is."""

        def __init__(self, lease: Lease) -> None:
            self.lease, self.me = lease, self

        def __del__(self) -> None:
            self.lease.give_back(router.Outcome.CANCELED)

    some = Edges(["http://a", "http://b"], Collects(), Clock())
    Forgotten(some.lease([]))
    held = some.lease([])  # collects, with the lock held
    assert sum(each.in_flight for each in some.stats().edges) == 1
    held.give_back(ANSWERED)
    assert sum(each.in_flight for each in some.stats().edges) == 0


class Leases(RuleBasedStateMachine):
    """Counts are the leases that are held, at every moment."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.edges, self.names = made(3, self.clock)
        self.held: list[Lease] = []
        self.over: list[Lease] = []
        self.picks: Counter[str] = Counter()

    @rule(tried=st.sets(st.integers(0, 2)))
    def begin(self, tried: set[int]) -> None:
        lease = self.edges.lease([self.names[each] for each in tried])
        assert lease.address not in {self.names[each] for each in tried} or len(tried) == 3
        self.held.append(lease)
        self.picks[lease.address] += 1

    @rule(
        position=st.integers(0),
        outcome=st.sampled_from(router.Outcome),
        passed_s=st.floats(0, 20),
    )
    def end(self, position: int, outcome: router.Outcome, passed_s: float) -> None:
        self.clock.now_s += passed_s
        if self.held:
            lease = self.held.pop(position % len(self.held))
            lease.give_back(outcome)
            self.over.append(lease)

    @rule(position=st.integers(0), outcome=st.sampled_from(router.Outcome))
    def end_again(self, position: int, outcome: router.Outcome) -> None:
        if self.over:
            self.over[position % len(self.over)].give_back(outcome)

    @invariant()
    def counts_are_leases(self) -> None:
        stats = self.edges.stats()
        for each in stats.edges:
            assert each.in_flight == sum(lease.address == each.address for lease in self.held)
            assert each.picks == self.picks[each.address]
        assert stats.picks == self.picks.total()

    @invariant()
    def somebody_is_left(self) -> None:
        assert len(left_out(self.edges)) < 3


TestLeases = Leases.TestCase
TestLeases.settings = hypothesis.settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_the_settings_are_those_of_the_documentation() -> None:
    settings = edges.SETTINGS
    assert (settings.ejection_s, settings.max_ejection_s) == (1.0, 15.0)
    assert settings.unreached_weight >= settings.eject_at
