"""The worker through the real lm-eval; the engine is a stub, and once the real one."""

import dataclasses
import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from evals import engine, harness, suite
from evals.errors import EvalError, EvaluationFailed, SuiteInvalid
from evals.harness import worker
from evals.request import Baseline, Request
from evals.results import ResultsDir
from registry import checkpoint
from registry.engine_settings import EngineSettings
from registry.manifest import Generation, Manifest
from tests.evals.models import PROMPT, StubModel

SYNTHETIC = Path("evals/suites/synthetic")
CHECKPOINT = Path("examples/checkpoints/tiny-gec-1")

# lm-eval and its libraries warn about their own future while being imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> StubModel:
    """The stub that stands in for vLLM's engine."""
    made = StubModel()
    monkeypatch.setattr(engine, "Engine", lambda *_: made)
    return made


@pytest.fixture
def request_for(tmp_path: Path, model: StubModel) -> Request:
    """A request for two twelve-line suites."""
    manifest = Manifest(files=(), prompt=PROMPT, generation=Generation(max_tokens=8))
    (tmp_path / "manifest.json").write_text(manifest.to_json())
    return Request(
        checkpoint_dir=tmp_path,
        manifest=tmp_path / "manifest.json",
        engine=EngineSettings(),
        suites=(first_lines("erroneous", 12, tmp_path), first_lines("clean", 12, tmp_path)),
    )


def first_lines(name: str, count: int, folder: Path) -> Path:
    """A suite of the first lines of a committed one."""
    lines = (SYNTHETIC / f"{name}.jsonl").read_bytes().splitlines(keepends=True)[:count]
    data = b"".join(lines)
    (folder / f"{name}.jsonl").write_bytes(data)
    whole = suite.load(SYNTHETIC / f"{name}.yaml")
    path = folder / f"{name}.yaml"
    definition = (SYNTHETIC / f"{name}.yaml").read_text()
    path.write_text(definition.replace(whole.data_sha256, hashlib.sha256(data).hexdigest()))
    return path


def pairs_suite(folder: Path) -> Path:
    """A suite of two minimal pairs."""
    rows = [
        {"id": "p0", "source": "a", "contrast": "bb"},
        {"id": "p1", "source": "c", "contrast": "dd"},
    ]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / "pairs.jsonl").write_bytes(data)
    path = folder / "pairs.yaml"
    path.write_text(
        "name: pairs\nlanguage: en\nkind: minimal-pairs\nlicense: CC0-1.0\n"
        f"description: two\ndata: pairs.jsonl\nsha256: {hashlib.sha256(data).hexdigest()}\n"
    )
    return path


def summary_of(folder: Path) -> dict[str, object]:
    return ResultsDir(path=folder).summary()


