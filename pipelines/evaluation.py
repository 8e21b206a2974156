"""The evaluate and gate stages: outcomes of the candidate and the champion, and the verdict.

Outcomes are found again by checkpoint, suites, engine settings and runtime, so the champion is
evaluated once per machine kind and software, not once per candidate.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from evals import examples_table, forest, gate, report, runtime
from evals import suite as suites
from evals.outcome import Outcomes
from evals.suite import Suite
from evals.verdict import Basis, GateStatus, Verdict
from pipelines import worker
from pipelines.config import PromotionConfig, suite_path
from pipelines.place import Place
from pipelines.quantize import QuantizeResult
from pipelines.recipe import Aim
from pipelines.stage import Result, StageRun, Stages
from pipelines.variants import CPU_NOTE
from registry import cache
from registry.engine_settings import DeviceKind
from registry.errors import RegistryError
from registry.model import ModelVersion, content_digest
from registry.prompt_file import MANIFEST_FILE

WORDS = {GateStatus.FAIL: "failed", GateStatus.UNDERPOWERED: "could not be decided"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is to be judged, against what, by which rules."""

    candidate: ModelVersion
    champion: ModelVersion | None
    config: PromotionConfig
    config_folder: Path | None
    measured: QuantizeResult | None
    """What quantization did, for the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict and where it is written down."""

    verdict: Verdict
    run_id: str
    report: str
    """Self-contained HTML."""
    summary: str
    """A few lines of Markdown."""


def suites_of(config: PromotionConfig, folder: Path | None) -> tuple[Suite, ...]:
    """The suites that the settings name, loaded and verified.

    Raises:
        ConfigInvalid: a suite is not known.
        EvalError: its data is absent or was changed.
    """
    return tuple(suites.load(path) for path in suite_paths(config, folder))


def suite_paths(config: PromotionConfig, folder: Path | None) -> tuple[Path, ...]:
    """The definition files of the suites that the settings name."""
    return tuple(suite_path(name, relative_to=folder) for name in config.suites)


