"""What a choice looks at, and what it costs the ones not chosen."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from scipy import stats

from serving import router
from tests.serving.router import build

NO_PROBES = router.RouterSettings(probes_per_pick=0.0)


def test_nothing_to_choose_from_is_said() -> None:
    empty = router.Fleet()
    with pytest.raises(router.NoEndpoints, match="wait for discovery"):
        router.pick(empty, random.Random(0), 0.0)
    empty.update([router.Destination(id="a", draining=True)], 0.0)
    with pytest.raises(router.NoEndpoints):
        router.pick(empty, random.Random(0), 0.0)


def test_the_only_endpoint_takes_everything() -> None:
    assert build.shares(build.fleet("a"), 5, 0.0) == {"a": 5}


def test_a_choice_counts_at_once_so_that_a_burst_spreads() -> None:
    # All requests of one moment, none answered: Ray's router puts 125-145 of 150 on one of two.
    assert build.shares(build.fleet("a", "b"), 150, 0.0, hold=True) == {"a": 75, "b": 75}
    many = build.shares(build.fleet(*map(str, range(50))), 500, 0.0, hold=True)
    assert max(many.values()) <= 14  # 10 each; log2(log(50)) + O(1) above (Azar et al., 1994)


def test_equal_endpoints_are_chosen_equally_often() -> None:
    for size in (2, 3, 50):
        names = [str(place) for place in range(size)]
        found = build.shares(build.fleet(*names), 200 * size, 0.0, seed=size)
        assert stats.chisquare([found[name] for name in names]).pvalue > 1e-4


def test_equal_endpoints_are_chosen_equally_often_with_probes() -> None:
    names = [str(place) for place in range(20)]
    made = build.fleet(*names)
    rng = random.Random(3)
    found: Counter[str] = Counter()
    for step in range(4000):
        now = step / 1000
        lease = router.pick(made, rng, now)
        found[lease.endpoint_id] += 1
        while (asked := router.next_probe(made, rng)) is not None:
            made.report(asked, 1 if asked == lease.endpoint_id else 0, now)
        lease.done(router.Outcome.SUCCESS, now, 0)
    assert stats.chisquare([found[name] for name in names]).pvalue > 1e-4


def test_the_one_with_fewer_requests_is_chosen() -> None:
    made = build.fleet("a", "b")
    build.lease_on(made, "a", 0.0)
    assert build.shares(made, 20, 0.0) == {"b": 20}


def test_fresh_reports_of_both_decide() -> None:
    made = build.fleet("a", "b")
    build.lease_on(made, "a", 0.0).done(router.Outcome.SUCCESS, 0.0, 9)
    build.lease_on(made, "b", 0.0).done(router.Outcome.SUCCESS, 0.0, 2)
    assert build.shares(made, 20, 0.5) == {"b": 20}
    # Own requests come on top of what was reported: 2 and 7 more are as many as 9.
    held = build.shares(made, 8, 0.5, hold=True)
    assert held["b"] >= 7


def test_own_requests_in_a_report_are_not_counted_twice() -> None:
    made = build.fleet("a", "b")
    held = build.lease_on(made, "a", 0.0)
    answered = build.lease_on(made, "a", 0.0)
    answered.done(router.Outcome.SUCCESS, 0.0, 1)  # the one it still holds is `held`
    build.lease_on(made, "b", 0.0).done(router.Outcome.SUCCESS, 0.0, 1)
    held.done(router.Outcome.SUCCESS, 0.0)
    assert build.shares(made, 20, 0.1) == {"a": 20}


def test_a_report_beside_none_is_not_compared() -> None:
    made = build.fleet("a", "b", settings=NO_PROBES)
    build.lease_on(made, "a", 0.0).done(router.Outcome.SUCCESS, 0.0, 50)
    found = build.shares(made, 200, 0.1)  # as if nothing were known of either
    assert 60 < found["a"] < 140


def test_old_reports_are_forgotten() -> None:
    made = build.fleet("a", "b")
    for name, load in (("a", 50), ("b", 1)):
        build.lease_on(made, name, 0.0).done(router.Outcome.SUCCESS, 0.0, load)
    assert build.shares(made, 100, 1.0)["a"] == 0
    assert build.shares(made, 100, 1.01)["a"] > 20


def test_answered_probes_are_the_candidates_and_are_used_once() -> None:
    names = [str(place) for place in range(100)]
    made = build.fleet(*names, settings=NO_PROBES)
    for name, load in (("3", 4), ("7", 5)):
        made.report(name, load, 0.0)
    rng = random.Random(0)
    assert router.pick(made, rng, 0.05).endpoint_id == "3"
    chosen = {router.pick(made, rng, 0.05).endpoint_id for _ in range(10)}
    assert not chosen & {"3", "7"}


def test_a_single_answered_probe_meets_an_endpoint_drawn_at_random() -> None:
    made = build.fleet(*map(str, range(100)), settings=NO_PROBES)
    made.report("3", 0, 0.0)
    assert router.pick(made, random.Random(0), 0.05).endpoint_id == "3"


def test_old_probes_propose_nothing() -> None:
    made = build.fleet(*map(str, range(100)), settings=NO_PROBES)
    for name in ("3", "7"):
        made.report(name, 0, 0.0)
    rng = random.Random(0)
    chosen = {router.pick(made, rng, 0.11).endpoint_id for _ in range(10)}
    assert not chosen & {"3", "7"}


def test_probes_of_those_that_left_propose_nothing() -> None:
    made = build.fleet("a", "b", "c", "d")
    for name in ("a", "b"):
        made.report(name, 0, 0.0)
    made.remove("a", 0.0)
    made.update([router.Destination(id="b", draining=True), *build.destinations("c", "d")], 0.0)
    made.report("a", 0, 0.0)
    made.report("b", 0, 0.0)
    assert set(build.shares(made, 50, 0.01)) == {"c", "d"}


def test_the_same_probe_twice_is_one_candidate() -> None:
    made = build.fleet("a", "b", settings=NO_PROBES)
    made.report("a", 9, 0.0)
    made.report("b", 1, 0.0)
    for _ in range(2):
        made.report("a", 9, 0.0)
    assert router.pick(made, random.Random(0), 0.0).endpoint_id == "b"


@pytest.mark.parametrize(("per_pick", "asked"), [(0.0, 0), (0.5, 50), (2.0, 200)])
def test_as_many_probes_are_asked_for_as_set(per_pick: float, asked: int) -> None:
    made = build.fleet("a", "b", settings=router.RouterSettings(probes_per_pick=per_pick))
    rng = random.Random(0)
    found = 0
    for _ in range(100):
        router.pick(made, rng, 0.0)
        while router.next_probe(made, rng) is not None:
            found += 1
    assert found == asked


def test_probes_not_asked_for_do_not_pile_up() -> None:
    made = build.fleet("a", "b")
    rng = random.Random(0)
    for _ in range(1000):
        router.pick(made, rng, 0.0)
    burst = 0
    while router.next_probe(made, rng) is not None:
        burst += 1
    assert burst == router.RouterSettings().probe_pool_size


def test_a_request_goes_elsewhere_than_it_has_been() -> None:
    made, rng = build.fleet("a", "b", "c"), random.Random(0)
    for _ in range(20):
        lease = router.pick(made, rng, 0.0, ["a", "c"])
        assert lease.endpoint_id == "b"
        lease.done(router.Outcome.CANCELED, 0.0)
    assert router.pick(made, rng, 0.0, ["a", "b", "c"]).endpoint_id in {"a", "b", "c"}
    assert made.picks == 21


def test_of_the_others_the_one_with_fewer_requests_is_taken() -> None:
    made, rng = build.fleet("a", "b", "c"), random.Random(0)
    build.lease_on(made, "b", 0.0)
    assert {router.pick(made, rng, 0.0, ["a"]).endpoint_id for _ in range(1)} == {"c"}


def test_an_ejected_endpoint_is_better_than_one_that_was_tried() -> None:
    made, rng = build.fleet("a", "b"), random.Random(0)
    build.fail(made, "a", 5, 0.0)
    lease = router.pick(made, rng, 1.0, ["b"])
    assert lease.endpoint_id == "a"
    lease.done(router.Outcome.SUCCESS, 1.0)
    assert made.views()["a"] == router.EndpointView(
        phase=router.Phase.EJECTED, in_flight=0, failure_rate=made.views()["a"].failure_rate
    )


def test_every_choice_is_counted() -> None:
    made = build.fleet("a", "b")
    build.shares(made, 7, 0.0)
    assert made.picks == 7


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("report_max_age_s", 0.0), ("probe_max_age_s", -1.0), ("probe_pool_size", 0),
        ("probes_per_pick", -0.1), ("spill_at", 0), ("slow_start_s", 0.0),
        ("slow_start_floor", 0.0), ("failure_weight", 1.1),
        ("unreached_weight", 0.0), ("eject_at", 0.0),
        ("max_ejection_s", 1.0), ("max_ejected_share", 1.0), ("probation_share", 0.0),
        ("probation_successes", 0),
    ],
)  # fmt: skip
def test_settings_out_of_bounds_are_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"router setting {field} must be .*, got {value}"):
        router.RouterSettings(**{field: value})  # type: ignore[arg-type]
