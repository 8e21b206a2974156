"""The promotion: a checkpoint becomes what callers are answered by, or is refused with reasons.

    register -> quantize -> evaluate -> gate -> roll out -> record

One MLflow run per promotion, one child run per stage. Stages whose inputs have not changed are
taken from the record, so an interrupted promotion goes on by running the same command again.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from evals.verdict import GateStatus, Verdict
from pipelines import evaluation, records, registering, variants
from pipelines.config import PromotionConfig
from pipelines.place import Place
from pipelines.quantize import QuantizeResult
from pipelines.registering import Source
from pipelines.stage import Result, Stages, StageTime, evidence_closed
from pipelines.switch import Switch, SwitchResult
from registry import ledger
from registry.checkpoint import Checkpoint
from registry.errors import RegistryError
from registry.ledger import Kind
from registry.model import CANDIDATE, ModelVersion, Tag

SETTINGS_FILE = "promotion.yaml"


class Ending(enum.StrEnum):
    """How a promotion ended, where it was not an error."""

    PROMOTED = "promoted"
    """The candidate is champion and answers."""
    ALREADY_CHAMPION = "already champion"
    """This very checkpoint serves; nothing to do."""
    REFUSED = "refused"
    """A gate said fail or underpowered; callers noticed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be promoted, and how.

    Raises:
        ConfigInvalid: the reason does not fit a ledger entry.
    """

    checkpoint: Checkpoint
    config: PromotionConfig
    config_folder: Path | None = None
    """Folder that relative suite paths are looked up in."""
    reason: str = ""
    lineage: str | None = None
    parent: int | None = None

    def __post_init__(self) -> None:
        records.check_reason(self.reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """What came of a request."""

    ending: Ending
    version: ModelVersion
    run_id: str
    run_url: str
    verdict: Verdict | None
    times: tuple[StageTime, ...]
    switched: SwitchResult | None = None


def promote(request: Request, place: Place) -> Promotion:
    """Runs a promotion to its end.

    Raises:
        RegistryError, StageFailed, ConfigInvalid, EvalError: before traffic changed.
        RolloutReverted, ServingError: traffic is where it was before.
    """
    model = request.config.model
    run_id = place.record.evidence.open(
        model, _run_name(request), {Tag.STAGE: records.PROMOTION_STAGE}, None
    )
    with evidence_closed(place.record.evidence, run_id):
        promotion = _run(request, place, run_id)
        ending = str(promotion.ending)
        name = f"{_run_name(request)}: {ending}"
        place.record.evidence.label(run_id, {Tag.ENDING: ending, "mlflow.runName": name})
    _settle(place, model)
    return promotion


def _settle(place: Place, model: str) -> None:
    """Nothing is under test any more, and a refusal belongs on the model's page too."""
    try:
        records.reconcile(place.record, model)
    except RegistryError as exc:
        place.progress.note(f"aliases and description will be set by the next command: {exc}")


def _run(request: Request, place: Place, run_id: str) -> Promotion:
    config, evidence = request.config, place.record.evidence
    stages = Stages(model=config.model, run_id=run_id, evidence=evidence, progress=place.progress)
    _log_request(request, place, run_id)
    base = registering.register(_source(request), place, stages)
    candidate, measured = _variant(request, base, place, stages)
    place.record.versions.mirror(config.model, {CANDIDATE: candidate.version})
    entries = place.record.ledger.entries(config.model)
    champion = ledger.champion(entries)
    _tell_if_it_served(candidate, entries, place)
    judged = evaluation.evaluate(
        evaluation.Question(
            candidate=candidate,
            champion=_version_of(champion, config.model, place),
            config=config,
            config_folder=request.config_folder,
            measured=measured,
        ),
        place,
        stages,
    )
    _log_verdict(judged, candidate, place, run_id)
    switched = None
    ending = Ending.REFUSED
    if judged.verdict.status is GateStatus.PASS:
        change = records.Change(
            kind=Kind.PROMOTE,
            policy_digest=config.digest,
            evidence_run=run_id,
            actor=place.actor,
            reason=request.reason or evaluation.headline(judged.verdict),
            now=place.now,
            entries_seen=len(entries),
        )
        switched = _roll_out(config, candidate, change, place, stages)
        ending = Ending.PROMOTED
        if champion is not None and champion.digest == candidate.digest:
            ending = Ending.ALREADY_CHAMPION
    _log_times(stages, place, run_id)
    return Promotion(
        ending=ending,
        version=candidate,
        run_id=run_id,
        run_url=evidence.url(run_id),
        verdict=judged.verdict,
        times=tuple(stages.times),
        switched=switched,
    )


