"""`liftlock gate power`: what it says before anything is run."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from evals import metrics
from evals import suite as suites
from evals.outcome import Outcome, Outcomes
from jobs.cli import main
from jobs.exits import Exit
from pipelines.config import suite_path

Run = Callable[..., Result]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("LIFTLOCK_HOME", "LIFTLOCK_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(
        main, ["--home", str(tmp_path / "home"), "gate", "power", *args]
    )


def settings(text: str) -> None:
    Path("promotion.yaml").write_text(text)


def outcomes(folder: str, wrong: int, name: str = "synthetic-clean") -> Outcomes:
    """A run of one model, left as a worker leaves it."""
    loaded = suites.load(suite_path(name, relative_to=None))
    made = Outcomes(
        suite=loaded.name,
        suite_digest=loaded.digest,
        checkpoint_digest="sha256:same",
        runtime_digest="sha256:here",
        outcomes=tuple(
            Outcome(
                example_id=e.id,
                output=(output := e.source + ("!" if i < wrong else "")),
                score=metrics.score(loaded.kind, e, output),
                finish_reason="stop",
            )
            for i, e in enumerate(loaded.examples)
        ),
    )
    Path(folder).mkdir()
    Path(folder, f"outcomes-{name}.json").write_text(made.to_json())
    return made


def test_the_default_gates_have_power_and_nothing_is_made(run: Run, tmp_path: Path) -> None:
    result = run("--psi", "0.02", "--json")
    assert result.exit_code == Exit.DONE, result.output
    rows = json.loads(result.output)["gates"]
    assert [row["gate"] for row in rows][:2] == [
        "synthetic-erroneous",
        "synthetic-erroneous/agreement",
    ]
    assert all(row["is_enough"] and row["power"] > 0.9 for row in rows)
    assert not (tmp_path / "home").exists()


def test_a_margin_too_small_for_the_suite_is_marked(run: Run) -> None:
    settings("suites: [synthetic-clean]\ngates: {margin_points: 0.3}\n")
    result = run("--psi", "0.02")
    assert result.exit_code == Exit.DONE, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("synthetic-clean")]
    assert line.endswith("below 80 %")
    assert "2 % change sides" in line


def test_two_runs_of_one_model_give_the_noise(run: Run) -> None:
    settings("suites: [synthetic-clean]\n")
    outcomes("a", 0)
    outcomes("b", 34)
    result = run("--noise", "a", "b", "--json")
    assert result.exit_code == Exit.DONE, result.output
    (row,) = json.loads(result.output)["gates"]
    assert row["assumed"] == "noise of two runs"
    assert row["power"] > 0.9


def test_runs_that_cannot_be_used_are_named(run: Run) -> None:
    settings("suites: [synthetic-clean]\n")
    Path("a").mkdir()
    made = outcomes("b", 0)
    assert "hold no outcomes of synthetic-clean" in run("--noise", "a", "b").output
    Path("a", "synthetic-clean.json").write_text("{}")
    result = run("--noise", "a", "b")
    assert result.exit_code == Exit.USAGE
    assert "cannot be read as outcomes" in result.output
    other = dataclasses.replace(made, checkpoint_digest="sha256:other")
    Path("a", "synthetic-clean.json").write_text(other.to_json())
    result = run("--noise", "a", "b")
    assert result.exit_code == Exit.FAULT
    assert "two runs of one model" in result.output


def test_a_suite_without_its_data_is_named_and_the_others_are_planned(run: Run) -> None:
    settings("suites: [synthetic-clean, ua-gec-test]\n")
    result = run("--psi", "0.02", "--data-dir", "nowhere", "--json")
    assert result.exit_code == Exit.DONE, result.output
    found = json.loads(result.output)
    assert [row["gate"] for row in found["gates"]] == ["synthetic-clean"]
    assert [item["suite"] for item in found["unavailable"]] == ["ua-gec-test"]
    assert "not available: suite ua-gec-test" in run("--psi", "0.02").output


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gates: {overrides: [{suite: typo}]}", "suite typo, which is not configured"),
        ("gates: {overrides: [{suite: synthetic-clean, metric: glue}]}", "no metric 'glue'"),
        ("gates: {powr: 0.9}", "unknown key gates.powr, did you mean power?"),
        ("gates: {families: [{name: f, suites: [a]}]}", "two suites or more"),
        ("gates: {families: [{name: f, suits: [a]}]}", r"families[0].suits"),
    ],
)
def test_a_policy_that_does_not_fit_is_exit_2(run: Run, text: str, told: str) -> None:
    settings(text)
    result = run()
    assert result.exit_code == Exit.USAGE
    assert told in result.output


def test_one_run_twice_or_of_another_suite_is_no_noise(run: Run) -> None:
    settings("suites: [synthetic-clean]\n")
    made = outcomes("a", 0)
    result = run("--noise", "a", "../" + Path.cwd().name + "/a")
    assert result.exit_code == Exit.USAGE
    assert "two runs" in result.output
    for folder in ("a", "b"):
        Path(folder).mkdir(exist_ok=True)
        for other in Path(folder).iterdir():
            other.unlink()
        of_another = dataclasses.replace(made, suite_digest="sha256:x", outcomes=made.outcomes[:1])
        Path(folder, "synthetic-clean.json").write_text(of_another.to_json())
    result = run("--noise", "a", "b")
    assert result.exit_code == Exit.FAULT
    assert "were made on suite" in result.output


@pytest.mark.parametrize("kind", ["folder", "broken link", "pipe"])
def test_a_settings_file_that_cannot_be_read_is_not_passed_over(run: Run, kind: str) -> None:
    path = Path("promotion.yaml")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    result = run("--psi", "0.02")
    assert result.exit_code == Exit.USAGE
    assert "settings file promotion.yaml" in result.output
