"""The promotion: a checkpoint becomes what callers are answered by, or is refused with reasons.

    register -> quantize -> evaluate -> gate -> roll out -> record

One MLflow run per promotion, one child run per stage. Stages whose inputs have not changed are
taken from the record, so an interrupted promotion goes on by running the same command again.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from evals.verdict import GateStatus, Verdict
from pipelines import (
    evaluation,
    identity,
    local,
    ownership,
    records,
    recovery,
    registering,
    space,
    switch_record,
    variants,
    waivers,
)
from pipelines.config import SETTINGS_FILE, PromotionConfig
from pipelines.errors import ConfigInvalid, StageFailed
from pipelines.identity import Runtime
from pipelines.ownership import Owned, Timing
from pipelines.place import Place
from pipelines.quantize import QuantizeResult
from pipelines.question import Question
from pipelines.registering import Source
from pipelines.rollout import Terms
from pipelines.stage import Reuse, Stages, StageTime, evidence_closed
from pipelines.stage_names import STAGE_NAMES
from pipelines.switch import Step, Switch, SwitchResult
from registry.checkpoint import Checkpoint
from registry.errors import NotFound, RegistryError
from registry.ledger import Kind, Log, Waiver
from registry.model import CANDIDATE, ModelVersion, Tag

RUNTIME_FILE = "runtime.json"
OUTCOMES_FILE = "outcomes.json"
"""Says which run holds the outcomes that the candidate was judged by."""


class Ending(enum.StrEnum):
    """How a promotion ended, where it was not an error."""

    PROMOTED = "promoted"
    """The candidate is champion and answers."""
    WAIVED = "promoted with a waiver"
    """The same, although a gate did not pass: a named person said so."""
    ALREADY_CHAMPION = "already champion"
    """This very checkpoint serves; nothing to do."""
    REFUSED = "refused"
    """A gate said fail or underpowered; callers noticed nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is to be promoted, and how.

    Raises:
        ConfigInvalid: the reason does not fit a ledger entry, or a stage to rerun is not one.
    """

    checkpoint: Checkpoint
    config: PromotionConfig
    config_folder: Path | None = None
    """Folder that relative suite paths are looked up in."""
    data_dir: Path | None = None
    """Folder of published data; None leaves suites of published data unavailable."""
    reason: str = ""
    lineage: str | None = None
    parent: int | None = None
    rerun: frozenset[str] = frozenset()
    """Stages that are done again even if the record has them."""
    waiver: Waiver | None = None
    name: str = ""
    """What it is called in the record; empty names it after the checkpoint's directory."""

    def __post_init__(self) -> None:
        records.check_reason(self.reason)
        unknown = sorted(self.rerun - set(STAGE_NAMES))
        if unknown:
            raise ConfigInvalid(
                f"{', '.join(unknown)} is no stage that could be rerun; there are "
                f"{', '.join(STAGE_NAMES)} (a rollout is never taken from the record)"
            )


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


def promote(request: Request, place: Place, *, timing: Timing | None = None) -> Promotion:
    """Runs a promotion to its end, as the model's only owner.

    Raises:
        RegistryError, StageFailed, ConfigInvalid, EvalError: before traffic changed.
        OwnedByAnother, ModelFrozen: nothing was begun.
        Fenced: another owner took over; this one changed nothing more.
        RolloutReverted, ServingError: traffic is where it was before.
    """
    model = request.config.model
    if request.waiver is not None:
        waivers.check(request.waiver, request.config.waivers, place.now())
    records.refuse_frozen(place.record.ledger.read(model), model)
    registering.check_parent(_source(request), place)
    space.require(request.checkpoint, request.config, place)
    with ownership.owned(place, model, _run_name(request), timing=timing) as mine:
        recovery.tidy(place, mine)
        promotion = _promote(request, place, mine)
        _settle(place, model)
    return promotion


def _promote(request: Request, place: Place, mine: Owned) -> Promotion:
    run_id = place.record.evidence.open(
        request.config.model, _run_name(request), {Tag.STAGE: records.PROMOTION_STAGE}, None
    )
    with evidence_closed(place.record.evidence, run_id):
        runtime = identity.runtime_of(request.config)
        promotion = _Attempt(
            request=request, place=place, mine=mine, run_id=run_id, runtime=runtime
        ).run()
        ending = str(promotion.ending)
        name = f"{_run_name(request)}: {ending}"
        place.record.evidence.label(run_id, {Tag.ENDING: ending, "mlflow.runName": name})
    return promotion


