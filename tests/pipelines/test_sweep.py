"""A whole sweep over the record in memory: what it runs, keeps, picks and shows."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from evals.errors import SuiteUnavailable
from evals.verdict import GateStatus
from pipelines import quantizing, sweep
from pipelines.errors import ConfigInvalid, StageFailed
from pipelines.ownership import claim
from pipelines.sweep import Sweep
from registry import checkpoint
from registry.model import Tag
from tests.fakes import checkpoints
from tests.fakes.record import MemoryEvidence, MemoryRun, MemoryVersions
from tests.pipelines import sweep_world
from tests.pipelines.sweep_world import SweepWorld

VARIANTS = [
    "fp8-tensor-mlp", "fp8-channel-mlp", "fp8-tensor-attn", "fp8-channel-attn",
    "fp8-channel-attn-less-1", "online-fp8",
]  # fmt: skip


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepWorld:
    return sweep_world.make(tmp_path, monkeypatch)


def swept(world: SweepWorld, aim: str = "throughput") -> Sweep:
    return sweep.sweep(world.request(recipe={"aim": aim}), world.base.place)


def runs(world: SweepWorld, stage: str) -> list[MemoryRun]:
    evidence = world.base.record.evidence
    assert isinstance(evidence, MemoryEvidence)
    return [run for run in evidence.runs.values() if run.tags.get(Tag.STAGE) == stage]


def test_every_variant_is_made_judged_and_measured_and_the_fastest_is_picked(
    world: SweepWorld,
) -> None:
    done = swept(world)
    assert [row.name for row in done.rows] == ["parent", *VARIANTS]
    assert all(row.status is GateStatus.PASS for row in done.rows[1:])
    assert done.pick.name == "fp8-tensor-attn"
    assert done.rows[5].excluded == ("model.layers.1.self_attn",)
    assert world.asked == {
        "pipelines.quantize": 5, "pipelines.sensitivity": 1, "evals.harness": 7, "evals.speed": 1,
    }  # fmt: skip
    made = world.base.record.versions.get("grammar", done.rows[5].version)
    assert made.parent == done.rows[0].version
    assert world.base.progress.reused["quantize fp8-channel-attn-less-1"] is False
    versions = world.base.record.versions
    assert isinstance(versions, MemoryVersions)
    told = versions.descriptions["grammar", made.version]
    assert told.startswith("`fp8-channel-attn-less-1`, with model.layers.1.self_attn left in BF16")
    assert ("grammar", 1) in versions.descriptions
    assert "sweep" not in versions.descriptions["grammar", 1]


def test_variants_are_sibling_runs_under_the_sweeps_with_their_numbers(world: SweepWorld) -> None:
    done = swept(world)
    siblings = runs(world, "variant")
    assert [run.params["variant"] for run in siblings] == VARIANTS
    assert {run.parent for run in siblings} == {done.run_id}
    assert siblings[2].metrics["speedup"] == pytest.approx(2.0)
    assert siblings[2].metrics["size_bytes"] > 0
    assert siblings[2].params["verdict"] == "pass"
    assert {"verdict.json", "gates.svg"} <= set(siblings[2].files)
    (parent,) = runs(world, "sweep")
    assert parent.params["picked"] == "fp8-tensor-attn"
    assert parent.status == "FINISHED"
    ET.fromstring(parent.files["pareto.svg"])
    assert parent.files["sweep.json"]["variant"] == ["parent", *VARIANTS]
    assert len(parent.files["layer_error.json"]["layer_group"]) == 6
    assert json.loads(parent.files["result.json"])["picked"] == "fp8-tensor-attn"
    assert all(run.status == "FINISHED" for run in runs(world, "quantize"))


def test_a_variant_that_lost_quality_is_not_picked_however_fast(world: SweepWorld) -> None:
    world.wrong["fp8-tensor-attn"] = 100
    done = swept(world)
    row = done.rows[3]
    assert row.status is GateStatus.FAIL
    assert row.worst is not None
    assert row.worst.points == pytest.approx(-100 / 6)
    assert row.reason
    assert done.pick.name == "fp8-channel-mlp"


def test_slower_variants_are_picked_for_memory_only(world: SweepWorld) -> None:
    world.slowness = 4.0
    assert swept(world).pick.name is None
    done = swept(world, "memory")
    assert done.pick.name is not None
    sizes = {row.name: row.size_bytes for row in done.rows}
    assert sizes[done.pick.name] == min(sizes.values())


@pytest.mark.parametrize(
    "module", ["pipelines.quantize", "pipelines.sensitivity", "evals.harness", "evals.speed"]
)
def test_an_interrupted_sweep_goes_on_and_does_nothing_twice(
    world: SweepWorld, module: str
) -> None:
    world.stop_at = module
    with pytest.raises(KeyboardInterrupt):
        swept(world)
    (first,) = runs(world, "sweep")
    assert first.status == "FAILED"
    done = swept(world)
    assert done.pick.name == "fp8-tensor-attn"
    expected = {
        "pipelines.quantize": 5, "pipelines.sensitivity": 1, "evals.harness": 7, "evals.speed": 1,
    }  # fmt: skip
    expected[module] += 1  # the one that was interrupted
    assert world.asked == expected


def test_a_sweep_that_is_repeated_asks_no_worker_and_says_the_same(world: SweepWorld) -> None:
    first = swept(world)
    before = dict(world.asked)
    again = swept(world, "memory")
    assert world.asked == before
    assert again.rows == first.rows
    assert all(time.reused for time in again.times)


def test_an_engine_that_cannot_quantize_while_loading_is_told_and_left_out(
    world: SweepWorld,
) -> None:
    world.online = False
    done = swept(world)
    row = done.rows[-1]
    assert (row.name, row.status, row.pace) == ("online-fp8", None, None)
    assert "this build has no such kernel" in row.reason
    assert done.pick.name == "fp8-tensor-attn"
    assert [run.params["verdict"] for run in runs(world, "variant")] == ["pass"] * 5 + ["not run"]


def test_a_variant_that_cannot_be_run_is_no_reason_not_to_compare_the_others(
    world: SweepWorld,
) -> None:
    world.wrong["fp8-tensor-attn"] = world.wrong["fp8-tensor-mlp"] = -1
    done = swept(world)
    assert [row.status is None for row in done.rows[1:]] == [True, False, True, False, False, False]
    assert done.pick.name == "fp8-channel-mlp"
    world.wrong["fp8-tensor-attn"] = 0  # what stood in its way is gone
    assert swept(world).pick.name == "fp8-tensor-attn"


def test_a_parent_that_cannot_be_run_ends_the_sweep(world: SweepWorld) -> None:
    world.wrong["parent"] = -1
    with pytest.raises(StageFailed, match="no such kernel"):
        swept(world)


def test_a_model_that_somebody_else_works_on_is_left_alone(world: SweepWorld) -> None:
    from pipelines.errors import OwnedByAnother
    from pipelines.ownership import Timing

    place = world.base.place
    claim(place, "grammar", "promote", force=False, timing=Timing())
    ledger, beats = world.base.record.ledger, iter(range(1000))

    def another_beat(_: float) -> None:
        ledger.beat("grammar", 1, f"{next(beats)} promoting")

    with pytest.raises(OwnedByAnother):
        sweep.sweep(world.request(), place, timing=Timing(sleep=another_beat))
    assert world.asked == {}


def test_what_cannot_be_swept_is_refused_before_anything_is_begun(world: SweepWorld) -> None:
    fp8 = checkpoints.make_fp8(world.base.folder / "fp8")
    with pytest.raises(ConfigInvalid, match="is fp8-channel-attn already"):
        quantizing.Request(checkpoint=checkpoint.inspect(fp8), config=world.request().config)
    request = world.request()
    (world.base.folder / "suite.jsonl").unlink()
    with pytest.raises(SuiteUnavailable):
        sweep.sweep(request, world.base.place)
    assert runs(world, "sweep") == []


def test_without_a_sweep_the_one_variant_of_the_settings_is_registered(world: SweepWorld) -> None:
    made = quantizing.quantize(world.request(recipe={"weights": "tensor"}), world.base.place)
    assert made.version.scheme == "fp8-tensor-attn"
    assert made.version.parent == 1
    assert world.asked == {"pipelines.quantize": 1}
    with pytest.raises(ConfigInvalid, match=r"recipe\.enabled is false"):
        quantizing.quantize(world.request(recipe={"enabled": False}), world.base.place)


def test_a_worker_that_fails_ends_the_sweep_and_its_run(
    world: SweepWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise StageFailed("out of memory")

    monkeypatch.setattr(sweep_world, "_sensitivity", fail)
    with pytest.raises(StageFailed, match="out of memory"):
        swept(world)
    (run,) = runs(world, "sweep")
    assert run.status == "FAILED"
    assert "out of memory" in run.tags[Tag.ERROR]
