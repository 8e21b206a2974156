"""Evaluations for their own sake: the worker's request, and what a record gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evals import suite as suites
from evals.request import Request
from evals.results import Evaluated, ResultsDir
from pipelines import measuring, worker
from pipelines.measuring import Question
from registry import checkpoint
from registry.manifest import Manifest
from registry.model import Tag
from registry.store import Record, Registration
from tests.fakes import checkpoints
from tests.fakes.record import MemoryEvidence, memory_record
from tests.fakes.world import answers, write_suite


@pytest.fixture
def question(tmp_path: Path) -> Question:
    write_suite(tmp_path, 50)
    manifest = checkpoint.inspect(checkpoints.make(tmp_path / "ck")).manifest
    return Question(
        name="ck",
        request=Request(
            suites=(tmp_path / "suite.yaml",),
            checkpoint_dir=tmp_path / "ck",
            manifest=tmp_path / "out" / "manifest.json",
        ),
        manifest=manifest,
        threads=1,
    )


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writes what the worker writes."""

    def run(
        module: str,
        request: Mapping[str, Any],
        out: Path,
        progress: Callable[[str], None],
        *,
        threads: int | None = None,
    ) -> None:
        assert (module, threads) == ("evals.harness", 1)
        digest = Manifest.from_json(Path(request["manifest"]).read_text()).digest
        results, done = ResultsDir(path=out), []
        for path in map(Path, request["suites"]):
            outcomes = answers(path, digest, wrong=5)
            done.append(
                Evaluated(
                    suite=suites.load(path), outcomes=outcomes, was_kept=False, wall_s=1.0,
                    prompt_tokens=0, output_tokens=0,
                )
            )  # fmt: skip
            results.write(done[-1])
        results.write_summary({"digest": "sha256:here"}, done, {"blimp": "no data"}, 2.0)

    monkeypatch.setattr(worker, "run", run)


def test_measures_and_hands_over_the_summary(question: Question, tmp_path: Path) -> None:
    measured = measuring.measure(question, tmp_path / "out", lambda _: None)
    assert measured.summary["suites"]["small"]["rate"] == 0.9
    assert measured.summary["unavailable"] == {"blimp": "no data"}
    assert measuring.numbers(measured.summary)["small/exact"] == 0.9
    assert measured.results.read("small").missing == 0


def logged(question: Question, out: Path, record: Record) -> tuple[str, MemoryEvidence]:
    measured = measuring.measure(question, out, lambda _: None)
    run_id = measuring.log(measured, record, "grammar")
    assert isinstance(record.evidence, MemoryEvidence)
    return run_id, record.evidence


def test_a_record_gets_one_finished_run(question: Question, tmp_path: Path) -> None:
    run_id, evidence = logged(question, tmp_path / "out", memory_record())
    run = evidence.runs[run_id]
    assert (run.status, run.tags[Tag.STAGE], run.name) == ("FINISHED", "evaluate", "evaluate ck")
    assert run.metrics["small/exact"] == 0.9
    assert run.metrics["small/exact_lower"] < 0.9 < run.metrics["small/exact_upper"]
    assert run.metrics["small/missing"] == 0.0
    assert len(run.files["examples/small.json"]["candidate_output"]) == 50
    assert {"harness.json", "outcomes/small.json"} <= set(run.files)


@pytest.mark.filterwarnings("ignore:For backward compatibility")  # MLflow's tables on pandas 3
def test_every_record_takes_it(question: Question, tmp_path: Path, record: Record) -> None:
    measured = measuring.measure(question, tmp_path / "out", lambda _: None)
    run_id = measuring.log(measured, record, "grammar-measured")
    (found,) = record.evidence.recent("grammar-measured", "evaluate", 5)
    assert found.run_id == run_id
    assert found.metrics["small/exact"] == 0.9
    assert found.metrics["small/exact_upper"] > 0.9
    assert "small" in record.evidence.read(run_id, "outcomes/small.json")


def test_a_promotion_does_not_take_it_for_its_own(question: Question, tmp_path: Path) -> None:
    record = memory_record()
    run_id, evidence = logged(question, tmp_path / "out", record)
    digest = evidence.runs[run_id].tags[Tag.INPUTS]
    assert evidence.find("grammar", "evaluate", digest) is not None
    again, _ = logged(question, tmp_path / "out", record)
    assert evidence.runs[again].tags[Tag.INPUTS] == digest


def test_a_registered_checkpoint_shows_the_numbers_too(
    question: Question, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = memory_record()
    found = checkpoint.inspect(tmp_path / "ck")
    version = record.versions.register("grammar", found, Registration(name="ck", run_id="r"))
    seen: list[str | None] = []
    real = MemoryEvidence.log
    monkeypatch.setattr(
        MemoryEvidence,
        "log",
        lambda self, run_id, **what: (seen.append(what["model_id"]), real(self, run_id, **what))[1],
    )
    logged(question, tmp_path / "out", record)
    assert seen == [version.model_id]
