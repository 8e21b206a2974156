"""The adapter through the real lm-eval; the engine is a fake, and once the real one."""

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from evals import engine, harness, suite
from evals.engine import Completion, OnProgress
from evals.errors import EvalError, EvaluationFailed, SuiteInvalid
from evals.harness import Evaluator
from evals.request import Request
from evals.results import ResultsDir
from evals.suite import Suite, SuiteKind
from registry import checkpoint
from registry.engine_settings import EngineSettings
from registry.manifest import Generation, Manifest, Prompt
from tests.evals import build

SYNTHETIC = Path("evals/suites/synthetic")
CHECKPOINT = Path("examples/checkpoints/tiny-gec-1")
PROMPT = Prompt(template="Correct: {text}\nFixed:")

# lm-eval and its libraries warn about their own future while being imported.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


class CopyEngine:
    """Returns each source as it was; `missing` are the positions it gives no answer for."""

    def __init__(self, missing: frozenset[int] = frozenset()) -> None:
        self.calls: list[list[str]] = []
        self._missing = missing

    def complete(
        self, prompts: Sequence[str], on_progress: OnProgress | None = None
    ) -> tuple[Completion, ...]:
        self.calls.append(list(prompts))
        if on_progress is not None:
            on_progress(len(prompts), len(prompts))
        return tuple(
            Completion(
                text=f"  {prompt.removeprefix('Correct: ').removesuffix('Fixed:').strip()} \n",
                finish_reason="abort" if number in self._missing else "stop",
                prompt_tokens=10,
                output_tokens=5,
            )
            for number, prompt in enumerate(prompts)
        )


def evaluator(engine: CopyEngine) -> Evaluator:
    return Evaluator(
        engine=engine,
        prompt=PROMPT,
        checkpoint_digest=build.CANDIDATE,
        runtime_digest=build.RUNTIME,
    )


def small(kind: SuiteKind) -> Suite:
    return build.suite([()] * 12, kind=kind, name=f"small-{kind}")


class TestEvaluator:
    def test_all_prompts_go_to_the_engine_at_once_rendered_by_the_manifest(self) -> None:
        engine, chosen = CopyEngine(), small(SuiteKind.CORRECTION)
        evaluator(engine).evaluate(chosen)
        assert engine.calls == [[PROMPT.render(item.source) for item in chosen.examples]]

    def test_a_source_copy_fixes_nothing_and_leaves_clean_text_alone(self) -> None:
        fixes = evaluator(CopyEngine()).evaluate(small(SuiteKind.CORRECTION)).outcomes
        clean = evaluator(CopyEngine()).evaluate(small(SuiteKind.CLEAN)).outcomes
        assert fixes.rate == 0.0
        assert clean.rate == 1.0

    def test_outcomes_are_in_suite_order_parsed_and_bound_to_their_digests(self) -> None:
        chosen = small(SuiteKind.CLEAN)
        evaluated = evaluator(CopyEngine()).evaluate(chosen)
        outcomes = evaluated.outcomes
        assert [o.example_id for o in outcomes.outcomes] == [e.id for e in chosen.examples]
        assert [o.output for o in outcomes.outcomes] == [e.source for e in chosen.examples]
        assert outcomes.suite_digest == chosen.digest
        assert outcomes.checkpoint_digest == build.CANDIDATE
        assert outcomes.runtime_digest == build.RUNTIME
        assert (evaluated.prompt_tokens, evaluated.output_tokens) == (120, 60)

    def test_an_example_without_an_answer_is_missing_and_not_wrong(self) -> None:
        engine = CopyEngine(missing=frozenset({3}))
        outcomes = evaluator(engine).evaluate(small(SuiteKind.CLEAN)).outcomes
        assert [o.score for o in outcomes.outcomes] == [1.0] * 3 + [None] + [1.0] * 8
        assert outcomes.outcomes[3].finish_reason == "abort"
        assert outcomes.rate is None

    def test_a_suite_without_any_answer_is_all_missing(self) -> None:
        engine = CopyEngine(missing=frozenset(range(12)))
        outcomes = evaluator(engine).evaluate(small(SuiteKind.CLEAN)).outcomes
        assert outcomes.missing == 12


@pytest.fixture
def request_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Request:
    """A request for two twelve-line suites, and the copying engine in place of vLLM's."""

    class FakeEngine(CopyEngine):
        def __init__(self, *_: object) -> None:
            super().__init__()

        def __enter__(self) -> "FakeEngine":
            started.append(self)
            return self

        def __exit__(self, *_: object) -> None:
            """Nothing to stop."""

    started: list[FakeEngine] = []
    monkeypatch.setattr(engine, "Engine", FakeEngine)
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