def _source(request: Request) -> Source:
    return Source(
        checkpoint=request.checkpoint,
        model=request.config.model,
        lineage=request.lineage,
        parent=request.parent,
        pointer=request.config.pointer,
    )


def _variant(
    request: Request, base: ModelVersion, place: Place, stages: Stages
) -> tuple[ModelVersion, QuantizeResult | None]:
    """The version to judge: an FP8 variant, or the checkpoint itself where it is one already."""
    if request.checkpoint.scheme is not None:
        place.progress.note(
            f"quantize skipped: the checkpoint is {request.checkpoint.scheme.label} already"
        )
        return base, None
    if not request.config.recipe.enabled:
        place.progress.note("quantize skipped: the recipe is disabled")
        return base, None
    return variants.quantize(base, request.checkpoint, request.config.recipe, place, stages)


def _version_of(entry: ledger.LedgerEntry | None, model: str, place: Place) -> ModelVersion | None:
    return place.record.versions.get(model, entry.version) if entry is not None else None


def _roll_out(
    config: PromotionConfig,
    candidate: ModelVersion,
    change: records.Change,
    place: Place,
    stages: Stages,
) -> SwitchResult:
    """Not a stage that could be reused: what serves is looked at, never remembered."""
    return stages.live(
        "rollout",
        lambda note: Switch(place.plane(), config.rollout, note=note).to(
            candidate,
            lambda _: records.commit(place.record, candidate, change, note),
            in_charge=lambda: records.in_charge(place.record, config.model),
        ),
        describe_switch,
    )


def describe_switch(result: SwitchResult) -> Result:
    """A switch as plain data for the record."""
    replaced = f", version {result.replaced} drained" if result.replaced else ""
    return {
        "version": result.version,
        "replaced": result.replaced,
        "metrics": {"start_seconds": result.start_s, "answer_seconds": result.answer.seconds},
        "steps": list(result.steps),
        "answer": {"version": result.answer.version, "corrected": result.answer.corrected},
        "summary": f"version {result.version} answers through the edge{replaced}",
    }


def _run_name(request: Request) -> str:
    return f"promote {request.checkpoint.directory.resolve().name}"


def _tell_if_it_served(
    candidate: ModelVersion, entries: Sequence[ledger.LedgerEntry], place: Place
) -> None:
    """Going back to a version by promoting it is allowed, but nobody should do it unawares."""
    served = [e for e in entries if e.digest == candidate.digest]
    now = ledger.champion(entries)
    if served and now is not None and now.digest != candidate.digest:
        place.progress.note(
            f"version {candidate.version} has served before (ledger entry {served[-1].seq}); "
            f"version {now.version} is in charge since, by {now.kind}: {now.reason}"
        )


def _log_request(request: Request, place: Place, run_id: str) -> None:
    evidence, config = place.record.evidence, request.config
    evidence.log(
        run_id,
        params={
            "model": config.model,
            "source_digest": request.checkpoint.digest,
            "policy_digest": config.digest,
            "recipe": config.recipe.label,
            "actor": place.actor,
        },
    )
    evidence.text(run_id, SETTINGS_FILE, config.to_yaml())


def _log_verdict(
    judged: evaluation.Judgement, candidate: ModelVersion, place: Place, run_id: str
) -> None:
    """The verdict of record: set-once parameters bound to the checkpoint's and policy's digests."""
    evidence = place.record.evidence
    evidence.log(
        run_id,
        params={
            "verdict": judged.verdict.status,
            "verdict_reason": evaluation.headline(judged.verdict),
            "candidate_version": candidate.version,
            "candidate_digest": candidate.digest,
            "gate_run": judged.run_id,
        },
    )
    evidence.text(run_id, "report.html", judged.report)
    place.record.versions.tag(
        candidate,
        {
            Tag.GATE_STATUS: str(judged.verdict.status),
            Tag.GATE_RUN: judged.run_id,
            Tag.POLICY_DIGEST: judged.verdict.policy_digest,
        },
    )
    numbers = evaluation.numbers(judged.verdict)
    evidence.log(run_id, metrics=numbers, model_id=candidate.model_id)
    evidence.label(run_id, {"mlflow.note.content": judged.summary})
    place.record.versions.describe(candidate.model, candidate.version, judged.summary)


def _log_times(stages: Stages, place: Place, run_id: str) -> None:
    rows = stages.times
    place.record.evidence.table(
        run_id,
        "stages.json",
        {
            "stage": [r.stage for r in rows],
            "seconds": [round(r.seconds, 2) for r in rows],
            "reused": [r.reused for r in rows],
            "result": [r.summary for r in rows],
            "run": [r.run_id for r in rows],
        },
    )
