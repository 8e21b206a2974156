"""The own zone first, others when it is full or empty."""

from __future__ import annotations

import random
from collections import Counter

from serving import router
from tests.serving.router import build


def _two_zones(spill_at: int = 4) -> router.Fleet:
    made = router.Fleet(router.RouterSettings(spill_at=spill_at), zone="here")
    near = build.destinations("n1", "n2", zone="here")
    far = build.destinations("f1", "f2", zone="there") + build.destinations("f3")
    made.update(near + far, 0.0)
    return made


def _zones(found: Counter[str]) -> dict[str, int]:
    return {zone: sum(n for name, n in found.items() if name[0] == zone) for zone in "nf"}


def test_the_own_zone_takes_all_that_it_can() -> None:
    assert _zones(build.shares(_two_zones(), 100, 0.0)) == {"n": 100, "f": 0}


def test_what_the_own_zone_cannot_take_spills_over() -> None:
    found = build.shares(_two_zones(spill_at=4), 12, 0.0, hold=True)
    assert _zones(found) == {"n": 8, "f": 4}


def test_beyond_that_load_is_shared_by_all() -> None:
    # 5 endpoints, 10 requests each: full everywhere, so the least loaded is what counts.
    found = build.shares(_two_zones(spill_at=4), 50, 0.0, hold=True)
    assert max(found.values()) - min(found.values()) <= 3


def test_load_of_others_makes_the_zone_full_while_it_is_fresh() -> None:
    made = _two_zones(spill_at=4)
    for name in ("n1", "n2"):
        made.report(name, 9, 0.0)
    assert _zones(build.shares(made, 50, 0.5)) == {"n": 0, "f": 50}
    assert _zones(build.shares(made, 50, 1.5)) == {"n": 50, "f": 0}


def test_without_an_endpoint_at_home_others_take_it() -> None:
    made = _two_zones()
    for name in ("n1", "n2"):
        made.remove(name, 0.0)
    assert _zones(build.shares(made, 50, 0.0)) == {"n": 0, "f": 50}


def test_a_router_without_a_zone_prefers_none() -> None:
    made = router.Fleet()
    made.update(build.destinations("n1", zone="here") + build.destinations("f1", zone="there"), 0.0)
    found = _zones(build.shares(made, 400, 0.0))
    assert min(found.values()) > 150


def test_an_endpoint_can_change_its_zone_and_keeps_its_count() -> None:
    made = _two_zones()
    held = build.lease_on(made, "n1", 0.0)
    made.update(build.destinations("n1", zone="there") + build.destinations("n2", zone="here"), 0.0)
    assert made.views()["n1"].in_flight == 1
    assert build.shares(made, 20, 0.0) == {"n2": 20}
    assert held.done(router.Outcome.SUCCESS, 0.0)
    assert made.views()["n1"].in_flight == 0


def test_other_zones_are_probed_once_they_are_used() -> None:
    made = _two_zones()
    for name in ("n1", "n2"):
        made.remove(name, 0.0)
    build.shares(made, 1, 0.0)
    asked = router.next_probe(made, random.Random(0))
    assert asked in {"f1", "f2", "f3"}
