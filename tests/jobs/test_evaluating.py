"""`liftlock evaluate`: what it asks the worker, what it prints, how it exits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from evals import catalog, suite_definition
from evals import suite as suites
from evals.errors import SuiteUnavailable
from evals.results import Evaluated, ResultsDir
from jobs import placing
from jobs.cli import main
from jobs.exits import Exit
from pipelines import worker
from pipelines.config import suite_path
from registry.model import Tag
from tests.fakes import checkpoints
from tests.fakes.record import MemoryEvidence, memory_record
from tests.fakes.world import answers, write_suite

Run = Callable[..., Result]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """The requests that a stand-in worker was given."""
    requests: list[Mapping[str, Any]] = []

    def run(
        module: str,
        request: Mapping[str, Any],
        out: Path,
        progress: Callable[[str], None],
        *,
        threads: int | None = None,
    ) -> None:
        requests.append(request)
        progress("small 50/50, 12 examples/s")
        results, done, unavailable = ResultsDir(path=out), [], {}
        data_dir = Path(request["data_dir"])
        for path in map(Path, request["suites"]):
            try:
                loaded = suites.load(path, data_dir=data_dir)
            except SuiteUnavailable as exc:
                unavailable[suite_definition.read(path).name] = str(exc)
                continue
            outcomes = answers(path, "sha256:c", 5, data_dir)
            done.append(
                Evaluated(
                    suite=loaded, outcomes=outcomes, was_kept=False, wall_s=1.25,
                    prompt_tokens=0, output_tokens=0,
                )
            )  # fmt: skip
            results.write(done[-1])
        results.write_summary({"digest": "sha256:here"}, done, unavailable, 2.0)

    monkeypatch.setattr(worker, "run", run)
    return requests


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Mapping[str, Any]]) -> Run:
    monkeypatch.delenv("LIFTLOCK_DATA_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    checkpoints.make(tmp_path / "ck")
    write_suite(tmp_path, 50)
    home = str(tmp_path / "home")
    return lambda *args: CliRunner().invoke(main, ["--home", home, "evaluate", *map(str, args)])


def test_a_checkpoint_is_evaluated_and_each_metric_printed(run: Run, asked: Any) -> None:
    result = run("ck", "--suite", "suite.yaml")
    assert result.exit_code == Exit.DONE, result.output
    row = (
        "small               en   correction       50          exact            90.0  [78.2, 96.7]"
    )
    assert row in result.stdout
    assert "1.2\n" in result.stdout
    assert "small 50/50, 12 examples/s" in result.stderr
    (request,) = asked
    assert request["checkpoint_dir"].endswith("/ck")
    assert "home/evaluations/ck-" in request["manifest"]
    assert Path(request["manifest"]).is_file()
    assert "endpoint" not in request


def test_json_is_the_workers_summary_and_where_it_lies(run: Run, tmp_path: Path) -> None:
    result = run("ck", "--suite", "suite.yaml", "--out", "here", "--json")
    found = json.loads(result.stdout)
    assert found["suites"]["small"]["metrics"][0]["value"] == 0.9
    assert (found["evaluated"], found["out"]) == ("ck", str(tmp_path / "here"))
    assert found["run_url"] is None
    assert (tmp_path / "here" / "outcomes-small.json").is_file()


def test_the_baseline_needs_no_checkpoint(run: Run, asked: Any) -> None:
    result = run("--baseline", "source-copy", "--suite", "suite.yaml")
    assert result.exit_code == Exit.DONE, result.output
    assert asked[0]["baseline"] == "source-copy"
    assert "manifest" not in asked[0]


def test_an_endpoint_is_asked_with_a_prompt_file_or_a_checkpoint(
    run: Run, asked: Any, tmp_path: Path
) -> None:
    url = "http://127.0.0.1:8000"
    prompt = tmp_path / "ck" / "prompt.json"
    assert run("--endpoint", url, "--prompt", prompt, "--suite", "suite.yaml").exit_code == 0
    assert (
        run("ck", "--endpoint", url, "--served-model", "m", "--suite", "suite.yaml").exit_code == 0
    )
    without, with_checkpoint = asked
    assert without["endpoint"] == with_checkpoint["endpoint"] == url
    assert "checkpoint_dir" not in without
    assert with_checkpoint["checkpoint_dir"].endswith("/ck")
    assert with_checkpoint["served_model"] == "m"
    assert json.loads(Path(without["manifest"]).read_text())["files"] == []
    assert without["manifest"] != with_checkpoint["manifest"]


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((), "name what to evaluate"),
        (("--endpoint", "http://x"), "give --prompt FILE"),
        (("ck", "--baseline", "source-copy"), "--baseline stands alone"),
        (("--baseline", "oracle"), "source-copy"),
        (("nowhere",), "does not exist"),
        (("ck", "--suite", "nonesuch"), "known: blimp"),
    ],
)
def test_wrong_use_is_exit_2(run: Run, asked: Any, args: tuple[str, ...], told: str) -> None:
    result = run(*args)
    assert result.exit_code == Exit.USAGE
    assert told in result.output
    assert asked == []


def test_a_named_suite_without_data_is_listed_and_exit_1(run: Run) -> None:
    result = run("ck", "--suite", "gnc", "--suite", "suite.yaml")
    assert result.exit_code == Exit.FAULT
    assert "small " in result.stdout
    assert "  gnc: suite gnc is unavailable (absent)" in result.stdout


def test_all_runs_what_is_there_and_is_content(
    run: Run, asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = tuple(path for path in catalog.shipped() if path.parent.name in ("blimp", "synthetic"))
    monkeypatch.setattr(catalog, "shipped", lambda: some)
    result = run("ck", "--all", "--suite", "suite.yaml")
    assert result.exit_code == Exit.DONE, result.output
    assert len(asked[0]["suites"]) == len(some) + 1
    assert "  blimp: suite blimp is unavailable" in result.stdout
    assert "synthetic-clean" in result.stdout


def test_the_settings_name_suites_and_where_data_lies(
    run: Run, asked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "promotion.yaml").write_text("suites: [suite.yaml]\ndata_dir: corpora\n")
    run("ck")
    run("ck", "--data-dir", tmp_path / "given")
    monkeypatch.setenv("LIFTLOCK_DATA_DIR", str(tmp_path / "env"))
    run("ck")
    assert [Path(request["data_dir"]).name for request in asked] == ["corpora", "given", "env"]
    assert [Path(path).name for path in asked[0]["suites"]] == ["suite.yaml"]


def test_with_a_model_the_record_gets_a_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    record = memory_record()
    monkeypatch.setattr(placing, "open_record", lambda settings, note: record)
    result = run("ck", "--suite", "suite.yaml", "--model", "grammar")
    assert result.exit_code == Exit.DONE, result.output
    assert isinstance(record.evidence, MemoryEvidence)
    (made,) = record.evidence.runs.values()
    assert (made.model, made.tags[Tag.STAGE]) == ("grammar", "evaluate")
    assert made.metrics["small/exact"] == 0.9
    assert "review it in MLflow: " in result.stdout


def test_suites_that_cannot_be_run_together_are_refused_before_anything_is_started(
    run: Run, asked: Any, tmp_path: Path
) -> None:
    bad, twin = tmp_path / "bad.yaml", tmp_path / "twin.yaml"
    bad.write_text("name: x\n")
    twin.write_text(suite_path("synthetic-clean", relative_to=None).read_text())
    for path, told in ((bad, "language: Field required"), (twin, "are both named synthetic-clean")):
        result = run(
            "--baseline", "source-copy", "--suite", "synthetic-clean", "--suite", str(path)
        )
        assert result.exit_code == Exit.USAGE, result.output
        assert told in result.stderr
    assert not asked
