"""Going back without MLflow: what it needs, whom it overrules, and how the ledger hears of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from pipelines import breakglass, local, ownership, records
from pipelines.breakglass import Emergency
from pipelines.errors import NothingToServe
from pipelines.ownership import Timing
from pipelines.promotion import Ending, promote
from registry.errors import RecordConflict, RecordUnavailable
from registry.ledger import Kind, MarkKind
from registry.model import Tag
from serving.errors import DeploymentFailed, StaleEpoch
from tests.fakes import world as worlds
from tests.fakes.record import MemoryEvidence
from tests.fakes.world import FAST, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = worlds.make(tmp_path, monkeypatch)
    made.promote(1, **FAST)
    made.promote(2, **FAST)
    return made


def emergency(world: World) -> Emergency:
    return Emergency(
        model="grammar",
        copy=local.copy_in(world.place.journal),
        plane=lambda epoch, config: world.plane.open(epoch, ownership.this_process()),
        edge_epoch=world.place.edge_epoch,
        cache=world.place.cache,
        note=world.progress.note,
        now=lambda: "2030-01-02T00:00:00Z",
        actor="on call",
    )


@pytest.fixture
def away(world: World, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No call reaches the record until `undo`."""

    def fails(*args: object, **kwargs: object) -> Any:
        raise RecordUnavailable("away")

    record = world.record
    for part in (record.versions, record.evidence, record.ledger):
        for name in dir(type(part)):
            if not name.startswith("_"):
                monkeypatch.setattr(part, name, fails, raising=False)
    return monkeypatch


def enter(world: World) -> tuple[Any, ...]:
    copy = local.copy_in(world.place.journal)
    return breakglass.enter(world.record, "grammar", copy, world.progress.note)


def test_going_back_needs_nothing_of_the_record(world: World, away: pytest.MonkeyPatch) -> None:
    went = breakglass.go_back(emergency(world), to=None, reason="incident")
    assert went.version.version == 1
    assert (world.plane.shares, world.plane.running()) == ({1: 100}, (1,))
    away.undo()
    assert len(world.record.ledger.read("grammar").entries) == 2
    (entry,) = enter(world)
    log = world.record.ledger.read("grammar")
    assert log.champion == entry
    assert (entry.kind, entry.version, entry.reason) == (Kind.ROLLBACK, 1, "incident")
    assert (entry.actor, entry.at) == ("on call", "2030-01-02T00:00:00Z")
    assert log.epoch == entry.epoch


def test_it_is_entered_once_however_often_that_is_tried(world: World) -> None:
    breakglass.go_back(emergency(world), to=None, reason="incident")
    copy = local.copy_in(world.place.journal)
    (made,) = copy.rollbacks.all()
    assert len(enter(world)) == 1
    copy.rollbacks.add(made)  # as if we had been killed before it was taken off the list
    assert enter(world) == ()
    assert len(world.record.ledger.read("grammar").entries) == 3
    assert copy.rollbacks.all() == ()


def test_what_was_entered_is_known_here_when_the_record_is_away_again(
    world: World, away: pytest.MonkeyPatch
) -> None:
    breakglass.go_back(emergency(world), to=1, reason="incident")
    away.undo()
    enter(world)
    assert local.copy_in(world.place.journal).load_log() == world.record.ledger.read("grammar")
    assert breakglass.go_back(emergency(world), to=2, reason="it was not that").replaced == 1


def test_what_was_entered_can_be_served_again_from_the_record_alone(world: World) -> None:
    breakglass.go_back(emergency(world), to=None, reason="incident")
    (entry,) = enter(world)
    evidence = world.record.evidence
    assert isinstance(evidence, MemoryEvidence)
    assert evidence.runs[entry.evidence_run].tags[Tag.STAGE] == "rollback"
    assert "suites" in evidence.read(entry.evidence_run, "promotion.yaml")
    assert world.promote(2, **FAST).ending is Ending.PROMOTED


def test_owner_at_work_is_overruled_everywhere(world: World) -> None:
    """Its rollout is refused by the plane, and its entry by the ledger."""
    request = world.request(3, **FAST)
    world.wrong[request.checkpoint.digest] = 0
    real = world.place.plane

    def opened(epoch: int) -> Any:
        plane = real(epoch)
        breakglass.go_back(emergency(world), to=None, reason="incident")
        return plane

    with pytest.raises(StaleEpoch):
        promote(request, dataclasses.replace(world.place, plane=opened))
    assert world.plane.shares == {1: 100}
    enter(world)
    champion = world.record.ledger.read("grammar").champion
    assert champion is not None
    assert (champion.kind, champion.version) == (Kind.ROLLBACK, 1)


