"""The promotion flow over recorded stages: what is reused, refused, entered and put back.

Workers are replaced by a function that writes what the real ones wrote for the same request; the
real ones run in tests/e2e and in their own modules' tests.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines import ownership, records, rollback
from pipelines.errors import (
    ConfigInvalid,
    Fenced,
    ModelFrozen,
    NothingToServe,
    StageFailed,
)
from pipelines.ownership import Timing
from pipelines.promotion import Ending, promote
from registry import checkpoint
from registry.errors import RecordUnavailable
from registry.ledger import Item, Kind, MarkKind, Waiver
from registry.model import Tag
from registry.store import Registration
from tests.fakes import checkpoints
from tests.fakes import world as worlds
from tests.fakes.plane import FakePlane
from tests.fakes.record import MemoryEvidence, MemoryVersions
from tests.fakes.world import FAST, World


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return worlds.make(tmp_path, monkeypatch)


def test_first_good_version_is_promoted_against_floors(world: World) -> None:
    done = world.promote(1, **FAST)
    assert done.ending is Ending.PROMOTED
    assert world.plane.shares == {1: 100}
    (entry,) = world.record.ledger.read("grammar").entries
    assert (entry.version, entry.actor, str(entry.kind)) == (1, "tester", "promote")
    assert entry.reason == "all 2 gates passed"


def test_first_bad_version_is_refused_and_nothing_is_started(world: World) -> None:
    done = world.promote(1, wrong=100, **FAST)
    assert done.ending is Ending.REFUSED
    assert world.plane.events == []
    assert world.record.ledger.read("grammar").entries == ()


def test_equal_successor_is_promoted_and_aliases_follow(world: World) -> None:
    world.promote(1, **FAST)
    assert world.promote(2, **FAST).ending is Ending.PROMOTED
    versions = world.record.versions
    assert isinstance(versions, MemoryVersions)
    assert versions.aliases["grammar"] == {"champion": 2, "previous": 1}
    assert "Serving: version 2" in versions.descriptions["grammar", None]


def test_worse_successor_is_refused_and_the_champion_still_serves(world: World) -> None:
    world.promote(1, **FAST)
    done = world.promote(2, wrong=60, **FAST)
    assert done.ending is Ending.REFUSED
    assert world.plane.shares == {1: 100}
    refused = world.record.versions.get("grammar", 2)
    assert refused.tags[Tag.GATE_STATUS] == "fail"
    versions = world.record.versions
    assert isinstance(versions, MemoryVersions)
    assert versions.aliases["grammar"] == {"champion": 1}
    page = versions.descriptions["grammar", None]
    assert "Serving: version 1" in page
    assert "- version 2: 2 of 2 gates failed; first: " in page


def test_verdict_of_record_is_bound_to_checkpoint_and_settings(world: World) -> None:
    done = world.promote(1, **FAST)
    evidence = world.record.evidence
    assert isinstance(evidence, MemoryEvidence)
    params = evidence.runs[done.run_id].params
    assert params["verdict"] == "pass"
    assert params["candidate_digest"] == done.version.digest
    assert params["policy_digest"] == world.request(1, **FAST).config.digest


@pytest.mark.parametrize(("noise_run", "more"), [(False, 0), (True, 1)])
def test_champion_is_evaluated_once_and_once_more_for_its_noise(
    world: World, noise_run: bool, more: int
) -> None:
    world.promote(1, **FAST)
    world.promote(2, wrong=60, noise_run=noise_run, **FAST)
    world.promote(3, wrong=60, noise_run=noise_run, **FAST)
    assert world.asked == ["evals.harness"] * (3 + more)


def test_report_says_how_much_the_champion_differs_from_itself(world: World) -> None:
    world.promote(1, **FAST)
    refused = world.promote(2, wrong=60, **FAST)
    page = world.record.evidence.read(refused.run_id, "report.html")
    assert "outputs of the same model, 0 differ between two runs" in page
    assert "not measured" not in page


def test_same_again_changes_nothing(world: World) -> None:
    world.promote(1, **FAST)
    again = world.promote(1, **FAST)
    assert again.ending is Ending.ALREADY_CHAMPION
    assert world.progress.reused["evaluate"]
    assert len(world.record.ledger.read("grammar").entries) == 1
    assert world.plane.shares == {1: 100}


def test_failed_stage_is_redone_and_finished_ones_are_not(world: World) -> None:
    with pytest.raises(StageFailed, match="out of memory"):
        world.promote(1, wrong=-1, **FAST)
    assert world.promote(1, **FAST).ending is Ending.PROMOTED
    assert world.progress.reused == {
        "register": True, "evaluate": False, "gate": False, "rollout": False,
    }  # fmt: skip


def test_changed_gate_settings_judge_again_without_evaluating_again(world: World) -> None:
    world.promote(1, **FAST)
    world.promote(2, wrong=2, gates={"margin_points": 0.2}, **FAST)
    asked = len(world.asked)
    done = world.promote(2, wrong=2, gates={"margin_points": 3.0}, **FAST)
    assert len(world.asked) == asked
    assert not world.progress.reused["gate"]
    assert done.ending is Ending.PROMOTED


def test_failed_rollout_leaves_no_entry(world: World) -> None:
    world.promote(1, **FAST)
    world.plane.faulty.add(2)
    with pytest.raises(Exception, match="taken back"):
        world.promote(2, **FAST)
    assert len(world.record.ledger.read("grammar").entries) == 1
    assert world.plane.shares == {1: 100}


def test_record_says_which_promise_a_version_broke_and_what_was_counted(world: World) -> None:
    world.promote(1, **FAST)
    world.plane.slow.add(2)
    with pytest.raises(Exception, match="taken back"):
        world.promote(2, **FAST)
    assert isinstance(world.record.evidence, MemoryEvidence)
    *_, stage = world.record.evidence.runs.values()
    assert stage.parent is not None
    # What `liftlock status` shows as the reason of the last try:
    told = world.record.evidence.runs[stage.parent].tags[Tag.ERROR]
    assert "10 % of traffic: latency: " in told
    (step,) = json.loads(stage.files["steps.json"])
    assert (step["share_percent"], step["move"]) == (10, "revert")
    found = {sli["sli"]: sli for sli in step["slis"]}
    assert found["latency"]["finding"] == "broken"
    assert found["latency"]["bad"] == found["latency"]["requests"] > 0
    assert found["availability"]["bad"] == 0


def test_steps_of_a_rollout_that_held_are_in_the_record_with_their_burns(world: World) -> None:
    world.promote(1, **FAST)
    world.promote(2, **FAST)
    assert isinstance(world.record.evidence, MemoryEvidence)
    stage = list(world.record.evidence.runs.values())[-1]
    assert [step["move"] for step in json.loads(stage.files["steps.json"])] == ["advance"] * 3
    assert stage.metrics["step_50_latency_burn"] == 0.0


def test_quantized_checkpoint_is_taken_as_it_is_and_its_parent_named(world: World) -> None:
    world.promote(1, **FAST)
    directory = checkpoints.make_fp8(world.folder / "fp8")
    request = dataclasses.replace(
        world.request(1, recipe={"enabled": True}, **FAST),
        checkpoint=checkpoint.inspect(directory),
        parent=1,
    )
    world.wrong[request.checkpoint.digest] = 0
    done = promote(request, world.place)
    assert done.ending is Ending.PROMOTED
    assert "quantize" not in world.progress.reused
    assert any("fp8-channel-attn already" in note for note in world.progress.notes)
    assert (done.version.parent, done.version.scheme) == (1, "fp8-channel-attn")


def test_unknown_parent_is_refused_before_anything_is_registered(world: World) -> None:
    request = dataclasses.replace(world.request(1, **FAST), parent=7)
    with pytest.raises(ConfigInvalid, match="parent version 7"):
        promote(request, world.place)
    assert world.record.versions.find("grammar", request.checkpoint.digest) is None


def test_rollback_goes_to_what_served_before_and_is_entered(world: World) -> None:
    world.promote(1, **FAST)
    world.promote(2, **FAST)
    restored = world.rollback()
    assert restored.entry.version == 1
    assert world.plane.shares == {1: 100}
    assert [str(e.kind) for e in world.record.ledger.read("grammar").entries] == [
        "promote", "promote", "rollback",
    ]  # fmt: skip
    with pytest.raises(NothingToServe, match="first that served"):
        world.rollback()


@pytest.mark.parametrize(("to", "told"), [(9, "never served"), (2, "in charge already")])
def test_rollback_to_a_wrong_version_is_refused(world: World, to: int, told: str) -> None:
    world.promote(1, **FAST)
    world.promote(2, **FAST)
    with pytest.raises(NothingToServe, match=told):
        world.rollback(to=to)
    assert world.plane.shares == {2: 100}


def test_restore_brings_the_champion_up_and_enters_nothing(world: World) -> None:
    world.promote(1, **FAST)
    world.plane.deployed.clear()
    entry = rollback.champion_of(world.record, "grammar")
    config = rollback.settings_of(world.record, "grammar", entry)
    restored = rollback.restore(entry, config, world.place)
    assert restored.entry.version == 1
    assert world.plane.running() == (1,)
    assert len(world.record.ledger.read("grammar").entries) == 1


def test_version_is_served_again_with_the_settings_it_was_promoted_with(world: World) -> None:
    world.promote(1, rollout={"bake_s": 0.0, "drain_timeout_s": 7.0})
    world.promote(2, **FAST)
    target = rollback.target_of(world.record, "grammar", None)
    config = rollback.settings_of(world.record, "grammar", target)
    assert config.rollout.drain_timeout_s == 7.0
    world.rollback()
    entry = rollback.champion_of(world.record, "grammar")
    assert rollback.settings_of(world.record, "grammar", entry) == config


def test_champion_that_changed_since_the_gate_stops_the_promotion(world: World) -> None:
    world.promote(1, **FAST)
    rival = records.Change(
        kind=Kind.PROMOTE, policy_digest="p", evidence_run="run-1", actor="rival", reason="first",
        now=lambda: "2030-01-01T00:00:00Z", entries_seen=1, epoch=0,
    )  # fmt: skip
    third = world.request(3, **FAST).checkpoint
    what = Registration(name="rival", run_id="run-1")
    other = world.record.versions.register("grammar", third, what)

    def overtaken(epoch: int) -> FakePlane:
        took = ownership.claim(world.place, "grammar", "win", force=True, timing=Timing())
        mine = dataclasses.replace(rival, epoch=took.epoch)
        records.commit(world.record, other, mine, world.progress.note)
        world.plane.deployed = {other.version: other}
        world.plane.shares = {other.version: 100}
        return world.plane

    place = dataclasses.replace(world.place, plane=overtaken)
    request = world.request(2, **FAST)
    world.wrong[request.checkpoint.digest] = 0
    with pytest.raises(Fenced, match="was taken over by process"):
        promote(request, place)
    assert [e.version for e in world.record.ledger.read("grammar").entries] == [1, other.version]
    assert any("leaving everything to it" in note for note in world.progress.notes)


def test_mirrors_that_fail_after_the_entry_do_not_undo_the_promotion(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object) -> None:
        raise RecordUnavailable("MLflow is away")

    world.promote(1, **FAST)
    monkeypatch.setattr(world.record.versions, "describe", describe_fails(world, away))
    assert world.promote(2, **FAST).ending is Ending.PROMOTED
    assert world.plane.shares == {2: 100}
    assert any("will be set by the next command" in note for note in world.progress.notes)
    monkeypatch.undo()
    assert records.reconcile(world.record, "grammar") is None
    versions = world.record.versions
    assert isinstance(versions, MemoryVersions)
    assert "Serving: version 2" in versions.descriptions["grammar", None]


def describe_fails(world: World, away: Callable[..., None]) -> Callable[..., None]:
    """Fails for the model's page only, as it would after the ledger entry."""
    real = world.record.versions.describe

    def describe(model: str, version: int | None, text: str) -> None:
        if version is None:
            away()
        real(model, version, text)

    return describe


