"""What a new owner does with the traffic that a dead one left."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines import ownership, recovery
from pipelines.ownership import Owned, Timing
from registry.ledger import MarkKind
from tests.fakes import world as worlds
from tests.fakes.world import FAST, World


@pytest.fixture
def half_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Version 1 is in charge, and a tenth of the traffic is at version 2."""
    world = worlds.make(tmp_path, monkeypatch)
    world.promote(1, **FAST)
    world.plane.deployed[2] = world.plane.deployed[1]
    world.plane.shares = {1: 90, 2: 10}
    return world


def taken_over(world: World) -> Owned:
    ledger = world.record.ledger
    log = ledger.read("grammar")
    ledger.append(
        "grammar",
        log.mark(
            MarkKind.CLAIM, owner="elsewhere/boot/17/0.00", actor="rival", reason="promote x",
            at=world.place.now(), epoch=7,
        ),
    )  # fmt: skip
    timing = Timing(beat_s=1.0, lease_s=0.0, sleep=lambda s: None)
    return ownership.claim(world.place, "grammar", "promote y", force=False, timing=timing)


def test_traffic_goes_back_to_the_version_in_charge(half_done: World) -> None:
    recovery.tidy(half_done.place, taken_over(half_done))
    assert half_done.plane.shares == {1: 100}
    assert half_done.plane.running() == (1,)


def test_the_version_in_charge_keeps_its_traffic_where_its_sign_of_life_is_late(
    half_done: World,
) -> None:
    half_done.plane.absent_looks = 3
    recovery.tidy(half_done.place, taken_over(half_done))
    assert half_done.plane.shares == {1: 100}


def test_one_that_is_not_deployed_gets_none(half_done: World) -> None:
    del half_done.plane.deployed[1]
    recovery.tidy(half_done.place, taken_over(half_done))
    assert half_done.plane.shares == {}
