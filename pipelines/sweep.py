"""The sweep: which FP8 variant of a checkpoint is the fastest that passes the gate.

    register -> quantize (4 recipes) -> sensitivity -> quantize (exclusions)
             -> evaluate each -> speed beside each other -> gate against the parent -> pick

One MLflow run per sweep; its stages and one run for each variant lie under it. Stages are the
promotion's, so what one has done the other takes from the record. Nothing that serves is changed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from evals.errors import SuiteUnavailable
from evals.evidence import Compared
from evals.pace import Pace, paces
from evals.verdict import GateStatus, Verdict
from pipelines import (
    evaluation,
    outcomes,
    ownership,
    pick,
    recovery,
    registering,
    space,
    sweep_plan,
    sweep_record,
    sweep_stages,
    variants,
)
from pipelines.errors import StageFailed
from pipelines.outcomes import Evaluation, Found, Suites
from pipelines.ownership import Timing
from pipelines.pick import Pick
from pipelines.place import Place
from pipelines.quantizing import Request, source_of, stages_of
from pipelines.sensitivity import Sensitivity
from pipelines.stage import Stages, StageTime, evidence_closed
from pipelines.sweep_plan import Planned
from pipelines.sweep_row import PARENT, Row, worst_of
from pipelines.sweep_stages import ONLINE, Arm
from registry.model import ModelVersion, Tag

STAGE = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What came of a sweep."""

    rows: tuple[Row, ...]
    """The parent first."""
    pick: Pick
    sensitivity: Sensitivity
    run_id: str
    run_url: str
    times: tuple[StageTime, ...]


def sweep(request: Request, place: Place, *, timing: Timing | None = None) -> Sweep:
    """Runs a sweep to its end, as the model's only owner.

    Raises:
        RegistryError, StageFailed, ConfigInvalid, EvalError: finished parts stay in the record.
        OwnedByAnother: another command works on this model.
    """
    found = outcomes.suites_of(request.config, request.config_folder, request.data_dir)
    if not found.loaded:
        raise SuiteUnavailable("; ".join(found.unavailable.values()))
    model = request.config.model
    space.require_room(_room(request, place), place)
    with ownership.owned(place, model, f"sweep {request.name}", timing=timing) as mine:
        recovery.tidy(place, mine)
        evidence = place.record.evidence
        tags = {str(Tag.STAGE): STAGE}
        run_id = evidence.open(model, f"sweep {request.name}", tags, None)
        with evidence_closed(evidence, run_id):
            stages = stages_of(request, place, mine, run_id)
            at_work = _AtWork(request=request, place=place, stages=stages, suites=found)
            return at_work.run(run_id)


