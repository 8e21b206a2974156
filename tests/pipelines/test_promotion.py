"""The promotion flow over recorded stages: what is reused, refused, entered and put back.

Workers are replaced by a function that writes what the real ones wrote for the same request; the
real ones run in tests/e2e and in their own modules' tests.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from evals import suite as suites
from evals.outcome import Outcome, Outcomes
from pipelines import config as configs
from pipelines import records, rollback, worker
from pipelines.config import PromotionConfig
from pipelines.errors import ConfigInvalid, NothingToServe, StageFailed
from pipelines.place import Place
from pipelines.promotion import Ending, Promotion, Request, promote
from registry import checkpoint
from registry.errors import RecordConflict, RecordUnavailable
from registry.ledger import Kind, LedgerEntry
from registry.manifest import Manifest
from registry.model import Tag
from registry.store import Record, Registration
from tests.fakes import checkpoints
from tests.fakes.plane import FakePlane
from tests.fakes.record import MemoryEvidence, MemoryVersions, memory_record


class Silent:
    """Progress that keeps what it was told."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.reused: dict[str, bool] = {}

    def stage(self, name: str) -> None:
        pass

    def note(self, text: str) -> None:
        self.notes.append(text)

    def done(self, name: str, *, seconds: float, summary: str, reused: bool) -> None:
        self.reused[name] = reused


@dataclasses.dataclass
class World:
    """A place to promote in, and what the stand-in workers were asked."""

    place: Place
    plane: FakePlane
    progress: Silent
    folder: Path
    wrong: dict[str, int]
    """Wrong answers per checkpoint directory's seed file."""
    asked: list[str]

    @property
    def record(self) -> Record:
        return self.place.record

    def request(self, seed: int, **settings: Any) -> Request:
        raw = {"suites": ["suite.yaml"], "recipe": {"enabled": False}, **settings}
        config: PromotionConfig = configs.parse(raw, source="test")
        directory = self.folder / f"ck{seed}"
        if not directory.exists():
            checkpoints.make(directory, seed=seed)
        return Request(
            checkpoint=checkpoint.inspect(directory), config=config, config_folder=self.folder
        )

    def rollback(self, to: int | None = None) -> rollback.Restored:
        target = rollback.target_of(self.record, "grammar", to)
        config = rollback.settings_of(self.record, "grammar", target)
        return rollback.rollback(target, config, self.place, reason="complaints")

    def promote(self, seed: int, *, wrong: int = 0, **settings: Any) -> Promotion:
        request = self.request(seed, **settings)
        self.wrong[request.checkpoint.digest] = wrong
        return promote(request, self.place)


def write_suite(folder: Path, count: int = 600) -> None:
    import hashlib

    rows = [
        {"id": f"e{n}", "source": f"a {n}", "references": [f"b {n}"], "tags": ["spelling"]}
        for n in range(count)
    ]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / "suite.jsonl").write_bytes(data)
    definition = {
        "name": "small", "language": "en", "kind": "correction", "data": "suite.jsonl",
        "sha256": hashlib.sha256(data).hexdigest(), "license": "Apache-2.0",
        "description": "for tests", "group_by": "tags",
    }  # fmt: skip
    (folder / "suite.yaml").write_text(yaml.safe_dump(definition))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    write_suite(tmp_path)
    progress, plane = Silent(), FakePlane()
    place = Place(
        record=memory_record(),
        plane=lambda: plane,
        cache=tmp_path / "cache",
        work=tmp_path / "work",
        progress=progress,
        now=lambda: "2030-01-01T00:00:00Z",
        actor="tester",
    )
    made = World(place=place, plane=plane, progress=progress, folder=tmp_path, wrong={}, asked=[])
    monkeypatch.setattr(worker, "run", stand_in(made))
    monkeypatch.setattr("pipelines.switch.LOOK_EVERY_S", 0.0)
    return made


