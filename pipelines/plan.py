"""`promote --plan`: what would run, what is done already, and what it needs. Changes nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pipelines import outcomes, variants
from pipelines.promotion import Request
from pipelines.stage import inputs_digest
from registry.ledger import LedgerEntry
from registry.model import ModelVersion, short
from registry.store import Record

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One stage as it would go."""

    stage: str
    state: str
    """`done` (in the record with the same inputs), `run` or `skip`."""
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `promote` would do now."""

    model: str
    digest: str
    policy_digest: str
    champion: int | None
    steps: tuple[Step, ...]
    needs: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return dataclasses.asdict(self)

    def as_text(self) -> str:
        """For people."""
        serving = f"version {self.champion}" if self.champion else "nothing yet"
        lines = [
            f"model       {self.model} (serving: {serving})",
            f"checkpoint  {short(self.digest)}",
            f"settings    {short(self.policy_digest)}",
            "",
            *(f"{s.stage:<17}  {s.state:<5} {s.what}" for s in self.steps),
            "",
            *(f"needs       {n}" for n in self.needs),
            "",
            "nothing was changed",
        ]
        return "\n".join(lines)


def plan_of(request: Request, record: Record | None) -> Plan:
    """The plan for a request; without a record nothing can be done already."""
    model = request.config.model
    champion = record.ledger.read(model).champion if record else None
    return Plan(
        model=model,
        digest=request.checkpoint.digest,
        policy_digest=request.config.digest,
        champion=champion.version if champion else None,
        steps=tuple(_steps(request, record, champion)),
        needs=tuple(_needs(request)),
    )


def _steps(request: Request, record: Record | None, champion: LedgerEntry | None) -> Iterator[Step]:
    config, checkpoint = request.config, request.checkpoint
    base = record.versions.find(config.model, checkpoint.digest) if record else None
    yield Step(
        stage="register",
        state="done" if base else "run",
        what=f"version {base.version}"
        if base
        else f"{checkpoint.architecture}, {checkpoint.manifest.size_bytes / MIB:.1f} MiB",
    )
    step, variant = _quantize_step(request, record, base)
    yield step
    yield _evaluate_step(request, record, variant, "evaluate")
    if champion is not None and record is not None:
        serving = record.versions.get(config.model, champion.version)
        if variant is None or variant.digest != serving.digest:
            yield _evaluate_step(request, record, serving, "evaluate champion")
            if config.noise_run:
                shown = "evaluate champion again"
                yield _evaluate_step(request, record, serving, shown, again=True)
    against = f"against version {champion.version}" if champion else "against absolute floors"
    yield Step(
        stage="gate",
        state="run",
        what=f"{len(config.suites)} suites {against}; reused if judged before",
    )
    if champion is not None and variant is not None and champion.digest == variant.digest:
        yield Step(
            stage="rollout",
            state="run",
            what="this checkpoint is champion already; makes sure that it serves",
        )
    else:
        shares = ", ".join(f"{s} %" for s in config.rollout.steps) if champion else "100 %"
        yield Step(stage="rollout", state="run", what=f"if every gate passes: {shares}")


def _quantize_step(
    request: Request, record: Record | None, base: ModelVersion | None
) -> tuple[Step, ModelVersion | None]:
    recipe, scheme = request.config.recipe, request.checkpoint.scheme
    if scheme is not None:
        return Step(stage="quantize", state="skip", what=f"it is {scheme.label} already"), base
    if not recipe.enabled:
        return Step(stage="quantize", state="skip", what="the recipe is disabled"), base
    found = None
    if record is not None and base is not None:
        digest = inputs_digest("quantize", variants.quantize_inputs(base.digest, recipe))
        done = record.evidence.find(request.config.model, "quantize", digest)
        found = variants.recorded_variant(record, request.config.model, done) if done else None
    state = "done" if found else "run"
    what = f"version {found.version}, {recipe.label}" if found else recipe.label
    return Step(stage="quantize", state=state, what=what), found


def _evaluate_step(
    request: Request,
    record: Record | None,
    variant: ModelVersion | None,
    shown: str,
    *,
    again: bool = False,
) -> Step:
    suites = outcomes.suites_of(request.config, request.config_folder, request.data_dir)
    told = [f"{s.name} ({len(s.examples)})" for s in suites.loaded]
    what = ", ".join([*told, *(f"{name} (unavailable)" for name in suites.unavailable)])
    if record is None or variant is None:
        return Step(stage=shown, state="run", what=what)
    inputs = outcomes.evaluate_inputs(variant.digest, suites, request.config, again=again)
    found = record.evidence.find(
        request.config.model, "evaluate", inputs_digest("evaluate", inputs)
    )
    return Step(stage=shown, state="done" if found else "run", what=what)


def _needs(request: Request) -> Iterator[str]:
    resources, rollout = request.config.resources, request.config.rollout
    size = request.checkpoint.manifest.size_bytes / MIB
    yield f"{3 * size:.0f} MiB of disk for the copies in the record, the cache and the variant"
    replicas = 2 * rollout.replicas
    yield (
        f"room for {replicas} replicas at once during the rollout: "
        f"{replicas * resources.cpus_per_replica:g} CPUs, "
        f"{replicas * resources.gpus_per_replica:g} GPUs"
    )
    cache = resources.engine.kv_cache_gib
    if cache is not None:
        yield f"{cache:g} GiB of KV cache per engine"
