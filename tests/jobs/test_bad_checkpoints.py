"""`liftlock promote` over damaged checkpoints: exit 2 with a reason; nothing is left of them."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs import placing
from jobs.cli import main
from jobs.exits import Exit
from registry import checkpoint
from registry.errors import CheckpointInvalid
from tests.fakes import checkpoints
from tests.fakes import world as worlds
from tests.fakes.mutations import DAMAGE, Mutation, damaged
from tests.fakes.record import MemoryEvidence, MemoryLedger, MemoryVersions, memory_record
from tests.fakes.world import World

EXAMPLES = int(os.environ.get("LIFTLOCK_FUZZ_EXAMPLES", "15"))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = worlds.make(tmp_path, monkeypatch)
    made.wrong = defaultdict(int)
    for name in ("MLFLOW_TRACKING_URI", "LIFTLOCK_HOME", "LIFTLOCK_PORT", "LIFTLOCK_MLFLOW_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(placing, "open_record", lambda *args: made.place.record)
    monkeypatch.setattr(placing, "place", lambda *args: made.place)
    (tmp_path / "promotion.yaml").write_text(
        "suites: [suite.yaml]\nrecipe: {enabled: false}\nrollout: {bake_s: 0.0}\n"
    )
    return made


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, ["--home", "home", *args])
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result


def left(world: World) -> list[object]:
    """Whatever the record, the plane and the folders hold."""
    record = world.place.record
    assert isinstance(record.versions, MemoryVersions)
    assert isinstance(record.evidence, MemoryEvidence)
    assert isinstance(record.ledger, MemoryLedger)
    folders = [f for f in ("home", "cache", "work") if (world.folder / f).exists()]
    return [
        *record.versions.stored, *record.versions.aliases, *record.evidence.runs,
        *record.ledger.params, *world.plane.events, *folders,
    ]  # fmt: skip


def accepted(directory: Path) -> bool:
    try:
        checkpoint.inspect(directory)
    except CheckpointInvalid:
        return False
    return True


@settings(
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(damage=DAMAGE, fp8=st.booleans(), plan=st.booleans())
def test_damaged_checkpoints_never_register(
    world: World, damage: list[Mutation], fp8: bool, plan: bool
) -> None:
    directory = damaged(world.folder / "ck", damage, fp8=fp8)
    world.place = dataclasses.replace(world.place, record=memory_record())
    before = left(world)  # what a checkpoint that was sound after all has left
    result = run("promote", str(directory), *(["--plan"] if plan else []))
    if accepted(directory):
        assert result.exit_code == Exit.DONE, result.output
        return
    assert result.exit_code == Exit.USAGE, result.output
    assert result.output.startswith("liftlock: ")
    assert len(result.output.splitlines()) == 1
    assert left(world) == before


def remove(name: str) -> Callable[[Path], None]:
    return lambda directory: (directory / name).unlink()


def nan(directory: Path) -> None:
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\x00\x00\xc0\x7f")


def pickled(directory: Path) -> None:
    (directory / "pytorch_model.bin").write_bytes(b"\x80\x02.")


def linked(directory: Path) -> None:
    (directory / "secret.json").symlink_to("/etc/passwd")


def piped(directory: Path) -> None:
    (directory / "config.json").unlink()
    os.mkfifo(directory / "config.json")


def unknown(directory: Path) -> None:
    config = {**checkpoints.CONFIG, "architectures": ["NoSuchForCausalLM"]}
    (directory / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (remove("config.json"), "config.json (the model configuration) is missing"),
        (remove("tokenizer.json"), "no tokenizer"),
        (remove("model.safetensors"), "weights are missing"),
        (remove("prompt.json"), "--prompt"),
        (nan, "NaN or infinity"),
        (pickled, "can run code"),
        (linked, "symbolic link out"),
        (piped, "neither a file nor a directory"),
        (unknown, "neither the installed vLLM nor transformers"),
    ],
)
@pytest.mark.parametrize("plan", [False, True])
def test_each_kind_is_refused_with_what_to_do(
    world: World, change: Callable[[Path], None], told: str, plan: bool
) -> None:
    directory = checkpoints.make(world.folder / "ck")
    change(directory)
    result = run("promote", str(directory), *(["--plan"] if plan else []))
    assert result.exit_code == Exit.USAGE
    assert told in result.output
    assert left(world) == []


def test_a_whole_one_is_promoted(world: World) -> None:
    directory = checkpoints.make(world.folder / "ck")
    assert run("promote", str(directory)).exit_code == Exit.DONE
    assert world.plane.shares == {1: 100}


@pytest.mark.parametrize(
    "args",
    [
        ("promote", "ck", "--reason", "fine\nliftlock: promoted"),
        ("promote", "ck", "--reason", "a\x1b[2Jb"),
        ("promote", "ck\n"),
        ("promote", "ck", "--model", "grammar\u202e"),
        ("promote", "ck", "--lineage", "x" * 5_000),
        ("promote", os.fsdecode(b"\xff")),
        ("promote", "ck", "--reason", os.fsdecode(b"\xff")),
        ("rollback", "grammar", "--reason", "a\rb"),
        ("freeze", "grammar", "--reason", "a\x00b"),
        ("--home", "a\nb", "status", "grammar"),
    ],
)
def test_arguments_that_are_no_line_of_text_are_refused(
    world: World, args: tuple[str, ...]
) -> None:
    checkpoints.make(world.folder / "ck")
    result = run(*args)
    assert result.exit_code == Exit.USAGE
    assert "argument" in result.output
    assert left(world) == []


@pytest.mark.parametrize("parent", ["0", "-1", "2147483648", "9" * 30, "one"])
def test_a_parent_that_is_no_version_number_registers_nothing(world: World, parent: str) -> None:
    checkpoints.make(world.folder / "ck")
    result = run("promote", "ck", "--parent", parent)
    assert result.exit_code == Exit.USAGE
    assert isinstance(world.place.record.versions, MemoryVersions)
    assert world.place.record.versions.stored == {}
