"""Two choices by in-flight counts, failing addresses passed over, and no count is ever lost."""

from __future__ import annotations

import random

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from serving.client import balance
from serving.client.balance import Ending, Endpoint, pick


def endpoints(number: int) -> list[Endpoint]:
    return [Endpoint(f"http://{position}") for position in range(number)]


def test_of_two_the_less_busy_one_is_asked() -> None:
    first, second = endpoints(2)
    busy = first.begin()
    for _ in range(20):
        with pick([first, second], random.Random(), 0.0) as lease:
            assert lease.address == second.address
    busy.give_back(Ending.ANSWERED, 0.0)
    assert (first.in_flight, second.in_flight) == (0, 0)


def test_ties_are_broken_by_chance() -> None:
    both, rng = endpoints(2), random.Random(1)
    asked = []
    for _ in range(1000):
        with pick(both, rng, 0.0) as lease:
            asked.append(lease.address)
    # Binomial(1000, 1/2) is within 5 standard deviations (79) of 500.
    assert abs(asked.count(both[0].address) - 500) < 79


@given(st.lists(st.integers(0, 9), min_size=2, max_size=8), st.integers())
def test_the_busiest_one_is_never_asked_while_there_is_another(
    counts: list[int], seed: int
) -> None:
    some = endpoints(len(counts))
    for each, count in zip(some, counts, strict=True):
        each.in_flight = count
    chosen = pick(some, random.Random(seed), 0.0)
    before = dict(zip((each.address for each in some), counts, strict=True))
    assert before[chosen.address] < max(counts) or counts.count(max(counts)) > 1


def test_two_choices_keep_the_fullest_far_below_one_choice() -> None:
    """Azar et al. 1999: m balls in n bins, two choices: the gap to the mean is O(log log n)."""
    some, rng = endpoints(100), random.Random(5)
    for _ in range(10_000):
        pick(some, rng, 0.0)
    assert max(each.in_flight for each in some) <= 100 + 5  # one choice: about 130


def test_a_failing_address_is_passed_over_for_a_bounded_time_that_doubles() -> None:
    failing, well = endpoints(2)
    now_s, spans = 0.0, []
    for _ in range(8):
        failing.begin().give_back(Ending.UNREACHED, now_s)
        for seed in range(20):
            with pick([failing, well], random.Random(seed), now_s) as lease:
                assert lease.address == well.address
        spans.append(failing.avoided_until_s - now_s)
        now_s = failing.avoided_until_s
    assert spans == [1.0, 2.0, 4.0, 8.0, 15.0, 15.0, 15.0, 15.0]
    asked = {pick([failing, well], random.Random(seed), now_s).address for seed in range(50)}
    assert failing.address in asked


def test_many_failures_at_once_are_one() -> None:
    (failing,) = endpoints(1)
    for lease in [failing.begin() for _ in range(50)]:
        lease.give_back(Ending.UNREACHED, 0.0)
    assert failing.avoided_until_s == 1.0


def test_an_answer_ends_the_avoiding() -> None:
    failing, _ = endpoints(2)
    failing.begin().give_back(Ending.UNREACHED, 0.0)
    failing.begin().give_back(Ending.ANSWERED, 0.1)
    failing.begin().give_back(Ending.UNREACHED, 5.0)
    assert failing.avoided_until_s == 6.0


def test_lateness_counts_only_in_a_row() -> None:
    (slow,) = endpoints(1)
    for ending in (Ending.LATE, Ending.LATE, Ending.ANSWERED, Ending.LATE, Ending.LEFT):
        slow.begin().give_back(ending, 0.0)
    assert slow.avoided_until_s < 0
    for _ in range(2):
        slow.begin().give_back(Ending.LATE, 0.0)
    assert slow.avoided_until_s == 1.0


def test_where_all_fail_all_are_asked() -> None:
    some = endpoints(3)
    for each in some:
        each.begin().give_back(Ending.UNREACHED, 0.0)
    asked = {pick(some, random.Random(seed), 0.5).address for seed in range(50)}
    assert asked == {each.address for each in some}


def test_none_to_choose_from_is_said() -> None:
    with pytest.raises(ValueError, match="there is none"):
        pick([], random.Random(), 0.0)


class Leases(RuleBasedStateMachine):
    """Counts are the leases that are held, at every moment."""

    def __init__(self) -> None:
        super().__init__()
        self.endpoints = endpoints(3)
        self.held: list[balance.Lease] = []
        self.over: list[balance.Lease] = []
        self.now_s = 0.0

    @rule(seed=st.integers())
    def begin(self, seed: int) -> None:
        self.held.append(pick(self.endpoints, random.Random(seed), self.now_s))

    @rule(position=st.integers(0), ending=st.sampled_from(Ending), passed_s=st.floats(0, 20))
    def end(self, position: int, ending: Ending, passed_s: float) -> None:
        self.now_s += passed_s
        if self.held:
            lease = self.held.pop(position % len(self.held))
            lease.give_back(ending, self.now_s)
            self.over.append(lease)

    @rule(position=st.integers(0), ending=st.sampled_from(Ending))
    def end_again(self, position: int, ending: Ending) -> None:
        if self.over:
            self.over[position % len(self.over)].give_back(ending, self.now_s)

    @invariant()
    def counts_are_leases(self) -> None:
        for each in self.endpoints:
            held = [lease for lease in self.held if lease.address == each.address]
            assert each.in_flight == len(held)

    @invariant()
    def avoiding_is_bounded(self) -> None:
        assert all(each.avoided_until_s <= self.now_s + 15.0 for each in self.endpoints)


TestLeases = Leases.TestCase
TestLeases.settings = hypothesis.settings(max_examples=40, stateful_step_count=25)
