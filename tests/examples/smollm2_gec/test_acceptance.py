"""The acceptance run without its promotions: cases, settings, and what it makes of answers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from examples.smollm2_gec import acceptance
from examples.smollm2_gec.acceptance import Case, Outcome, Stack
from pipelines import config


def _cases(directory: Path) -> tuple[Case, ...]:
    fp8 = acceptance.with_fp8(acceptance.POLICY, directory / "fp8.yaml")
    return acceptance.cases(directory / "base", directory / "tuned", fp8)


def test_the_model_that_is_promoted_comes_before_those_judged_against_it(tmp_path: Path) -> None:
    names = [case.name for case in _cases(tmp_path)]
    assert names == ["base", "tuned", "tuned-fp8", "tiny-gec-1", "tuned-languages"]


def test_only_the_right_answer_is_expected(tmp_path: Path) -> None:
    expected = {case.name: set(case.expected) for case in _cases(tmp_path)}
    assert expected == {
        "base": {3},
        "tuned": {0},
        "tuned-fp8": {0, 3},
        "tiny-gec-1": {3},
        "tuned-languages": {3},
    }


def test_every_settings_file_is_valid(tmp_path: Path) -> None:
    for case in _cases(tmp_path):
        loaded = config.load(case.config)
        assert loaded.recipe.enabled == (case.name == "tuned-fp8")


def test_the_fp8_settings_differ_in_the_recipe_alone(tmp_path: Path) -> None:
    out = acceptance.with_fp8(acceptance.POLICY, tmp_path / "fp8.yaml")
    before, after = (
        yaml.safe_load(path.read_text(encoding="utf-8")) for path in (acceptance.POLICY, out)
    )
    before.pop("recipe")
    assert after.pop("recipe") == {"enabled": True, "aim": "memory"}
    assert before == after


def _outcome(code: int, answer: dict[str, object], expected: set[int]) -> Outcome:
    case = Case(name="it", checkpoint=Path("c"), config=Path("p"), expected=frozenset(expected))
    return Outcome(case=case, code=code, answer=answer, seconds=1.4)


def test_the_table_says_what_was_not_as_expected_and_why() -> None:
    good = _outcome(3, {"ending": "refused", "reasons": ["jfleg-test: too low"]}, {3})
    bad = _outcome(1, {}, {0})
    shown = acceptance.table([good, bad])
    assert "jfleg-test: too low" in shown
    assert [line.split()[-2] for line in shown.splitlines() if line.startswith("it")] == [
        "yes",
        "NO",
    ]
    assert bad.as_dict()["ending"] == "fault"


def test_the_stack_has_a_home_ports_and_data_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = {}

    def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        seen.update({"command": command, **options})
        return subprocess.CompletedProcess(command, 3, json.dumps({"ending": "refused"}), "")

    monkeypatch.setenv("LIFTLOCK_HOME", "elsewhere")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://elsewhere")
    monkeypatch.setattr(acceptance.subprocess, "run", run)
    stack = Stack(home=tmp_path, data_dir=tmp_path / "data")
    outcome = stack.promote(_cases(tmp_path)[0])
    assert outcome.is_expected
    assert seen["command"][:4] == [sys.executable, "-m", "jobs", "promote"]
    environment = seen["env"]
    assert environment["LIFTLOCK_HOME"] == str(tmp_path)
    assert environment["LIFTLOCK_DATA_DIR"] == str(tmp_path / "data")
    assert "MLFLOW_TRACKING_URI" not in environment
    assert stack.port != stack.mlflow_port


def test_the_stack_is_stopped_and_its_home_gone_when_a_promotion_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []

    def break_down(self: Stack, case: Case) -> Outcome:
        raise subprocess.TimeoutExpired("promote", 1)

    def make(work: Path, wheel: Path | None) -> tuple[Path, Path]:
        (work / "tuned").mkdir()
        return work / "base", work / "tuned"

    monkeypatch.setattr(acceptance, "make_checkpoints", make)
    monkeypatch.setattr(Stack, "promote", break_down)
    monkeypatch.setattr(Stack, "stop", lambda self: stopped.append(self.home))
    with pytest.raises(subprocess.TimeoutExpired):
        acceptance.run(tmp_path, None, None)
    assert len(stopped) == 1
    assert list(tmp_path.iterdir()) == []
