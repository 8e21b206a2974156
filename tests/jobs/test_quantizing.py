"""`liftlock quantize`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jobs import placing
from jobs.cli import main
from jobs.exits import Exit
from tests.fakes import checkpoints
from tests.fakes.record import memory_record
from tests.pipelines import sweep_world
from tests.pipelines.sweep_world import SweepWorld

Run = Callable[..., Result]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepWorld:
    made = sweep_world.make(tmp_path, monkeypatch)
    record = memory_record()
    monkeypatch.setattr(placing, "open_record", lambda settings, note: record)
    monkeypatch.setattr(placing, "patient", lambda settings, model, record, note: record)
    monkeypatch.delenv("LIFTLOCK_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "promotion.yaml").write_text("suites: [suite.yaml]\n")
    checkpoints.make(tmp_path / "ck")
    return made


@pytest.fixture
def run(tmp_path: Path, world: SweepWorld) -> Run:
    def call(*args: str) -> Result:
        return CliRunner().invoke(main, ["--home", str(tmp_path / "home"), "quantize", *args])

    return call


def test_a_sweep_prints_variants_layers_and_the_pick(run: Run) -> None:
    result = run("ck", "--sweep", "--aim", "throughput")
    assert result.exit_code == Exit.DONE, result.output
    out = result.stdout
    assert "picked: fp8-tensor-attn; the fastest of the 6 variants that pass the gate" in out
    assert "to promote it set recipe.weights: tensor and recipe.attention: true" in out
    assert "A CPU has no FP8 arithmetic" in out
    assert "model.layers.1.self_attn" in out
    assert "fp8-channel-attn-less-1 leaves in BF16: model.layers.1.self_attn" in out
    assert "speed …" in result.stderr


def test_the_json_of_a_sweep_is_whole_and_alone_on_stdout(run: Run, world: SweepWorld) -> None:
    world.online = False
    world.slowness = 4.0
    result = run("ck", "--sweep", "--aim", "throughput", "--json")
    assert result.exit_code == Exit.DONE, result.output
    found = json.loads(result.stdout)
    assert found["picked"] is None
    assert found["notes"][0].startswith("On this CPU FP8 is slower than BF16")
    assert [v["name"] for v in found["variants"]][-1] == "online-fp8"
    assert found["variants"][-1]["status"] is None
    assert len(found["layer_errors"]) == 6
    assert found["stages"][0]["stage"] == "register"


def test_without_sweep_one_variant_is_made(run: Run, world: SweepWorld) -> None:
    result = run("ck", "--json")
    assert result.exit_code == Exit.DONE, result.output
    found = json.loads(result.stdout)
    assert (found["version"], found["parent"], found["recipe"]) == (2, 1, "fp8-channel-attn")
    again = run("ck")
    assert "version 2 of grammar: fp8-channel-attn of version 1" in again.stdout
    assert world.asked == {"pipelines.quantize": 1}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("nowhere", "--sweep"), "does not exist"),
        (("ck", "--aim", "memory"), "add --sweep"),
        (("ck", "--sweep", "--aim", "beauty"), "'beauty' is not one of"),
        (("fp8", "--sweep"), "is fp8-channel-attn already"),
        (("ck", "--sweep", "--model", "Bad Name"), "lowercase"),
        ((), "Missing argument"),
    ],
)
def test_wrong_use_is_exit_2_with_a_reason(
    run: Run, world: SweepWorld, tmp_path: Path, args: tuple[str, ...], told: str
) -> None:
    checkpoints.make_fp8(tmp_path / "fp8")
    result = run(*args)
    assert result.exit_code == Exit.USAGE
    assert told in result.output
    assert world.asked == {}


def test_an_interruption_says_that_the_same_command_goes_on(run: Run, world: SweepWorld) -> None:
    world.stop_at = "evals.speed"
    result = run("ck", "--sweep")
    assert result.exit_code == Exit.FAULT
    assert "the same command goes on where this one stopped" in result.output
    assert run("ck", "--sweep").exit_code == Exit.DONE