def _room(request: Request, place: Place) -> tuple[space.Need, ...]:
    """FP8 is smaller, but not by a share that is known before, and some variants may be there."""
    count = request.checkpoint.manifest.size_bytes
    many = len(sweep_plan.grid(request.config.recipe)) + 2
    stored = not space.is_local(place.record.address)
    return (
        *space.copies_of(request.checkpoint, place, stored=stored),
        space.Need(what=f"{many} variants", size_bytes=many * count * (1 if stored else 2)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _AtWork:
    """One sweep at work."""

    request: Request
    place: Place
    stages: Stages
    suites: Suites

    def run(self, run_id: str) -> Sweep:
        request = self.request
        sweep_record.log_request(request.config, request.checkpoint, self.place, run_id)
        base = registering.register(source_of(request), self.place, self.stages)
        parent = self._arm(PARENT, base)
        made = [self._variant(base, planned) for planned in sweep_plan.grid(request.config.recipe)]
        sensitivity = self._sensitivity(base)
        excluding = sweep_plan.exclusions(request.config.recipe, sensitivity.ranked)
        made += [self._variant(base, planned) for planned in excluding]
        made.append(self._online(base))
        of_parent = self._outcomes(parent)
        answered = [(arm, *self._tried(arm)) for arm in made]
        able = [arm for arm, found, _ in answered if found is not None]
        speed = self._speed([parent, *able])
        rows = [self._row(parent, None, speed[PARENT], "")]
        for arm, found, why_not in answered:
            verdict = None if found is None else self._verdict(arm, found, of_parent, base)
            reason = why_not if verdict is None else _why(verdict)
            row = self._row(arm, verdict, speed.get(arm.name), reason)
            sweep_record.log_variant(row, verdict, arm.version, self.place, run_id)
            rows.append(row)
        return self._finish(tuple(rows), sensitivity, run_id)

    def _arm(self, name: str, version: ModelVersion) -> Arm:
        weights = (f for f in version.manifest.files if f.path.endswith(".safetensors"))
        return Arm(
            name=name,
            version=version,
            engine=self.request.config.resources.engine,
            size_bytes=sum(f.size_bytes for f in weights),
        )

    def _variant(self, base: ModelVersion, planned: Planned) -> Arm:
        version, measured = variants.quantize(
            base,
            self.request.checkpoint,
            planned.recipe,
            self.place,
            self.stages,
            shown=f"quantize {planned.name}",
        )
        return dataclasses.replace(
            self._arm(planned.name, version),
            excluded=planned.excluded,
            weight_error=max(g.relative_error for g in measured.groups),
        )

    def _sensitivity(self, base: ModelVersion) -> Sensitivity:
        effort = self.request.effort
        prompt = base.manifest.prompt
        texts = sweep_plan.calibration(self.suites.loaded, prompt, effort.texts)
        ignore = self.request.config.recipe.ignore
        return sweep_stages.sensitivity(base, texts, ignore, self.place, self.stages)

    def _evaluation(self, arm: Arm) -> Evaluation:
        resources = dataclasses.replace(self.request.config.resources, engine=arm.engine)
        return Evaluation(
            config=dataclasses.replace(self.request.config, resources=resources),
            suites=self.suites,
            place=self.place,
            stages=self.stages,
        )

    def _outcomes(self, arm: Arm) -> Found:
        return self._evaluation(arm).of(arm.version, f"evaluate {arm.name}")[1]

    def _online(self, base: ModelVersion) -> Arm:
        """The open baseline: vLLM's own FP8 of the parent."""
        settings = dataclasses.replace(self.request.config.resources.engine, quantization="fp8")
        return dataclasses.replace(self._arm(ONLINE, base), engine=settings)

    def _tried(self, arm: Arm) -> tuple[Found | None, str]:
        """A variant's outcomes, or why there are none: not every build of vLLM has the kernels for
        every scheme, and a variant that cannot be run is no reason not to compare the others."""
        try:
            return self._outcomes(arm), ""
        except StageFailed as exc:
            self.place.progress.note(f"{arm.name} is left out: {exc}")
            return None, f"could not be run here: {exc}"

    def _speed(self, arms: Sequence[Arm]) -> dict[str, Pace]:
        effort = self.request.effort
        prompt = arms[0].version.manifest.prompt
        asked = sweep_plan.prompts(self.suites.loaded, prompt, effort.prompts)
        question = sweep_stages.Question(arms=tuple(arms), prompts=asked, rounds=effort.rounds)
        threads = outcomes.threads_of(self.request.config)
        result = sweep_stages.speed(question, self.place, self.stages, threads=threads)
        for name, why in result.failed.items():
            self.place.progress.note(f"the speed of {name} could not be measured: {why}")
        return paces(result.turns, PARENT)

    def _verdict(self, arm: Arm, found: Found, of_parent: Found, base: ModelVersion) -> Verdict:
        config = self.request.config
        compared = [
            Compared(
                suite=suite,
                candidate=found[suite.name],
                champion=of_parent[suite.name],
                across_runtimes=arm.engine != config.resources.engine,
            )
            for suite in self.suites.loaded
        ]
        return evaluation.verdict_of(
            config, compared, self.suites.absent, candidate=arm.version.digest, champion=base.digest
        )

    def _row(self, arm: Arm, verdict: Verdict | None, pace: Pace | None, reason: str) -> Row:
        online = f", {arm.engine.quantization} while loading" if arm.engine.quantization else ""
        return Row(
            name=arm.name,
            version=arm.version.version,
            recipe=f"{arm.version.scheme}{online}",
            excluded=arm.excluded,
            size_bytes=arm.size_bytes,
            weight_error=arm.weight_error,
            status=verdict.status if verdict is not None else None,
            reason=reason,
            worst=worst_of(verdict) if verdict is not None else None,
            pace=pace,
        )

    def _finish(self, rows: tuple[Row, ...], found: Sensitivity, run_id: str) -> Sweep:
        parent, *others = rows
        picked = pick.pick(
            [row.candidate for row in others],
            self.request.config.recipe.aim,
            parent_bytes=parent.size_bytes,
        )
        evidence = self.place.record.evidence
        done = Sweep(
            rows=rows,
            pick=picked,
            sensitivity=found,
            run_id=run_id,
            run_url=evidence.url(run_id),
            times=tuple(self.stages.times),
        )
        page = sweep_record.Page(
            rows=rows, pick=picked, sensitivity=found, on_cpu=self.request.on_cpu
        )
        sweep_record.log_sweep(page, self.place, run_id)
        return done


def _why(verdict: Verdict) -> str:
    return "" if verdict.status is GateStatus.PASS else verdict.reasons[0]