def _settle(place: Place, model: str) -> None:
    """Nothing is under test any more, and a refusal belongs on the model's page too."""
    try:
        records.reconcile(place.record, model)
    except RegistryError as exc:
        place.progress.note(f"aliases and description will be set by the next command: {exc}")
    local.keep_quietly(place, model)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One promotion run at work."""

    request: Request
    place: Place
    mine: Owned
    run_id: str
    runtime: Runtime

    def run(self) -> Promotion:
        request, place = self.request, self.place
        config, evidence = request.config, place.record.evidence
        stages = Stages(
            model=config.model,
            run_id=self.run_id,
            evidence=evidence,
            progress=place.progress,
            reuse=Reuse.within(config.evidence_max_age_days, place.now(), request.rerun),
            enter=self.mine.enter,
        )
        _log_request(request, self.runtime, place, self.run_id)
        base = registering.register(_source(request), place, stages)
        made, measured = _variant(request, base, place, stages)
        log = place.record.ledger.read(config.model)
        candidate = _released(made, self.runtime, log, place)
        place.record.versions.mirror(config.model, {CANDIDATE: candidate.version})
        _tell_if_it_served(candidate, log, place)
        judged = evaluation.evaluate(_question(self, candidate, log, measured), place, stages)
        _log_verdict(judged, candidate, place, self.run_id)
        ending, switched = self._decide(judged, candidate, log, stages)
        _log_times(stages, place, self.run_id)
        return Promotion(
            ending=ending,
            version=candidate,
            run_id=self.run_id,
            run_url=evidence.url(self.run_id),
            verdict=judged.verdict,
            times=tuple(stages.times),
            switched=switched,
        )

    def _decide(
        self, judged: evaluation.Judgement, candidate: ModelVersion, log: Log, stages: Stages
    ) -> tuple[Ending, SwitchResult | None]:
        passed = judged.verdict.status is GateStatus.PASS
        waiver = None if passed else self._waiver_for(judged)
        if not passed and waiver is None:
            return Ending.REFUSED, None
        change = records.Change(
            kind=Kind.PROMOTE if passed else Kind.OVERRIDE,
            policy_digest=self.request.config.digest,
            evidence_run=self.run_id,
            actor=self.place.actor,
            reason=self.request.reason or evaluation.headline(judged.verdict),
            now=self.place.now,
            entries_seen=len(log.entries),
            epoch=self.mine.epoch,
            runtime_digest=self.runtime.digest,
            waiver=waiver,
        )
        switched = _roll_out(self, candidate, change, stages)
        if log.champion is not None and log.champion.version == candidate.version:
            return Ending.ALREADY_CHAMPION, switched
        return Ending.PROMOTED if passed else Ending.WAIVED, switched

    def _waiver_for(self, judged: evaluation.Judgement) -> Waiver | None:
        """The waiver, if one was given and excuses every gate that did not pass."""
        waiver, place = self.request.waiver, self.place
        if waiver is None:
            return None
        if not waivers.excuses(waiver, judged.verdict):
            others = sorted(set(waivers.missed(judged.verdict)) - set(waiver.gates))
            place.progress.note(f"the waiver does not name {', '.join(others)}")
            return None
        waivers.check(waiver, self.request.config.waivers, place.now())
        place.record.evidence.log(
            self.run_id,
            params={
                "waiver_by": waiver.by,
                "waiver_reason": waiver.reason,
                "waiver_expires": waiver.expires,
                "waiver_gates": ", ".join(waiver.gates),
            },
        )
        page = waivers.on_report(judged.report, waiver)
        place.record.evidence.text(self.run_id, "report.html", page)
        place.progress.note(waivers.sentence(waiver))
        return waiver


def _released(made: ModelVersion, runtime: Runtime, log: Log, place: Place) -> ModelVersion:
    """The version to judge. The champion's own bytes under another runtime are a version of their
    own, so that both can run side by side and either can be gone back to."""
    champion = log.champion
    if champion is None or champion.digest != made.digest:
        return made
    if champion.runtime_digest == runtime.digest:
        return place.record.versions.get(made.model, champion.version)
    place.progress.note(
        f"the champion's own checkpoint under another runtime ({runtime.digest[7:19]}): judged "
        "against the outcomes it was promoted with"
    )
    return place.record.versions.again(made, {Tag.RUNTIME: runtime.digest})


def _question(
    attempt: _Attempt, candidate: ModelVersion, log: Log, measured: QuantizeResult | None
) -> Question:
    config, place, champion = attempt.request.config, attempt.place, log.champion
    against = (
        None if champion is None else place.record.versions.get(config.model, champion.version)
    )
    recorded = None
    if against is not None and is_upgrade(candidate, against):
        recorded = _own_outcomes(place, log, against)
    return Question(
        candidate=candidate,
        champion=against,
        config=config,
        config_folder=attempt.request.config_folder,
        data_dir=attempt.request.data_dir,
        measured=measured,
        champion_outcomes_run=recorded,
    )


def is_upgrade(candidate: ModelVersion, champion: ModelVersion) -> bool:
    """Whether only the runtime changes: the same bytes under a version of their own."""
    return candidate.digest == champion.digest and candidate.version != champion.version


def _own_outcomes(place: Place, log: Log, champion: ModelVersion) -> str:
    """The run with the outcomes that the champion was promoted with, under its own runtime.

    Raises:
        StageFailed: they are gone, so there is nothing that a new runtime could be held against.
    """
    promoted = [
        e for e in log.entries if e.version == champion.version and e.kind is not Kind.ROLLBACK
    ]
    try:
        text = place.record.evidence.read(promoted[-1].evidence_run, OUTCOMES_FILE)
        return str(json.loads(text)["run"])
    except (IndexError, NotFound, ValueError, KeyError) as exc:
        raise StageFailed(
            f"the outcomes that version {champion.version} was promoted with cannot be found, so "
            "another runtime of the same checkpoint has nothing to be compared with; promote the "
            "checkpoint again under the runtime it has served with, then upgrade"
        ) from exc


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


def _roll_out(
    attempt: _Attempt, candidate: ModelVersion, change: records.Change, stages: Stages
) -> SwitchResult:
    """Not a stage that could be reused: what serves is looked at, never remembered."""
    config, place, mine = attempt.request.config, attempt.place, attempt.mine
    terms = Terms(policy=config.rollout, slo=config.slo)

    def switch(note: Callable[[str], None], keep: Callable[[Step], None]) -> SwitchResult:
        plane = place.plane(mine.epoch)
        return Switch(plane, terms, note=note, keep=keep, check=mine.check).to(
            candidate,
            lambda _: records.commit(place.record, candidate, change, note),
            in_charge=lambda: records.in_charge(place.record, config.model),
        )

    return switch_record.recorded(stages, switch)


def _run_name(request: Request) -> str:
    return request.name or f"promote {request.checkpoint.directory.resolve().name}"


def _tell_if_it_served(candidate: ModelVersion, log: Log, place: Place) -> None:
    """Going back to a version by promoting it is allowed, but nobody should do it unawares."""
    served = [e for e in log.entries if e.digest == candidate.digest]
    now = log.champion
    if served and now is not None and now.digest != candidate.digest:
        place.progress.note(
            f"version {candidate.version} has served before (ledger entry {served[-1].seq}); "
            f"version {now.version} is in charge since, by {now.kind}: {now.reason}"
        )


def _log_request(request: Request, runtime: Runtime, place: Place, run_id: str) -> None:
    evidence, config = place.record.evidence, request.config
    evidence.log(
        run_id,
        params={
            "model": config.model,
            "source_digest": request.checkpoint.digest,
            "policy_digest": config.digest,
            "runtime_digest": runtime.digest,
            "recipe": config.recipe.label,
            "actor": place.actor,
        },
    )
    evidence.text(run_id, SETTINGS_FILE, config.to_yaml())
    evidence.text(run_id, RUNTIME_FILE, runtime.to_json())


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
    evidence.text(run_id, OUTCOMES_FILE, json.dumps({"run": judged.outcomes_run}))
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