def headline(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    total = len(verdict.results)
    if verdict.status is GateStatus.PASS:
        return f"all {total} gates passed"
    missed = sum(r.status is verdict.status for r in verdict.results)
    return f"{missed} of {total} gates {WORDS[verdict.status]}; first: {verdict.reasons[0]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A question at work: its suites loaded, and where evidence goes."""

    question: Question
    suites: tuple[Suite, ...]
    place: Place
    stages: Stages


def evaluate(question: Question, place: Place, stages: Stages) -> Judgement:
    """Runs both stages.

    Raises:
        EvalError, StageFailed: no outcomes could be produced.
    """
    loaded = suites_of(question.config, question.config_folder)
    trial = _Trial(question=question, suites=loaded, place=place, stages=stages)
    candidate = _outcomes_of(trial, question.candidate, "evaluate")
    champion = None
    if question.champion is not None:
        champion = candidate
        if question.champion.digest != question.candidate.digest:
            champion = _outcomes_of(trial, question.champion, "evaluate champion")
    return _gate(trial, candidate, champion)


def evaluate_inputs(
    digest: str, loaded: Sequence[Suite], config: PromotionConfig
) -> dict[str, object]:
    """What shapes the outcomes of a checkpoint."""
    return {
        "checkpoint": digest,
        "suites": {s.name: s.digest for s in loaded},
        "runtime": runtime.runtime(config.resources.engine)["digest"],
        "threads": _threads(config),
    }


def _threads(config: PromotionConfig) -> int | None:
    """CPU threads of the engine, as many as a replica gets: evaluated as it will be served."""
    resources = config.resources
    on_cpu = resources.engine.device is DeviceKind.CPU
    return max(1, int(resources.cpus_per_replica)) if on_cpu else None


def _outcomes_of(trial: _Trial, version: ModelVersion, shown: str) -> dict[str, Outcomes]:
    """Outcomes by suite name, from the record or from a new evaluation."""
    config, place = trial.question.config, trial.place

    def body(run: StageRun) -> Result:
        run.params(version=version.version, checkpoint_digest=version.digest)
        made_with = runtime.runtime(config.resources.engine)
        run.text("runtime.json", json.dumps(made_with, indent=2))
        with worker.scratch(place.work, "evaluate") as out:
            found = _run_harness(trial, version, run, out)
        for name, outcomes in found.items():
            run.text(f"outcomes/{name}.json", outcomes.to_json())
        rates = {f"{n}/rate": o.rate for n, o in found.items() if o.rate is not None}
        run.metrics(rates, model_id=version.model_id)
        told = ", ".join(f"{n.removesuffix('/rate')} {r:.2%}" for n, r in rates.items())
        return {"run": run.run_id, "summary": f"version {version.version}: {told}"}

    inputs = evaluate_inputs(version.digest, trial.suites, config)
    result = trial.stages.run(
        "evaluate",
        inputs,
        body,
        still_valid=lambda r: _readable(lambda: _stored_outcomes(trial, r)),
        shown=shown,
    )
    return _stored_outcomes(trial, result)


def _stored_outcomes(trial: _Trial, result: Result) -> dict[str, Outcomes]:
    read = trial.place.record.evidence.read
    return {
        s.name: Outcomes.from_json(read(str(result["run"]), f"outcomes/{s.name}.json"))
        for s in trial.suites
    }


def _readable(read: Callable[[], object]) -> bool:
    """Evidence whose artifacts are gone is no evidence; the stage is done again."""
    try:
        read()
    except (RegistryError, ValueError):
        return False
    return True


def _run_harness(
    trial: _Trial, version: ModelVersion, run: StageRun, out: Path
) -> dict[str, Outcomes]:
    question, place = trial.question, trial.place
    folder = cache.fetch(place.record.versions, version, place.cache)
    request = {
        "checkpoint_dir": str(folder),
        "manifest": str(folder / MANIFEST_FILE),
        "engine": question.config.resources.engine.to_dict(),
        "suites": [str(p) for p in suite_paths(question.config, question.config_folder)],
    }
    run.work("evals.harness", request, out, threads=_threads(question.config))
    run.text("harness.json", (out / "harness.json").read_text(encoding="utf-8"))
    return {
        s.name: Outcomes.from_json((out / f"outcomes-{s.name}.json").read_text(encoding="utf-8"))
        for s in trial.suites
    }


def _gate(
    trial: _Trial, candidate: dict[str, Outcomes], champion: dict[str, Outcomes] | None
) -> Judgement:
    compared = tuple(
        report.Compared(
            suite=s, candidate=candidate[s.name], champion=champion[s.name] if champion else None
        )
        for s in trial.suites
    )
    question, evidence = trial.question, trial.place.record.evidence

    def body(run: StageRun) -> Result:
        verdict = judge(question, compared)
        _log_verdict(run, verdict, question)
        _log_report(run, _report_input(trial, compared, verdict))
        return {
            "run": run.run_id,
            "verdict": verdict.to_json(),
            "summary": f"{verdict.status}: {headline(verdict)}",
        }

    result = trial.stages.run(
        "gate",
        _gate_inputs(question, candidate, champion),
        body,
        still_valid=lambda r: _readable(lambda: evidence.read(str(r["run"]), "report.html")),
    )
    run_id = str(result["run"])
    return Judgement(
        verdict=Verdict.from_json(str(result["verdict"])),
        run_id=run_id,
        report=evidence.read(run_id, "report.html"),
        summary=evidence.read(run_id, "report.md"),
    )


def _gate_inputs(
    question: Question, candidate: dict[str, Outcomes], champion: dict[str, Outcomes] | None
) -> dict[str, object]:
    return {
        "candidate": question.candidate.digest,
        "champion": question.champion.digest if question.champion else None,
        "outcomes": content_digest([o.to_json() for o in candidate.values()]),
        "champion_outcomes": content_digest([o.to_json() for o in champion.values()])
        if champion
        else None,
        "settings": question.config.digest,
    }


def judge(question: Question, compared: Sequence[report.Compared]) -> Verdict:
    """The verdict over all suites. Pure."""
    rules = question.config.gates
    results = [
        result
        for item in compared
        for result in gate.decide(item.candidate, item.champion, item.suite, rules)
    ]
    return Verdict.combine(
        results,
        candidate_digest=question.candidate.digest,
        champion_digest=question.champion.digest if question.champion else None,
        policy_digest=question.config.digest,
    )


def _log_verdict(run: StageRun, verdict: Verdict, question: Question) -> None:
    """The verdict as set-once parameters, and its numbers where charts can show them."""
    champion = question.champion
    run.params(
        verdict=verdict.status,
        verdict_reason=headline(verdict),
        candidate_version=question.candidate.version,
        candidate_digest=verdict.candidate_digest,
        champion_version=champion.version if champion else "none",
        champion_digest=verdict.champion_digest or "none",
        policy_digest=verdict.policy_digest,
        gate_rules_digest=question.config.gates.digest,
    )
    run.params(**{f"gate/{r.name}": f"{r.status}: {r.reason}" for r in verdict.results})
    run.text("verdict.json", verdict.to_json())
    run.metrics(numbers(verdict), model_id=question.candidate.model_id)


def numbers(verdict: Verdict) -> dict[str, float]:
    """Numbers that exist; one that is missing is left out, never logged as zero."""
    found: dict[str, float | None] = {}
    for result in verdict.results:
        # Against a floor the estimate is a share; against a champion it is a difference.
        estimate = "share" if result.basis is Basis.FLOOR else "difference"
        found[f"{result.name}/candidate_rate"] = result.candidate_rate
        found[f"{result.name}/champion_rate"] = result.champion_rate
        found[f"{result.name}/{estimate}_points"] = result.estimate_points
        found[f"{result.name}/lower_points"] = result.lower_points
        found[f"{result.name}/upper_points"] = result.upper_points
    return {name: value for name, value in found.items() if value is not None}


def _log_report(run: StageRun, page: report.ReportInput) -> None:
    run.text("report.html", report.render(page))
    run.text("report.md", report.render_markdown(page))
    run.text("gates.svg", forest.forest_svg(page.verdict.results))
    for item in page.suites:
        columns = examples_table.per_example_table(item.suite, item.candidate, item.champion)
        run.evidence.table(run.run_id, f"examples/{item.suite.name}.json", columns)


def _report_input(
    trial: _Trial, compared: tuple[report.Compared, ...], verdict: Verdict
) -> report.ReportInput:
    question = trial.question
    champion = question.champion
    return report.ReportInput(
        model=question.config.model,
        candidate=_side(question.candidate),
        champion=_side(champion) if champion is not None else None,
        verdict=verdict,
        policy=question.config.gates,
        suites=compared,
        made_at=trial.place.now(),
        quantization=_quantization(question),
        stages=tuple((t.stage, t.seconds) for t in trial.stages.times),
    )


def _side(version: ModelVersion) -> report.Side:
    return report.Side(
        version=f"version {version.version}", digest=version.digest, recipe=version.scheme
    )


def _quantization(question: Question) -> report.Quantization | None:
    measured = question.measured
    if measured is None:
        return None
    return report.Quantization(
        size_ratio=measured.size_ratio,
        weight_errors=tuple((g.group, g.relative_error) for g in measured.groups),
        note=CPU_NOTE if question.config.recipe.aim is Aim.MEMORY else "",
    )
