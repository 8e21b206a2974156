"""The real llm-compressor on a small random model, and the worker around it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
import time
from pathlib import Path

import pytest

from pipelines import worker
from pipelines.errors import StageFailed
from pipelines.quantize import QuantizeResult
from pipelines.recipe import Recipe
from registry import checkpoint

TINY = Path(__file__).resolve().parents[2] / "examples" / "checkpoints" / "tiny-gec-1"


def quantized(out: Path, recipe: Recipe) -> tuple[QuantizeResult, checkpoint.Checkpoint]:
    request = {"source": str(TINY), "recipe": dataclasses.asdict(recipe)}
    notes: list[str] = []
    worker.run("pipelines.quantize", request, out, notes.append)
    assert notes[0] == "loading the model"
    result = QuantizeResult.from_json((out / "result.json").read_text())
    return result, checkpoint.inspect(out / "checkpoint")


@pytest.mark.slow
def test_default_recipe_makes_per_channel_fp8_and_leaves_the_kv_cache_alone(tmp_path: Path) -> None:
    result, made = quantized(tmp_path, Recipe())
    assert made.scheme is not None
    assert made.scheme.label == "fp8-channel-attn"
    assert (made.scheme.activations, made.scheme.kv_cache) == ("dynamic-token", False)
    assert "lm_head" in made.scheme.ignore
    assert {g.group for g in result.groups} == {
        "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj",
    }  # fmt: skip
    # e4m3 has 3 mantissa bits: rounding is off by at most 2**-4 of a value, about 2.6 % RMS.
    assert all(0.01 < g.relative_error < 2**-4 for g in result.groups)
    assert 0.5 < result.size_ratio < 0.75
    parent = checkpoint.inspect(TINY).manifest
    assert made.manifest.prompt == parent.prompt
    assert made.manifest.generation == parent.generation
    kept = {f.path: f.sha256 for f in parent.files}
    assert {f.path: f.sha256 for f in made.manifest.files}["tokenizer.json"] == kept[
        "tokenizer.json"
    ]


@pytest.mark.slow
def test_attention_off_and_per_tensor_are_what_the_checkpoint_says(tmp_path: Path) -> None:
    mlp, made = quantized(tmp_path / "mlp", Recipe(attention=False))
    assert made.scheme is not None
    assert made.scheme.label == "fp8-channel-mlp"
    assert {g.group for g in mlp.groups} == {"gate_proj", "up_proj", "down_proj"}
    tensor, made = quantized(tmp_path / "tensor", Recipe(weights="tensor"))
    assert made.scheme is not None
    assert made.scheme.label == "fp8-tensor-attn"
    channel = {g.group: g.relative_error for g in mlp.groups}
    assert all(g.relative_error >= channel[g.group] for g in tensor.groups if g.group in channel)


@pytest.mark.slow
def test_same_input_gives_the_same_variant(tmp_path: Path) -> None:
    _, first = quantized(tmp_path / "a", Recipe())
    _, second = quantized(tmp_path / "b", Recipe())
    assert first.digest == second.digest


@pytest.mark.slow
def test_recipe_that_covers_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match="ignore list covers"):
        quantized(tmp_path, Recipe(ignore=("lm_head", "re:.*proj$")))


def test_worker_passes_on_progress_and_its_own_last_words(tmp_path: Path) -> None:
    told: list[str] = []
    with pytest.raises(StageFailed, match="the moon is not in phase"):
        worker.run("tests.pipelines.failing_worker", {"how": "error"}, tmp_path, told.append)
    assert told == ["one of two"]


@pytest.mark.parametrize(
    ("how", "said"),
    [("crash", "ended with code 1: ValueError: unforeseen"), ("kill", "most likely for memory")],
)
def test_worker_that_breaks_is_told_with_its_log(tmp_path: Path, how: str, said: str) -> None:
    with pytest.raises(StageFailed, match=said):
        worker.run("tests.pipelines.failing_worker", {"how": how}, tmp_path, lambda _: None)
    assert "one of two" in (tmp_path / "worker.log").read_text()
    assert json.loads((tmp_path / "request.json").read_text()) == {"how": how}


def test_worker_whose_child_holds_the_pipes_does_not_hold_up_its_end(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(StageFailed, match="most likely for memory"):
        worker.run("tests.pipelines.failing_worker", {"how": "orphan"}, tmp_path, lambda _: None)
    assert time.monotonic() - started < 30  # the child would have slept for 60


def test_worker_ends_with_a_command_that_is_killed_outright(tmp_path: Path) -> None:
    import subprocess

    import psutil

    code = (
        "import pathlib, sys; from pipelines import worker; "
        "worker.run('tests.pipelines.failing_worker', {'how': 'sleep'}, "
        "pathlib.Path(sys.argv[1]), lambda line: print(line, flush=True))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as command:
        assert command.stdout is not None
        assert command.stdout.readline().strip() == "one of two"
        (child,) = psutil.Process(command.pid).children()
        command.kill()
    psutil.wait_procs([child], timeout=10)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_scratch_of_a_killed_command_is_swept(tmp_path: Path) -> None:
    left, mine = tmp_path / "evaluate-999999999-abc", tmp_path / "evaluate-1-abc"
    left.mkdir()
    mine.mkdir()  # process 1 always lives
    with worker.scratch(tmp_path, "evaluate") as out:
        assert out.is_dir()
        assert not left.exists()
        assert mine.exists()
    assert not out.exists()


def test_a_resumable_folder_stays_where_the_work_failed_and_goes_where_it_was_done(
    tmp_path: Path,
) -> None:
    for number, failing in enumerate((True, True, False)):
        with (
            contextlib.suppress(KeyboardInterrupt),
            worker.resumable(tmp_path, "evaluate-abc") as out,
        ):
            (out / str(number)).touch()
            if failing:
                raise KeyboardInterrupt
            assert len(list(out.iterdir())) == 3
    assert list(tmp_path.iterdir()) == []


def test_resumable_folders_that_nobody_came_back_to_are_swept(tmp_path: Path) -> None:
    old, young, scratch = (tmp_path / n for n in ("evaluate-old", "evaluate-new", "evaluate-1-x"))
    for folder in (old, young, scratch):
        folder.mkdir()
    for folder in (old, scratch):
        os.utime(folder, (0, 0))
    with worker.resumable(tmp_path, "evaluate-abc"):
        assert not old.exists()
        assert young.exists()
        assert scratch.exists()


def test_interrupted_worker_leaves_no_process(tmp_path: Path) -> None:
    import psutil

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        worker.run("tests.pipelines.failing_worker", {"how": "sleep"}, tmp_path, interrupt)
    left = [c for c in psutil.Process().children(recursive=True) if str(tmp_path) in _line(c)]
    assert left == []
    assert sys.executable


def _line(process: object) -> str:
    import psutil

    assert isinstance(process, psutil.Process)
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