class TestRun:
    def test_writes_outcomes_and_a_summary_and_reports_progress(
        self, request_for: Request, tmp_path: Path
    ) -> None:
        lines: list[str] = []
        harness.run(request_for, tmp_path / "out", lines.append)
        summary = json.loads((tmp_path / "out" / "harness.json").read_text())
        assert list(summary["suites"]) == ["synthetic-erroneous", "synthetic-clean"]
        assert summary["suites"]["synthetic-clean"]["rate"] == 1.0
        written = ResultsDir(path=tmp_path / "out").read("synthetic-clean")
        assert written.runtime_digest == summary["runtime"]["digest"]
        assert "progress synthetic-erroneous 12/12" in lines

    def test_a_second_run_keeps_what_is_done_and_starts_no_engine(
        self, request_for: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        harness.run(request_for, tmp_path / "out", lambda _: None)
        monkeypatch.setattr(engine, "Engine", None)
        lines: list[str] = []
        harness.run(request_for, tmp_path / "out", lines.append)
        assert lines == ["kept synthetic-erroneous", "kept synthetic-clean"]

    def test_a_run_that_lost_one_suite_makes_only_that_one(
        self, request_for: Request, tmp_path: Path
    ) -> None:
        harness.run(request_for, tmp_path / "out", lambda _: None)
        (tmp_path / "out" / "outcomes-synthetic-clean.json").unlink()
        lines: list[str] = []
        harness.run(request_for, tmp_path / "out", lines.append)
        assert lines[0] == "kept synthetic-erroneous"
        assert lines[-1] == "progress synthetic-clean 12/12"

    def test_two_suites_of_one_name_are_refused(self, request_for: Request, tmp_path: Path) -> None:
        with pytest.raises(SuiteInvalid, match="a name each"):
            harness._suites((request_for.suites[0], request_for.suites[0]))

    def test_a_manifest_that_was_edited_is_refused(
        self, request_for: Request, tmp_path: Path
    ) -> None:
        text = request_for.manifest.read_text()
        request_for.manifest.write_text(text.replace('"max_tokens": 8', '"max_tokens": 9'))
        with pytest.raises(EvaluationFailed, match="register the checkpoint again"):
            harness.run(request_for, tmp_path / "out", lambda _: None)


class TestMain:
    def test_an_expected_fault_is_one_line_and_exit_code_1(
        self, request_for: Request, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "clean.jsonl").unlink()
        path = tmp_path / "request.json"
        path.write_text(request_for.to_json())
        code = harness.main(["--request", str(path), "--out", str(tmp_path / "out")])
        last = capsys.readouterr().err.splitlines()[-1]
        assert code == 1
        assert last.startswith("error: cannot read suite file ")

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


REAL = """
import sys
from pathlib import Path
from evals import harness, runtime, suite
from evals.engine import Engine
from registry import checkpoint
from registry.engine_settings import EngineSettings

inspected = checkpoint.inspect(Path(sys.argv[1]))
manifest, settings = inspected.manifest, EngineSettings(kv_cache_gib=0.25)
with Engine(inspected.directory, manifest, settings) as engine:
    for path in sys.argv[2:]:
        chosen = suite.load(Path(path))
        through = harness.Evaluator(
            engine=engine, prompt=manifest.prompt, checkpoint_digest="c", runtime_digest="r"
        ).evaluate(chosen)
        prompts = [manifest.prompt.render(e.source) for e in chosen.examples]
        direct = [manifest.prompt.parse(c.text) for c in engine.complete(prompts)]
        assert direct == [o.output for o in through.outcomes.outcomes], "outputs differ"
        print("identical", len(direct), through.outcomes.rate)
"""


@pytest.mark.slow
@pytest.mark.skipif(not CHECKPOINT.is_dir(), reason="the demo checkpoint is not there")
def test_lm_eval_changes_nothing_in_the_answers_of_the_real_engine(tmp_path: Path) -> None:
    """In a process of its own, because vLLM binds threads and leaves state behind."""
    paths = [str(first_lines(name, 40, tmp_path)) for name in ("erroneous", "clean")]
    command = [sys.executable, "-c", REAL, str(CHECKPOINT), *paths]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found = [line.split() for line in done.stdout.splitlines() if line.startswith("identical")]
    assert [words[1] for words in found] == ["40", "40"]
    assert all(float(words[2]) > 0.75 for words in found)


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
    assert "progress synthetic-erroneous 40/40" in done.stdout.splitlines()
    outcomes = ResultsDir(path=tmp_path / "out").read("synthetic-erroneous")
    assert outcomes.checkpoint_digest == manifest.digest
    assert outcomes.missing == 0
    assert outcomes.rate is not None
    assert outcomes.rate > 0.75
