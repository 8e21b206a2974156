"""Endpoints come, go, drain, fail and come back."""

from __future__ import annotations

import random

import pytest

from serving import router
from serving.router import Outcome, Phase
from tests.serving.router import build

TEN = [f"e{place}" for place in range(10)]


def _success(made: router.Fleet, name: str, now: float) -> None:
    build.lease_on(made, name, now).done(Outcome.SUCCESS, now)


def test_draining_gets_nothing_new_and_keeps_its_count() -> None:
    made = build.fleet("a", "b")
    held = build.lease_on(made, "a", 0.0)
    made.update([router.Destination(id="a", draining=True), router.Destination(id="b")], 1.0)
    assert build.shares(made, 50, 1.0) == {"b": 50}
    assert made.views()["a"].in_flight == 1
    held.done(Outcome.SUCCESS, 2.0)
    assert made.views()["a"].in_flight == 0


def test_draining_can_be_taken_back() -> None:
    made = build.fleet("a", "b")
    made.update([router.Destination(id="a", draining=True), router.Destination(id="b")], 1.0)
    made.update(build.destinations("a", "b"), 2.0)
    assert build.phase(made, "a") is Phase.WARMING
    assert build.shares(made, 200, 50.0)["a"] > 50


def test_counts_of_a_removed_endpoint_go_with_it() -> None:
    made = build.fleet("a", "b")
    held = build.lease_on(made, "a", 0.0)
    made.remove("a", 1.0)
    made.remove("a", 1.0)  # known no more
    made.update(build.destinations("a", "b"), 2.0)
    assert made.views()["a"].in_flight == 0
    assert held.done(Outcome.FAILURE, 3.0, 5)
    assert made.views()["a"].in_flight == 0
    assert made.views()["a"].failure_rate == 0.0


def test_a_lease_is_given_back_once() -> None:
    made = build.fleet("a")
    lease = build.lease_on(made, "a", 0.0)
    assert lease.done(Outcome.CANCELED, 0.0)
    assert not lease.done(Outcome.FAILURE, 0.0)
    assert made.views()["a"].in_flight == 0
    assert made.views()["a"].failure_rate == 0.0


def test_of_several_with_one_id_the_last_counts() -> None:
    made = router.Fleet()
    made.update([router.Destination(id="a"), router.Destination(id="a", draining=True)], 0.0)
    assert build.phase(made, "a") is Phase.DRAINING


def test_five_failures_in_a_row_eject() -> None:
    made = build.fleet(*TEN)
    build.fail(made, "e0", 4, 0.0)
    assert build.phase(made, "e0") is Phase.SERVING
    build.fail(made, "e0", 1, 0.0)
    assert build.phase(made, "e0") is Phase.EJECTED
    assert build.shares(made, 300, 1.0)["e0"] == 0


def test_not_being_reached_may_weigh_more_than_a_failure() -> None:
    made = build.fleet(*TEN, settings=router.RouterSettings(unreached_weight=1.0))
    build.lease_on(made, "e0", 0.0).done(Outcome.UNREACHED, 0.0)
    build.lease_on(made, "e1", 0.0).done(Outcome.FAILURE, 0.0)
    assert build.phase(made, "e0") is Phase.EJECTED
    assert build.phase(made, "e1") is Phase.SERVING


def test_not_being_reached_is_a_failure_like_others_unless_said() -> None:
    made = build.fleet(*TEN)
    for times in range(5):
        assert build.phase(made, "e0") is Phase.SERVING, times
        build.lease_on(made, "e0", 0.0).done(Outcome.UNREACHED, 0.0)
    assert build.phase(made, "e0") is Phase.EJECTED


def test_an_endpoint_that_fails_half_of_the_time_is_ejected_and_one_in_fifty_is_not() -> None:
    made = build.fleet(*TEN)
    for step in range(200):
        if build.phase(made, "e0") is Phase.SERVING:
            build.lease_on(made, "e0", 0.0).done(
                Outcome.FAILURE if step % 4 < 3 else Outcome.SUCCESS, 0.0
            )
        build.lease_on(made, "e1", 0.0).done(
            Outcome.FAILURE if step % 50 == 0 else Outcome.SUCCESS, 0.0
        )
    assert build.phase(made, "e0") is Phase.EJECTED
    assert build.phase(made, "e1") is Phase.SERVING


def test_cancellations_say_nothing_about_an_endpoint() -> None:
    made = build.fleet(*TEN)
    for _ in range(50):
        build.lease_on(made, "e0", 0.0).done(Outcome.CANCELED, 0.0)
    assert made.views()["e0"].failure_rate == 0.0


def test_no_more_than_a_fifth_is_ejected_at_once() -> None:
    made = build.fleet(*TEN)
    for name in TEN:
        build.fail(made, name, 8, 0.0)
    phases = [view.phase for view in made.views().values()]
    assert phases.count(Phase.EJECTED) == 2


def test_one_of_two_may_be_ejected_and_the_last_one_never() -> None:
    pair = build.fleet("a", "b")
    build.fail(pair, "a", 5, 0.0)
    build.fail(pair, "b", 9, 0.0)
    assert build.phase(pair, "a") is Phase.EJECTED
    assert build.phase(pair, "b") is Phase.SERVING
    alone = build.fleet("a")
    build.fail(alone, "a", 9, 0.0)
    assert build.phase(alone, "a") is Phase.SERVING


