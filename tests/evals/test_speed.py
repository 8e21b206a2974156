"""The worker that measures engines beside each other, over stand-in engines."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Self

import pytest

from evals import speed
from evals.errors import EvaluationFailed
from evals.pace import paces
from evals.speed import Arm, Request, Result, shared
from registry import checkpoint
from registry.engine_settings import DeviceKind, EngineSettings
from registry.manifest import Generation, Manifest, Prompt

TINY = Path(__file__).resolve().parents[2] / "examples" / "checkpoints" / "tiny-gec-1"


class StubEngine:
    def __init__(self, name: str, asked: list[str]) -> None:
        self.name, self.asked = name, asked

    def __enter__(self) -> Self:
        if self.name.startswith("broken"):
            raise EvaluationFailed(f"cannot start {self.name}")
        return self

    def __exit__(self, *_: object) -> None:
        self.asked.append(f"closed {self.name}")

    def forget(self) -> None:
        self.asked.append(f"forget {self.name}")

    def answer(self, ask: object, prompts: Any, on_answer: object) -> None:
        self.asked.append(self.name)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    calls: list[str] = []
    monkeypatch.setattr(speed, "Engine", lambda folder, *_: StubEngine(folder.name, calls))
    return calls


def request_for(folder: Path, *names: str) -> Request:
    manifest = Manifest(
        files=(), prompt=Prompt(template="Fix: {text}"), generation=Generation(max_tokens=8)
    )
    (folder / "manifest.json").write_text(manifest.to_json())
    arms = tuple(
        Arm(
            name=name, checkpoint_dir=str(folder / name), manifest=str(folder / "manifest.json"),
            engine=EngineSettings(quantization="fp8"),
        )
        for name in names
    )  # fmt: skip
    return Request(arms=arms, prompts=("a", "b"), rounds=4)


def test_every_engine_takes_one_turn_in_each_round_after_a_warm_up(
    tmp_path: Path, asked: list[str]
) -> None:
    told: list[str] = []
    result = speed.run(request_for(tmp_path, "p", "a", "b"), told.append)
    turns = [call for call in asked if " " not in call]
    assert Counter(turns) == {"p": 5, "a": 5, "b": 5}
    assert [Counter(turns[i : i + 3]).most_common(1)[0][1] for i in range(0, 15, 3)] == [1] * 5
    orders = {tuple(turns[i : i + 3]) for i in range(3, 15, 3)}
    assert len(orders) > 1  # none is always the first
    assert asked.count("forget a") == 5
    assert {(t.arm, t.round) for t in result.turns} == {(a, r) for a in "pab" for r in range(4)}
    assert all(t.requests == 2 and t.wall_s > 0 for t in result.turns)
    assert told[-1] == "round 4 of 4"
    assert asked[-3:] == ["closed b", "closed a", "closed p"]


def test_an_engine_that_cannot_start_is_left_out_unless_it_is_the_reference(
    tmp_path: Path, asked: list[str]
) -> None:
    result = speed.run(request_for(tmp_path, "p", "broken"), lambda _: None)
    assert result.failed == {"broken": "cannot start broken"}
    assert {t.arm for t in result.turns} == {"p"}
    with pytest.raises(EvaluationFailed, match="broken-p"):
        speed.run(request_for(tmp_path, "broken-p", "a"), lambda _: None)


def test_the_worker_process_writes_its_result_or_says_why_not(
    tmp_path: Path, asked: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(request_for(tmp_path, "p", "a").to_dict()))
    assert speed.main(["--request", str(file), "--out", str(tmp_path)]) == 0
    result = Result.from_json((tmp_path / speed.RESULT_FILE).read_text())
    assert len(result.turns) == 8
    assert capsys.readouterr().out.startswith("progress starting p")
    file.write_text(json.dumps(request_for(tmp_path, "broken").to_dict()))
    assert speed.main(["--request", str(file), "--out", str(tmp_path)]) == 1
    assert "error: cannot start broken" in capsys.readouterr().err


def test_a_request_survives_its_file(tmp_path: Path) -> None:
    made = request_for(tmp_path, "p", "a")
    assert Request.from_dict(json.loads(json.dumps(made.to_dict()))) == made


def test_engines_share_the_memory_of_one() -> None:
    assert shared(EngineSettings(kv_cache_gib=8.0), 4).kv_cache_gib == 2.0
    assert shared(EngineSettings(kv_cache_gib=1.0), 8).kv_cache_gib == 0.25
    assert shared(EngineSettings(kv_cache_gib=0.125), 8).kv_cache_gib == 0.125
    on_gpu = EngineSettings(device=DeviceKind.CUDA, kv_cache_gib=None)
    assert shared(on_gpu, 9).gpu_memory_utilization == pytest.approx(0.1)


@pytest.mark.slow
def test_two_real_engines_take_turns_in_one_process(tmp_path: Path) -> None:
    found = checkpoint.inspect(TINY).manifest
    (tmp_path / "manifest.json").write_text(found.to_json())
    arms = tuple(
        Arm(
            name=name, checkpoint_dir=str(TINY), manifest=str(tmp_path / "manifest.json"),
            engine=EngineSettings(),
        )
        for name in ("parent", "same")
    )  # fmt: skip
    prompts = tuple(found.prompt.render(f"She have {n} dog .") for n in range(8))
    request = Request(arms=arms, prompts=prompts, rounds=3)
    (tmp_path / "request.json").write_text(json.dumps(request.to_dict()))
    done = subprocess.run(
        [
            sys.executable, "-m", "evals.speed", "--request", str(tmp_path / "request.json"),
            "--out", str(tmp_path),
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = Result.from_json((tmp_path / speed.RESULT_FILE).read_text())
    assert len(result.turns) == 6
    assert all(turn.busy_s > 0 for turn in result.turns)
    speedup = paces(result.turns, "parent")["same"].speedup
    assert speedup.lower < 2.0  # the same model is not shown to be twice as fast as itself
    assert speedup.upper > 0.5