def test_entry_whose_answer_was_lost_counts_as_written(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = world.record.ledger.append

    def lost(model: str, item: Item) -> None:
        real(model, item)
        raise RecordUnavailable("timed out")

    monkeypatch.setattr(world.record.ledger, "append", lost)
    assert world.promote(1, **FAST).ending is Ending.PROMOTED
    assert world.plane.shares == {1: 100}
    assert len(world.record.ledger.read("grammar").entries) == 1


def test_evidence_whose_artifacts_are_gone_is_made_again(world: World) -> None:
    world.promote(1, **FAST)
    evidence = world.record.evidence
    assert isinstance(evidence, MemoryEvidence)
    for run in evidence.runs.values():
        run.files.pop("outcomes/small.json", None)
        run.files.pop("report.html", None)
    assert world.promote(1, **FAST).ending is Ending.ALREADY_CHAMPION
    assert not world.progress.reused["evaluate"]
    assert not world.progress.reused["gate"]


def test_failed_stage_says_why_in_the_record(world: World) -> None:
    with pytest.raises(StageFailed):
        world.promote(1, wrong=-1, **FAST)
    evidence = world.record.evidence
    assert isinstance(evidence, MemoryEvidence)
    failed = {r.name: r.tags[Tag.ERROR] for r in evidence.runs.values() if r.status == "FAILED"}
    assert failed == {
        "promote ck1": "StageFailed: out of memory", "evaluate": "StageFailed: out of memory",
    }  # fmt: skip


def test_endless_reason_is_refused_before_anything_is_done(world: World) -> None:
    with pytest.raises(ConfigInvalid, match="the reason has"):
        dataclasses.replace(world.request(1, **FAST), reason="x" * 5000)


def test_lineage_given_later_is_added_to_the_version(world: World) -> None:
    world.promote(1, **FAST)
    request = dataclasses.replace(world.request(1, **FAST), lineage="run-of-training")
    done = promote(request, world.place)
    assert done.version.tags[Tag.LINEAGE] == "run-of-training"


def test_promoting_a_version_that_was_rolled_back_says_so(world: World) -> None:
    world.promote(1, **FAST)
    world.promote(2, **FAST)
    world.rollback()
    world.promote(2, **FAST)
    (told,) = [n for n in world.progress.notes if "has served before" in n]
    assert "by rollback: complaints" in told


def said(reason: str) -> records.Said:
    return records.Said(actor="ann", reason=reason, now=lambda: "2030-01-01T00:00:00Z")


def test_frozen_model_is_not_promoted_until_it_is_thawed(world: World) -> None:
    world.promote(1, **FAST)
    records.freeze(world.record, "grammar", said("holidays"))
    with pytest.raises(ModelFrozen, match=r"frozen by ann since 2030.*: holidays"):
        world.promote(2, **FAST)
    assert world.plane.shares == {1: 100}
    records.thaw(world.record, "grammar", said("over"))
    assert world.promote(2, **FAST).ending is Ending.PROMOTED


def test_freeze_in_the_middle_of_a_rollout_gives_the_traffic_back(world: World) -> None:
    world.promote(1, **FAST)

    def opened(epoch: int) -> FakePlane:
        records.freeze(world.record, "grammar", said("incident"))
        return world.plane

    place = dataclasses.replace(world.place, plane=opened)
    request = world.request(2, **FAST)
    world.wrong[request.checkpoint.digest] = 0
    with pytest.raises(ModelFrozen, match="incident"):
        promote(request, place)
    assert (world.plane.shares, world.plane.running()) == ({1: 100}, (1,))
    assert [e.version for e in world.record.ledger.read("grammar").entries] == [1]


def test_going_back_by_hand_works_while_frozen(world: World) -> None:
    world.promote(1, **FAST)
    world.promote(2, **FAST)
    records.freeze(world.record, "grammar", said("incident"))
    assert world.rollback().entry.version == 1


def test_freezing_twice_keeps_the_first_reason(world: World) -> None:
    records.freeze(world.record, "grammar", said("first"))
    assert records.freeze(world.record, "grammar", said("second")).reason == "first"
    assert records.thaw(world.record, "grammar", said("over")) is not None
    assert records.thaw(world.record, "grammar", said("over")) is None


WAIVER = Waiver(by="Ann", reason="known gap", expires="2030-01-20", gates=("small/spelling",))


def test_waived_gates_let_a_candidate_through_as_an_override(world: World) -> None:
    world.promote(1, **FAST)
    both = dataclasses.replace(WAIVER, gates=("small", "small/spelling"))
    made = world.promote(2, wrong=60, more={"waiver": both}, **FAST)
    assert made.ending is Ending.WAIVED
    assert made.verdict is not None
    assert str(made.verdict.status) == "fail"
    entry = world.record.ledger.read("grammar").champion
    assert entry is not None
    assert (entry.kind, entry.version, entry.waiver) == (Kind.OVERRIDE, 2, both)
    page = world.record.evidence.read(made.run_id, "report.html")
    assert "Promoted although a gate did not pass" in page
    assert "waived by Ann until 2030-01-20" in page


def test_gate_that_the_waiver_does_not_name_still_refuses(world: World) -> None:
    world.promote(1, **FAST)
    made = world.promote(2, wrong=60, more={"waiver": WAIVER}, **FAST)
    assert made.ending is Ending.REFUSED
    assert any("does not name small" in note for note in world.progress.notes)
    assert world.plane.shares == {1: 100}


def test_waiver_that_was_not_needed_is_not_entered(world: World) -> None:
    made = world.promote(1, more={"waiver": WAIVER}, **FAST)
    entry = world.record.ledger.read("grammar").champion
    assert entry is not None
    assert (made.ending, entry.kind, entry.waiver) == (Ending.PROMOTED, Kind.PROMOTE, None)


@pytest.mark.parametrize(
    ("change", "settings", "message"),
    [
        ({"expires": "2029-12-31"}, {}, "expired on 2029-12-31"),
        ({"expires": "2030-03-01"}, {}, "at most 30"),
        ({"expires": "soon"}, {}, "must be a date"),
        ({"by": " "}, {}, "named person"),
        ({"gates": ()}, {}, "must name the gates"),
        ({}, {"waivers": {"allowed": False}}, "forbid waivers"),
        ({"gates": ("nosuch",)}, {}, "no gate of this promotion"),
    ],
)
def test_waiver_that_is_not_one_is_refused(
    world: World, change: dict[str, Any], settings: dict[str, Any], message: str
) -> None:
    world.promote(1, **FAST)
    waiver = dataclasses.replace(WAIVER, **change)
    with pytest.raises(ConfigInvalid, match=message):
        world.promote(2, wrong=60, more={"waiver": waiver}, **FAST, **settings)
    assert world.plane.shares == {1: 100}


OTHER_ENGINE = {"resources": {"engine": {"max_num_seqs": 8}}}


def test_changed_runtime_goes_through_the_gates_as_a_version_of_its_own(world: World) -> None:
    world.promote(1, **FAST)
    made = world.promote(1, **FAST, **OTHER_ENGINE)
    assert (made.ending, made.version.version) == (Ending.PROMOTED, 2)
    first, second = world.record.ledger.read("grammar").entries
    assert (first.digest, first.version) == (second.digest, 1)
    assert first.runtime_digest != second.runtime_digest
    assert world.plane.shares == {2: 100}
    assert world.rollback().entry.version == 1


def test_changed_runtime_that_answers_worse_is_refused(world: World) -> None:
    world.promote(1, **FAST)
    world.wrong_elsewhere = 60
    made = world.promote(1, **FAST, **OTHER_ENGINE)
    assert made.ending is Ending.REFUSED
    assert world.plane.shares == {1: 100}


def test_same_runtime_again_is_the_champion_already(world: World) -> None:
    world.promote(1, **FAST)
    world.promote(1, **FAST, **OTHER_ENGINE)
    again = world.promote(1, **FAST, **OTHER_ENGINE)
    assert (again.ending, again.version.version) == (Ending.ALREADY_CHAMPION, 2)


def test_stage_is_rerun_by_name_only(world: World) -> None:
    world.promote(1, **FAST)
    world.promote(1, more={"rerun": frozenset({"evaluate"})}, **FAST)
    assert (world.progress.reused["register"], world.progress.reused["evaluate"]) == (True, False)
    with pytest.raises(ConfigInvalid, match="no stage that could be rerun"):
        world.promote(1, more={"rerun": frozenset({"polish"})}, **FAST)


def test_old_evidence_is_made_again(world: World) -> None:
    world.promote(1, **FAST)
    late = dataclasses.replace(world.place, now=lambda: "2030-01-31T00:00:01Z")
    promote(world.request(1, **FAST), late)
    reused = world.progress.reused
    assert (reused["register"], reused["evaluate"], reused["gate"]) == (True, False, False)
    promote(world.request(1, evidence_max_age_days=31.0, **FAST), late)
    assert world.progress.reused["evaluate"] is True


def test_what_a_dead_owner_left_on_the_plane_is_taken_down(world: World) -> None:
    world.promote(1, **FAST)
    stray = world.record.versions.get("grammar", 1)
    world.plane.deployed[9] = dataclasses.replace(stray, version=9)
    world.plane.shares = {1: 90, 9: 10}
    log = world.record.ledger.read("grammar")
    gone = log.mark(
        MarkKind.CLAIM, owner=ownership.this_process().replace(f"/{os.getpid()}/", "/999999999/"),
        actor="a", reason="r", at=world.place.now(), epoch=log.epoch + 1,
    )  # fmt: skip
    world.record.ledger.append("grammar", gone)
    made = world.promote(2, wrong=300, **FAST)
    assert made.ending is Ending.REFUSED
    assert (world.plane.running(), world.plane.shares) == ((1,), {1: 100})


def test_freeze_needs_a_reason_and_a_second_thaw_is_no_error(world: World) -> None:
    with pytest.raises(ConfigInvalid, match="a reason is needed"):
        records.freeze(world.record, "grammar", said("  "))
    records.freeze(world.record, "grammar", said("first"))
    read = world.record.ledger.read
    seen = [read("grammar"), read("grammar")]  # both commands looked before either wrote
    assert all(log.frozen is not None for log in seen)
    assert records.thaw(world.record, "grammar", said("over")) is not None
    assert records.thaw(world.record, "grammar", said("over")) is None