def test_a_fleet_that_shrinks_takes_ejected_ones_back() -> None:
    made = build.fleet(*TEN)
    for at, name in enumerate(("e0", "e1")):
        build.fail(made, name, 5, float(at))
    made.update(build.destinations("e0", "e1", "e2"), 2.0)
    assert build.phase(made, "e0") is Phase.PROBATION
    assert build.phase(made, "e1") is Phase.EJECTED
    made.remove("e0", 3.0)
    assert build.phase(made, "e1") is Phase.EJECTED
    made.remove("e2", 3.0)
    assert build.shares(made, 3, 3.0) == {"e1": 3}


def test_an_ejected_endpoint_comes_back_a_little_at_a_time() -> None:
    made = build.fleet(*TEN)
    build.fail(made, "e0", 5, 0.0)
    assert build.shares(made, 2000, 4.9)["e0"] == 0
    found = build.shares(made, 2000, 5.0)["e0"]
    assert build.phase(made, "e0") is Phase.PROBATION
    # A tenth of 200, two choices doubling it at most, as the others are idle too.
    assert 0 < found < 60


def test_on_probation_it_holds_one_request() -> None:
    made = build.fleet(*TEN)
    build.fail(made, "e0", 5, 0.0)
    held = build.shares(made, 500, 5.0, hold=True)
    assert held["e0"] == 1


def test_a_failure_on_probation_ejects_for_longer() -> None:
    made = build.fleet(*TEN)
    build.fail(made, "e0", 5, 0.0)
    build.fail(made, "e0", 1, 5.0)
    assert build.phase(made, "e0") is Phase.EJECTED
    build.shares(made, 1, 14.9)
    assert build.phase(made, "e0") is Phase.EJECTED
    build.shares(made, 1, 15.0)
    assert build.phase(made, "e0") is Phase.PROBATION


def test_ejections_have_a_longest() -> None:
    made = build.fleet(*TEN)
    now = 0.0
    build.fail(made, "e0", 5, now)
    for _ in range(30):
        now += 60.0
        build.fail(made, "e0", 1, now)
    build.shares(made, 1, now + 60.0)
    assert build.phase(made, "e0") is Phase.PROBATION


def test_three_successes_end_probation_and_slow_start_follows() -> None:
    made = build.fleet(*TEN)
    build.fail(made, "e0", 5, 0.0)
    for _ in range(2):
        _success(made, "e0", 6.0)
    build.fail(made, "e0", 1, 6.0)  # which starts the count anew
    for _ in range(2):
        _success(made, "e0", 16.0)
    assert build.phase(made, "e0") is Phase.PROBATION
    _success(made, "e0", 16.0)
    assert build.phase(made, "e0") is Phase.WARMING
    assert made.views()["e0"].failure_rate == 0.0
    _success(made, "e0", 26.0)
    assert build.phase(made, "e0") is Phase.SERVING
    build.fail(made, "e0", 5, 27.0)  # the first ejection again: 5 s
    build.shares(made, 1, 32.0)
    assert build.phase(made, "e0") is Phase.PROBATION


def test_failures_of_requests_sent_before_an_ejection_do_not_prolong_it() -> None:
    made = build.fleet(*TEN)
    late = [build.lease_on(made, "e0", 0.0) for _ in range(3)]
    build.fail(made, "e0", 5, 0.0)
    build.shares(made, 1, 5.0)
    for lease in late:
        lease.done(Outcome.FAILURE, 6.0)
    assert build.phase(made, "e0") is Phase.PROBATION


def test_draining_ends_an_ejection() -> None:
    made = build.fleet("a", "b")
    build.fail(made, "a", 5, 0.0)
    made.update([router.Destination(id="a", draining=True), router.Destination(id="b")], 1.0)
    build.shares(made, 1, 100.0)
    assert build.phase(made, "a") is Phase.DRAINING


@pytest.mark.parametrize(("age_s", "low", "high"), [(0.0, 0.07, 0.25), (5.0, 0.4, 0.8)])
def test_a_new_endpoint_starts_slowly(age_s: float, low: float, high: float) -> None:
    made = build.fleet(*TEN)
    made.update(build.destinations(*TEN, "new"), 100.0)
    found = build.shares(made, 11_000, 100.0 + age_s)
    assert low < found["new"] / 1000 < high


def test_a_new_endpoint_takes_its_full_share_in_the_end() -> None:
    made = build.fleet(*TEN)
    made.update(build.destinations(*TEN, "new"), 100.0)
    found = build.shares(made, 11_000, 110.0)
    assert 0.85 < found["new"] / 1000 < 1.15
    assert build.phase(made, "new") is Phase.SERVING


def test_a_new_router_does_not_take_its_endpoints_for_new() -> None:
    assert build.phase(build.fleet("a", "b"), "a") is Phase.SERVING


def test_new_endpoints_alone_take_everything() -> None:
    made = build.fleet("a")
    made.update(build.destinations("a", "b", "c"), 1.0)
    made.remove("a", 1.0)
    found = build.shares(made, 400, 1.0)
    assert min(found["b"], found["c"]) > 150


def test_a_probe_is_drawn_from_those_that_may_be_chosen() -> None:
    made = build.fleet("a", "b", "c")
    build.fail(made, "a", 5, 0.0)
    rng = random.Random(0)
    asked = set()
    for _ in range(100):
        router.pick(made, rng, 1.0)
        asked.add(router.next_probe(made, rng))
    assert asked == {"b", "c"}