def test_entry_that_slipped_in_before_is_overruled_by_the_later_rollback(world: World) -> None:
    """An owner that had the traffic already commits while the glass is broken."""
    mine = ownership.claim(world.place, "grammar", "promote", force=True, timing=Timing())
    world.place.plane(mine.epoch)
    third = world.request(3, **FAST).checkpoint
    version = world.record.versions.register("grammar", third, worlds.registration(world, "third"))
    breakglass.go_back(emergency(world), to=None, reason="incident")
    change = records.Change(
        kind=Kind.PROMOTE, policy_digest="p", evidence_run="run-1", actor="a", reason="r",
        now=world.place.now, entries_seen=2, epoch=mine.epoch,
    )  # fmt: skip
    records.commit(world.record, version, change, world.progress.note)
    (entry,) = enter(world)
    assert world.record.ledger.read("grammar").champion == entry
    assert entry.version == 1


def test_rollback_that_was_overtaken_is_noted_and_changes_nothing(world: World) -> None:
    breakglass.go_back(emergency(world), to=None, reason="incident")
    made = world.promote(3, **FAST)
    assert made.ending is Ending.PROMOTED
    (mark,) = enter(world)
    log = world.record.ledger.read("grammar")
    assert mark.kind is MarkKind.NOTED
    assert log.champion is not None
    assert log.champion.version == made.version.version
    assert enter(world) == ()


def test_promotion_that_was_decided_before_is_refused_after_it_is_entered(world: World) -> None:
    mine = ownership.claim(world.place, "grammar", "promote", force=True, timing=Timing())
    world.place.plane(mine.epoch)
    breakglass.go_back(emergency(world), to=None, reason="incident")
    enter(world)
    version = world.record.versions.get("grammar", 2)
    change = records.Change(
        kind=Kind.PROMOTE, policy_digest="p", evidence_run="run-1", actor="a", reason="r",
        now=world.place.now, entries_seen=2, epoch=mine.epoch,
    )  # fmt: skip
    with pytest.raises(RecordConflict, match="rolled back without the record"):
        records.commit(world.record, version, change, world.progress.note)


def test_it_steps_down_again_while_mlflow_is_still_away(world: World) -> None:
    world.promote(3, **FAST)
    assert breakglass.go_back(emergency(world), to=None, reason="a").version.version == 2
    assert breakglass.go_back(emergency(world), to=None, reason="b").version.version == 1
    with pytest.raises(NothingToServe, match="no version served grammar before version 1"):
        breakglass.go_back(emergency(world), to=None, reason="c")
    assert breakglass.go_back(emergency(world), to=3, reason="d").version.version == 3
    assert [e.version for e in enter(world)] == [2, 1, 3]


@pytest.mark.parametrize("to", [2, 9])
def test_version_that_cannot_be_gone_back_to_is_refused(world: World, to: int) -> None:
    with pytest.raises(NothingToServe, match="never served grammar, or serves already"):
        breakglass.go_back(emergency(world), to=to, reason="x")
    assert world.plane.shares == {2: 100}


def test_absent_weights_are_named(world: World) -> None:
    for folder in world.place.cache.iterdir():
        folder.rename(folder.with_name(f"gone-{folder.name}"))
    with pytest.raises(NothingToServe, match="weights of version 1 are not on this machine"):
        breakglass.go_back(emergency(world), to=None, reason="x")


def test_machine_that_never_promoted_says_so(world: World, tmp_path: Path) -> None:
    strange = dataclasses.replace(emergency(world), copy=local.copy_in(tmp_path / "elsewhere"))
    with pytest.raises(NothingToServe, match="not possible here"):
        breakglass.go_back(strange, to=None, reason="x")


def test_version_that_does_not_come_up_leaves_what_serves(world: World) -> None:
    world.plane.never_ready.add(1)
    with pytest.raises(DeploymentFailed):
        breakglass.go_back(emergency(world), to=None, reason="x")
    assert (world.plane.shares, world.plane.running()) == ({2: 100}, (2,))
    assert local.copy_in(world.place.journal).rollbacks.all() == ()