def stand_in(world: World) -> Callable[..., None]:
    def run(
        module: str,
        request: Mapping[str, Any],
        out: Path,
        progress: Callable[[str], None],
        *,
        threads: int | None = None,
    ) -> None:
        assert threads == 1  # as many as a replica gets
        world.asked.append(module)
        assert module == "evals.harness"
        manifest = Manifest.from_json(Path(request["manifest"]).read_text())
        if world.wrong[manifest.digest] < 0:
            raise StageFailed("out of memory")
        for path in request["suites"]:
            outcomes = answers(Path(path), manifest.digest, world.wrong[manifest.digest])
            (out / f"outcomes-{outcomes.suite}.json").write_text(outcomes.to_json())
        (out / "harness.json").write_text("{}")

    return run


def answers(path: Path, digest: str, wrong: int) -> Outcomes:
    loaded = suites.load(path)
    return Outcomes(
        suite=loaded.name,
        suite_digest=loaded.digest,
        checkpoint_digest=digest,
        runtime_digest="sha256:here",
        outcomes=tuple(
            Outcome(
                example_id=e.id, output=e.references[0], score=float(n >= wrong),
                finish_reason="stop",
            )
            for n, e in enumerate(loaded.examples)
        ),
    )  # fmt: skip


FAST = {"rollout": {"bake_s": 0.0}}


def test_first_good_version_is_promoted_against_floors(world: World) -> None:
    done = world.promote(1, **FAST)
    assert done.ending is Ending.PROMOTED
    assert world.plane.shares == {1: 100}
    (entry,) = world.record.ledger.entries("grammar")
    assert (entry.version, entry.actor, str(entry.kind)) == (1, "tester", "promote")
    assert entry.reason == "all 2 gates passed"


def test_first_bad_version_is_refused_and_nothing_is_started(world: World) -> None:
    done = world.promote(1, wrong=100, **FAST)
    assert done.ending is Ending.REFUSED
    assert world.plane.events == []
    assert world.record.ledger.entries("grammar") == ()


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


def test_champion_is_evaluated_once(world: World) -> None:
    world.promote(1, **FAST)
    world.promote(2, wrong=60, **FAST)
    world.promote(3, wrong=60, **FAST)
    assert world.asked == ["evals.harness"] * 3


def test_same_again_changes_nothing(world: World) -> None:
    world.promote(1, **FAST)
    again = world.promote(1, **FAST)
    assert again.ending is Ending.ALREADY_CHAMPION
    assert world.progress.reused["evaluate"]
    assert len(world.record.ledger.entries("grammar")) == 1
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
    assert len(world.record.ledger.entries("grammar")) == 1
    assert world.plane.shares == {1: 100}


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
    assert [str(e.kind) for e in world.record.ledger.entries("grammar")] == [
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
    assert len(world.record.ledger.entries("grammar")) == 1


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
        now=lambda: "2030-01-01T00:00:00Z", entries_seen=1,
    )  # fmt: skip
    third = world.request(3, **FAST).checkpoint
    what = Registration(name="rival", run_id="run-1")
    other = world.record.versions.register("grammar", third, what)

    def overtaken() -> FakePlane:
        records.commit(world.record, other, rival, world.progress.note)
        world.plane.deployed = {other.version: other}
        world.plane.shares = {other.version: 100}
        return world.plane

    place = dataclasses.replace(world.place, plane=overtaken)
    request = world.request(2, **FAST)
    world.wrong[request.checkpoint.digest] = 0
    with pytest.raises(RecordConflict, match="changed since this was decided"):
        promote(request, place)
    assert [e.version for e in world.record.ledger.entries("grammar")] == [1, other.version]
    assert world.plane.shares == {other.version: 100}


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

    def lost(model: str, entry: LedgerEntry) -> None:
        real(model, entry)
        raise RecordUnavailable("timed out")

    monkeypatch.setattr(world.record.ledger, "append", lost)
    assert world.promote(1, **FAST).ending is Ending.PROMOTED
    assert world.plane.shares == {1: 100}
    assert len(world.record.ledger.entries("grammar")) == 1


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
