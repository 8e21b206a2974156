"""Calls by handle, whatever happens to them and to their replicas: no count stays behind."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from serving import handle_leases, router
from serving.handle_leases import HandleLeases, judged
from serving.router import Destination, Outcome, Phase


def made(*names: str, zone: str | None = None) -> HandleLeases:
    leases = HandleLeases(zone, random.Random(0))
    leases.update([Destination(id=name) for name in names], 0.0)
    return leases


def in_flight(leases: HandleLeases) -> dict[str, int]:
    return {name: view.in_flight for name, view in leases.fleet.views().items()}


def test_a_burst_of_one_moment_spreads() -> None:
    leases = made("a", "b")
    for number in range(150):
        leases.choose(str(number), 0.0)
    assert in_flight(leases) == {"a": 75, "b": 75}


def test_a_call_that_comes_again_goes_elsewhere_and_holds_one_place() -> None:
    leases = made("a", "b", "c")
    for _ in range(20):
        first = leases.choose("call", 0.0)
        assert leases.choose("call", 0.0) != first
        assert leases.stats().in_flight == 1
    assert leases.stats().picks == 40


def test_the_load_on_an_answer_decides_later_choices() -> None:
    leases = made("a", "b")
    for load, name in ((9, "a"), (1, "b")):
        while leases.choose("call", 0.0) != name:
            pass
        leases.over("call", name, Outcome.SUCCESS, 0.0, load)
    assert {leases.choose(str(number), 0.1) for number in range(5)} == {"b"}


def test_news_of_a_call_that_went_elsewhere_say_nothing() -> None:
    leases = made("a", "b")
    first = leases.choose("call", 0.0)
    second = leases.choose("call", 0.0)
    leases.over("call", first, Outcome.FAILURE, 0.0)
    assert in_flight(leases)[second] == 1
    leases.over("call", second, Outcome.SUCCESS, 0.0)
    leases.over("call", second, Outcome.FAILURE, 0.0)
    assert leases.stats().in_flight == 0


def test_the_own_zone_is_preferred() -> None:
    leases = HandleLeases("here", random.Random(0))
    leases.update([Destination(id="n", zone="here"), Destination(id="f", zone="there")], 0.0)
    assert {leases.choose(str(number), 0.0) for number in range(20)} == {"n"}


def test_a_replica_that_fails_fast_is_left_out() -> None:
    leases = made("a", "b", "c")
    for number in range(100):
        name = leases.choose(str(number), 0.0)
        answer = {"status": 500 if name == "a" else 200, "in_flight": 0}
        leases.over(str(number), name, *judged(answer)[:1], 0.0, judged(answer)[1])
    assert leases.fleet.views()["a"].phase is Phase.EJECTED


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ({"status": 200, "in_flight": 3}, (Outcome.SUCCESS, 3)),
        ({"status": 400, "in_flight": None}, (Outcome.SUCCESS, None)),
        ({"status": 408}, (Outcome.SUCCESS, None)),
        ({"status": 429, "in_flight": 256}, (Outcome.FAILURE, 256)),
        ({"status": 503, "in_flight": "x"}, (Outcome.FAILURE, None)),
        ({}, (Outcome.SUCCESS, None)),
        ("anything", (Outcome.SUCCESS, None)),
        (None, (Outcome.SUCCESS, None)),
    ],
)
def test_what_an_answer_says_of_its_replica(
    answer: object, found: tuple[Outcome, int | None]
) -> None:
    assert judged(answer) == found


def test_stats_of_an_application_that_was_never_called_are_zero() -> None:
    assert handle_leases.stats("never").picks == 0


def test_stats_are_those_of_the_newest_router() -> None:
    handle_leases.register("app", made("a"))
    newest = made("a")
    handle_leases.register("app", newest)
    newest.choose("call", 0.0)
    assert handle_leases.stats("app") == handle_leases.HandleStats(
        picks=1, in_flight=1, by_replica={"a": 1}
    )


NAMES = ["r0", "r1", "r2", "r3"]
CALLS = st.integers(0, 9).map(str)


class AnyInterleaving(RuleBasedStateMachine):
    """Calls are chosen for, given up, answered, fail and lose their replica, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.leases = HandleLeases(None, random.Random(0))
        self.now = 0.0
        self.listed: set[str] = set()
        self.open: dict[str, str] = {}
        self.picks: Counter[str] = Counter()

    @rule(names=st.sets(st.sampled_from(NAMES)))
    def serve_lists(self, names: set[str]) -> None:
        self.leases.update([Destination(id=name) for name in sorted(names)], self.now)
        self.listed = set(names)
        self.open = {call: name for call, name in self.open.items() if name in names}

    @rule(name=st.sampled_from(NAMES))
    def a_replica_dies(self, name: str) -> None:
        self.leases.died(name, self.now)
        self.listed.discard(name)
        self.open = {call: at for call, at in self.open.items() if at != name}

    @rule(call=CALLS)
    @precondition(lambda self: self.listed)
    def a_call_is_chosen_for(self, call: str) -> None:
        before = self.open.get(call)
        name = self.leases.choose(call, self.now)
        assert name in self.listed
        assert name != before or self.listed == {before}
        self.open[call] = name
        self.picks[name] += 1

    @rule(call=CALLS)
    @precondition(lambda self: not self.listed)
    def there_is_none_to_choose(self, call: str) -> None:
        with pytest.raises(router.NoEndpoints):
            self.leases.choose(call, self.now)

    @rule(call=CALLS)
    def a_call_is_given_up_before_it_is_sent(self, call: str) -> None:
        self.leases.unsent(call, self.now)
        self.open.pop(call, None)

    @rule(
        call=CALLS,
        name=st.sampled_from(NAMES),
        outcome=st.sampled_from(Outcome),
        load=st.none() | st.integers(0, 9),
        passed_s=st.sampled_from([0.0, 0.5, 7.0]),
    )
    def a_call_ends(
        self, call: str, name: str, outcome: Outcome, load: int | None, passed_s: float
    ) -> None:
        self.now += passed_s
        self.leases.over(call, name, outcome, self.now, load)
        if self.open.get(call) == name:
            del self.open[call]

    @invariant()
    def counts_are_the_open_calls(self) -> None:
        counted = Counter(self.open.values())
        assert in_flight(self.leases) == {name: counted[name] for name in self.listed}
        stats = self.leases.stats()
        assert stats.in_flight == len(self.open)
        assert stats.by_replica == self.picks
        assert stats.picks == self.leases.fleet.picks

    def teardown(self) -> None:
        """In the end every call is over, and nothing is left."""
        for call, name in self.open.items():
            self.leases.over(call, name, Outcome.SUCCESS, self.now)
        assert not any(in_flight(self.leases).values())
        assert self.leases.stats().in_flight == 0


TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyInterleaving.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, derandomize=True
)
