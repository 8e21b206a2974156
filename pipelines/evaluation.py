"""The evaluate and gate stages: outcomes of the candidate and the champion, and the verdict."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals import examples_table, forest, gate, report, runtime
from evals.errors import SuiteUnavailable
from evals.evidence import Unavailable
from evals.noise import NoiseFloor, noise_floor
from evals.verdict import Basis, GateStatus, Verdict
from pipelines import identity, outcomes, reporting
from pipelines.config import PromotionConfig
from pipelines.errors import StageFailed
from pipelines.outcomes import Evaluation, Found
from pipelines.place import Place
from pipelines.question import Question
from pipelines.stage import Result, StageRun, Stages
from registry.errors import NotFound
from registry.model import content_digest

WORDS = {GateStatus.FAIL: "failed", GateStatus.UNDERPOWERED: "could not be decided"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """The verdict and where it is written down."""

    verdict: Verdict
    run_id: str
    outcomes_run: str
    """The run that holds the candidate's outcomes."""
    report: str
    """Self-contained HTML."""
    summary: str
    """A few lines of Markdown."""


def headline(verdict: Verdict) -> str:
    """The verdict in one sentence."""
    total = len(verdict.results)
    if verdict.status is GateStatus.PASS:
        return f"all {total} gates passed"
    missed = sum(r.status is verdict.status for r in verdict.results)
    return f"{missed} of {total} gates {WORDS[verdict.status]}; first: {verdict.reasons[0]}"


