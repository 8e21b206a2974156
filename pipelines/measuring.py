"""Evaluates something for its own sake: no champion, no gate, nothing that changes what serves.

The results lie in a folder that is the same for the same question, so a measurement that broke off
goes on there. A record gets them at the end, as one finished run.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evals import examples_table, suite_definition
from evals import suite as suites
from evals.request import Request
from evals.results import ResultsDir
from pipelines import worker
from pipelines.stage import evidence_closed
from registry.manifest import Manifest
from registry.model import Tag, content_digest
from registry.store import Evidence, Record

STAGE = "evaluate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What to evaluate."""

    name: str
    """For people, such as the checkpoint's directory or the endpoint's address."""
    request: Request
    manifest: Manifest | None
    """What is written to `request.manifest`; None for a baseline, which has none."""
    threads: int | None
    """CPU threads of an engine, as many as a replica gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What came of a question."""

    question: Question
    results: ResultsDir
    summary: dict[str, Any]
    """The worker's `harness.json`."""


def measure(question: Question, out: Path, note: Callable[[str], None]) -> Measured:
    """Runs the worker; what `out` holds of the same question is not done again.

    Raises:
        StageFailed: the worker failed; the same call goes on where it stopped.
    """
    if question.manifest is not None and question.request.manifest is not None:
        question.request.manifest.parent.mkdir(parents=True, exist_ok=True)
        question.request.manifest.write_text(question.manifest.to_json(), encoding="utf-8")
    worker.run("evals.harness", question.request.to_dict(), out, note, threads=question.threads)
    results = ResultsDir(path=out)
    return Measured(question=question, results=results, summary=results.summary())


def log(measured: Measured, record: Record, model: str) -> str:
    """Puts the results into a run of the model's experiment; returns the run's id.

    The stage is `evaluate`, but its inputs are a measurement's: no promotion takes it for its own.
    A checkpoint that is registered shows the numbers on its page too.

    Raises:
        RegistryError: the record refused or did not answer.
    """
    question, summary, evidence = measured.question, measured.summary, record.evidence
    runtime = summary["runtime"]["digest"]
    inputs = {
        "measured": question.name,
        "suites": {name: of["digest"] for name, of in summary["suites"].items()},
        "runtime": runtime,
    }
    digest = content_digest({"stage": STAGE, "inputs": inputs})
    tags = {str(Tag.STAGE): STAGE, str(Tag.INPUTS): digest}
    version = None
    if question.manifest is not None:
        version = record.versions.find(model, question.manifest.digest)
    run_id = evidence.open(model, f"evaluate {question.name}", tags, None)
    with evidence_closed(evidence, run_id):
        evidence.log(
            run_id,
            params={"evaluated": question.name, "runtime_digest": runtime},
            metrics=numbers(summary),
            model_id=version.model_id if version is not None else None,
        )
        evidence.text(run_id, "harness.json", json.dumps(summary, indent=2))
        _log_suites(measured, evidence, run_id)
    return run_id


def numbers(summary: dict[str, Any]) -> dict[str, float]:
    """`suite/metric` and its bounds, where they exist."""
    found: dict[str, float | None] = {}
    for name, of in summary["suites"].items():
        found[f"{name}/missing"] = float(of["missing"])
        for one in of["metrics"]:
            found[f"{name}/{one['metric']}"] = one["value"]
            found[f"{name}/{one['metric']}_lower"] = one["lower"]
            found[f"{name}/{one['metric']}_upper"] = one["upper"]
    return {name: value for name, value in found.items() if value is not None}


def _log_suites(measured: Measured, evidence: Evidence, run_id: str) -> None:
    request = measured.question.request
    for path in request.suites:
        name = suite_definition.read(path).name
        if name not in measured.summary["suites"]:
            continue
        outcomes = measured.results.read(name)
        loaded = suites.load(path, data_dir=request.data_dir)
        evidence.text(run_id, f"outcomes/{name}.json", outcomes.to_json())
        columns = examples_table.per_example_table(loaded, outcomes, None)
        evidence.table(run_id, f"examples/{name}.json", columns)