class TestRun:
    def test_writes_outcomes_and_a_summary_and_reports_progress(
        self, request_for: Request, tmp_path: Path
    ) -> None:
        lines: list[str] = []
        harness.run(request_for, tmp_path / "out", lines.append)
        summary = json.loads((tmp_path / "out" / "harness.json").read_text())
        assert list(summary["suites"]) == ["synthetic-erroneous", "synthetic-clean"]
        clean = summary["suites"]["synthetic-clean"]
        assert (clean["rate"], clean["language"], clean["kind"]) == (1.0, "en", "clean")
        (metric,) = clean["metrics"]
        assert (metric["metric"], metric["value"], metric["lower"]) == ("false_positive", 0.0, 0.0)
        assert 0.1 < metric["upper"] < 0.3  # nothing in twelve is not nothing
        written = ResultsDir(path=tmp_path / "out").read("synthetic-clean")
        assert written.runtime_digest == summary["runtime"]["digest"]
        told = [line for line in lines if line.startswith("progress synthetic-erroneous 12/12")]
        assert "(suite 1 of 2)" in told[0]
        assert "examples/s" in told[0]

    def test_a_second_run_keeps_what_is_done_and_starts_no_engine(
        self, request_for: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness.run(request_for, tmp_path / "out", lambda _: None)
        first = summary_of(tmp_path / "out")["suites"]
        monkeypatch.setattr(engine, "Engine", None)
        lines: list[str] = []
        harness.run(request_for, tmp_path / "out", lines.append)
        assert lines == ["kept synthetic-erroneous", "kept synthetic-clean"]
        again = summary_of(tmp_path / "out")["suites"]
        assert {name: of["metrics"] for name, of in again.items()} == {  # type: ignore[attr-defined]
            name: of["metrics"]
            for name, of in first.items()  # type: ignore[attr-defined]
        }

    def test_a_run_that_lost_one_suite_makes_only_that_one(
        self, request_for: Request, tmp_path: Path, model: StubModel
    ) -> None:
        harness.run(request_for, tmp_path / "out", lambda _: None)
        model.calls.clear()
        (tmp_path / "out" / "outcomes-synthetic-clean.json").unlink()
        (tmp_path / "out" / "answers-synthetic-clean.jsonl").unlink()
        lines: list[str] = []
        harness.run(request_for, tmp_path / "out", lines.append)
        assert lines[0] == "kept synthetic-erroneous"
        assert [len(inputs) for _, inputs in model.calls] == [12]

    def test_a_killed_run_goes_on_inside_the_suite(
        self, request_for: Request, tmp_path: Path, model: StubModel
    ) -> None:
        model.fail_after = 5
        with pytest.raises(KeyboardInterrupt):
            harness.run(request_for, tmp_path / "out", lambda _: None)
        model.fail_after = None
        model.calls.clear()
        harness.run(request_for, tmp_path / "out", lambda _: None)
        assert [len(inputs) for _, inputs in model.calls] == [7, 12]

    def test_answers_of_another_checkpoint_are_not_gone_on_with(
        self, request_for: Request, tmp_path: Path, model: StubModel
    ) -> None:
        harness.run(request_for, tmp_path / "out", lambda _: None)
        other = Manifest(files=(), prompt=PROMPT, generation=Generation(max_tokens=9))
        (tmp_path / "manifest.json").write_text(other.to_json())
        model.calls.clear()
        harness.run(request_for, tmp_path / "out", lambda _: None)
        assert [len(inputs) for _, inputs in model.calls] == [12, 12]

    def test_a_suite_without_data_is_unavailable_and_the_others_go_on(
        self, request_for: Request, tmp_path: Path
    ) -> None:
        (tmp_path / "clean.jsonl").unlink()
        harness.run(request_for, tmp_path / "out", lambda _: None)
        summary = summary_of(tmp_path / "out")
        assert list(summary["suites"]) == ["synthetic-erroneous"]  # type: ignore[call-overload]
        assert "clean.jsonl does not exist" in summary["unavailable"]["synthetic-clean"]  # type: ignore[index]

    def test_a_model_without_probabilities_leaves_pairs_out_with_its_reason(
        self, request_for: Request, tmp_path: Path, model: StubModel
    ) -> None:
        model.no_likelihood = "it will not say"
        with_pairs = (*request_for.suites, pairs_suite(tmp_path))
        asked = dataclasses.replace(request_for, suites=with_pairs)
        harness.run(asked, tmp_path / "out", lambda _: None)
        summary = summary_of(tmp_path / "out")
        assert summary["unavailable"] == {"pairs": "it will not say"}
        assert len(summary["suites"]) == 2  # type: ignore[arg-type]

    def test_settings_are_checked_on_every_suite_before_the_first_is_begun(
        self, request_for: Request, tmp_path: Path, model: StubModel
    ) -> None:
        model.longest_chars = 1
        with pytest.raises(EvaluationFailed, match="suite synthetic-erroneous, example"):
            harness.run(request_for, tmp_path / "out", lambda _: None)
        assert model.calls == []

    def test_the_baseline_needs_neither_checkpoint_nor_engine(
        self, request_for: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(engine, "Engine", None)
        asked = Request(
            suites=(*request_for.suites, pairs_suite(tmp_path)), baseline=Baseline.SOURCE_COPY
        )
        harness.run(asked, tmp_path / "out", lambda _: None)
        results = ResultsDir(path=tmp_path / "out")
        assert results.read("synthetic-clean").rate == 1.0
        assert results.read("synthetic-erroneous").rate == 0.0
        assert "no probabilities" in results.summary()["unavailable"]["pairs"]

    def test_two_suites_of_one_name_are_refused(self, request_for: Request) -> None:
        with pytest.raises(SuiteInvalid, match="a name each"):
            worker._suites((request_for.suites[0], request_for.suites[0]), None)

    def test_a_manifest_that_was_edited_is_refused(
        self, request_for: Request, tmp_path: Path
    ) -> None:
        path = tmp_path / "manifest.json"
        path.write_text(path.read_text().replace('"max_tokens": 8', '"max_tokens": 9'))
        with pytest.raises(EvaluationFailed, match="register the checkpoint again"):
            harness.run(request_for, tmp_path / "out", lambda _: None)


class TestMain:
    def test_an_expected_fault_is_one_line_and_exit_code_1(
        self, request_for: Request, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "clean.yaml").write_text("name: [")
        path = tmp_path / "request.json"
        path.write_text(request_for.to_json())
        code = harness.main(["--request", str(path), "--out", str(tmp_path / "out")])
        last = capsys.readouterr().err.splitlines()[-1]
        assert code == 1
        assert last.startswith("error: suite definition ")

    def test_a_request_that_is_not_there_is_an_error_line(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        code = harness.main(["--request", str(tmp_path / "no"), "--out", str(tmp_path)])
        assert code == 1
        assert capsys.readouterr().err.startswith("error: ")

    def test_done_is_exit_code_0(self, request_for: Request, tmp_path: Path) -> None:
        path = tmp_path / "request.json"
        path.write_text(request_for.to_json())
        assert harness.main(["--request", str(path), "--out", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out" / "harness.json").is_file()


def test_every_error_of_the_package_is_expected() -> None:
    assert issubclass(EvaluationFailed, EvalError)


@pytest.mark.slow
@pytest.mark.skipif(not CHECKPOINT.is_dir(), reason="the demo checkpoint is not there")
def test_the_worker_evaluates_a_real_checkpoint(tmp_path: Path) -> None:
    manifest = checkpoint.inspect(CHECKPOINT).manifest
    (tmp_path / "manifest.json").write_text(manifest.to_json())
    asked = Request(
        checkpoint_dir=CHECKPOINT,
        manifest=tmp_path / "manifest.json",
        engine=EngineSettings(kv_cache_gib=0.25),
        suites=(first_lines("erroneous", 40, tmp_path),),
    )
    (tmp_path / "request.json").write_text(asked.to_json())
    command = [sys.executable, "-m", "evals.harness"]
    command += ["--request", str(tmp_path / "request.json"), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "progress synthetic-erroneous 40/40" in done.stdout
    outcomes = ResultsDir(path=tmp_path / "out").read("synthetic-erroneous")
    assert outcomes.checkpoint_digest == manifest.digest
    assert outcomes.missing == 0
    assert outcomes.rate is not None
    assert outcomes.rate > 0.75