def evaluate(question: Question, place: Place, stages: Stages) -> Judgement:
    """Runs both stages.

    A suite that is not available is left out and judged as what it is, no evidence.

    Raises:
        EvalError, StageFailed: no outcomes could be produced.
    """
    config = question.config
    found = outcomes.suites_of(config, question.config_folder, question.data_dir)
    if not found.loaded:
        raise SuiteUnavailable("; ".join(found.unavailable.values()))
    evaluation = Evaluation(config=config, suites=found, place=place, stages=stages)
    trial = _Trial(question=question, evaluation=evaluation)
    run, candidate = evaluation.of(question.candidate, "evaluate")
    champion = _champions(trial, candidate)
    answers = _Answers(run_id=run, candidate=candidate, champion=champion, again=_again(trial))
    return _gate(trial, answers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    """A question at work."""

    question: Question
    evaluation: Evaluation

    @property
    def place(self) -> Place:
        """Where it works."""
        return self.evaluation.place


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answers:
    """What is judged."""

    run_id: str
    """Holds the candidate's."""
    candidate: Found
    champion: Found | None
    again: Found | None
    """The champion's second run."""

    @property
    def noise(self) -> tuple[NoiseFloor, ...]:
        """The champion against itself."""
        if self.champion is None or self.again is None:
            return ()
        return tuple(noise_floor(self.champion[name], again) for name, again in self.again.items())


def _champions(trial: _Trial, candidate: Found) -> Found | None:
    """What the champion answered; its own answers of old where only the runtime has changed."""
    question = trial.question
    if question.champion is None:
        return None
    if question.champion_outcomes_run is not None:
        return _of_old(trial, question.champion_outcomes_run)
    if question.champion.digest == question.candidate.digest:
        return candidate
    return trial.evaluation.of(question.champion, "evaluate champion")[1]


def _again(trial: _Trial) -> Found | None:
    """What the champion answers when it is asked a second time: the noise that no margin can be
    below. None where nothing is compared with its answers of this runtime, or none is wanted."""
    question = trial.question
    champion, is_old = question.champion, question.champion_outcomes_run is not None
    if champion is None or is_old or champion.digest == question.candidate.digest:
        return None
    if not question.config.noise_run:
        return None
    return trial.evaluation.of(champion, "evaluate champion again", again=True)[1]


def _of_old(trial: _Trial, run_id: str) -> Found:
    try:
        return trial.evaluation.stored(run_id)
    except (NotFound, ValueError) as exc:
        raise StageFailed(
            f"the champion's outcomes under its own runtime (run {run_id}) do not cover the suites "
            f"of these settings: {exc}. Judge with the suites it was promoted with"
        ) from exc


def _gate(trial: _Trial, answers: _Answers) -> Judgement:
    candidate, champion = answers.candidate, answers.champion
    compared = tuple(
        report.Compared(
            suite=s,
            candidate=candidate[s.name],
            champion=champion[s.name] if champion else None,
            across_runtimes=trial.question.across_runtimes,
        )
        for s in trial.evaluation.suites.loaded
    )
    question, evidence = trial.question, trial.place.record.evidence

    def body(run: StageRun) -> Result:
        verdict = judge(question, compared, trial.evaluation.suites.absent)
        _log_verdict(run, verdict, question)
        background = _background(trial, answers)
        _log_report(run, reporting.report_input(question, compared, verdict, background))
        return {
            "run": run.run_id,
            "verdict": verdict.to_json(),
            "summary": f"{verdict.status}: {headline(verdict)}",
        }

    result = trial.evaluation.stages.run(
        "gate",
        _gate_inputs(trial, answers),
        body,
        still_valid=lambda r: outcomes.readable(
            lambda: evidence.read(str(r["run"]), "report.html")
        ),
    )
    run_id = str(result["run"])
    return Judgement(
        verdict=Verdict.from_json(str(result["verdict"])),
        run_id=run_id,
        outcomes_run=answers.run_id,
        report=evidence.read(run_id, "report.html"),
        summary=evidence.read(run_id, "report.md"),
    )


def _gate_inputs(trial: _Trial, answers: _Answers) -> dict[str, object]:
    question, champion = trial.question, answers.champion
    absent = [item.suite for item in trial.evaluation.suites.absent]
    return {
        **({"unavailable": absent} if absent else {}),
        "candidate": question.candidate.digest,
        "champion": question.champion.digest if question.champion else None,
        "outcomes": _digest(answers.candidate),
        "champion_outcomes": _digest(champion) if champion else None,
        **({"champion_again": _digest(answers.again)} if answers.again else {}),
        "settings": question.config.digest,
        "runtime": identity.runtime_of(question.config).digest,
    }


def _digest(found: Found) -> str:
    return content_digest([o.to_json() for o in found.values()])


def judge(
    question: Question,
    compared: Sequence[report.Compared],
    unavailable: Sequence[Unavailable] = (),
) -> Verdict:
    """The verdict over all suites. Pure."""
    champion = question.champion.digest if question.champion else None
    return verdict_of(
        question.config, compared, unavailable, candidate=question.candidate.digest,
        champion=champion,
    )  # fmt: skip


def verdict_of(
    config: PromotionConfig,
    compared: Sequence[report.Compared],
    unavailable: Sequence[Unavailable],
    *,
    candidate: str,
    champion: str | None,
) -> Verdict:
    """The verdict over all suites between two checkpoints, given by their digests. Pure."""
    policy = config.gates
    verdict = Verdict.combine(
        gate.decide_all(compared, policy, unavailable),
        candidate_digest=candidate,
        champion_digest=champion,
        policy_digest=config.digest,
        policy=policy.as_dict(),
    )
    return dataclasses.replace(verdict, skipped=gate.skipped(policy, unavailable))


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
        # Against a champion the estimate is a difference; otherwise it is a share.
        estimate = "difference" if result.basis is Basis.CHAMPION else "share"
        found[f"{result.name}/candidate_rate"] = result.candidate_rate
        found[f"{result.name}/champion_rate"] = result.champion_rate
        found[f"{result.name}/{estimate}_points"] = result.estimate_points
        found[f"{result.name}/lower_points"] = result.lower_points
        found[f"{result.name}/upper_points"] = result.upper_points
        found[f"{result.name}/power"] = result.power
    return {name: value for name, value in found.items() if value is not None}


def _log_report(run: StageRun, page: report.ReportInput) -> None:
    run.text("report.html", report.render(page))
    run.text("report.md", report.render_markdown(page))
    run.text("gates.svg", forest.forest_svg(page.verdict.results))
    for item in page.suites:
        columns = examples_table.per_example_table(item.suite, item.candidate, item.champion)
        run.evidence.table(run.run_id, f"examples/{item.suite.name}.json", columns)


def _background(trial: _Trial, answers: _Answers) -> reporting.Background:
    question = trial.question
    here = runtime.runtime(question.config.resources.engine)
    run_id = question.champion_outcomes_run
    return reporting.Background(
        runtime=here,
        champion_runtime=here if run_id is None else _runtime_of(trial, run_id),
        made_at=trial.place.now(),
        stages=tuple((t.stage, t.seconds) for t in trial.evaluation.stages.times),
        noise=answers.noise,
    )


def _runtime_of(trial: _Trial, run_id: str) -> Mapping[str, Any]:
    """What the champion was evaluated with, as its run says."""
    found: dict[str, Any] = json.loads(trial.place.record.evidence.read(run_id, "runtime.json"))
    return found
