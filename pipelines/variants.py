"""The quantize stage: a version becomes an FP8 variant with a parent, measured and registered."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipelines import worker
from pipelines.errors import StageFailed
from pipelines.place import Place
from pipelines.quantize import QuantizeResult
from pipelines.recipe import Aim, Recipe
from pipelines.stage import RESULT_FILE, Result, StageRun, Stages
from registry import cache, checkpoint, disk
from registry.checkpoint import Checkpoint
from registry.errors import CheckpointInvalid, NotFound, RecordConflict
from registry.model import ModelVersion, StageEvidence, Tag, short
from registry.store import Record, Registration
from registry.versions_of import package_versions

TOOLS = ("llmcompressor", "compressed-tensors", "transformers", "torch")
CPU_NOTE = (
    "On CPU an FP8 checkpoint is smaller but slower than BF16 (no FP8 arithmetic there): this "
    "variant is judged by quality and size, not by speed. The speed-up is a matter of GPUs with "
    "FP8 tensor cores."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One variant to make."""

    base: ModelVersion
    source: Checkpoint
    recipe: Recipe
    place: Place


def quantize(
    base: ModelVersion,
    source: Checkpoint,
    recipe: Recipe,
    place: Place,
    stages: Stages,
    *,
    shown: str | None = None,
) -> tuple[ModelVersion, QuantizeResult]:
    """Runs the stage; `shown` names it for people where there are several.

    Raises:
        StageFailed: the worker could not make the variant.
    """
    job = _Job(base=base, source=source, recipe=recipe, place=place)
    result = stages.run(
        "quantize",
        quantize_inputs(base.digest, recipe),
        lambda run: _make(job, run),
        still_valid=lambda r: place.record.versions.find(base.model, str(r["digest"])) is not None,
        shown=shown,
    )
    variant = place.record.versions.get(base.model, int(result["version"]))
    cache.fetch(place.record.versions, variant, place.cache)
    return variant, QuantizeResult.from_json(json.dumps(result["measured"]))


def quantize_inputs(digest: str, recipe: Recipe) -> dict[str, object]:
    """What shapes a variant: the checkpoint, the recipe and the tools' versions."""
    plain = dataclasses.asdict(recipe)
    plain.pop("aim")  # what a variant is for does not change its bytes
    return {"checkpoint": digest, "recipe": plain, "tools": package_versions(TOOLS)}


def recorded_variant(record: Record, model: str, evidence: StageEvidence) -> ModelVersion | None:
    """The variant that a finished stage made, if it is still in the registry."""
    try:
        result = json.loads(record.evidence.read(evidence.run_id, RESULT_FILE))
        return record.versions.find(model, str(result["digest"]))
    except (NotFound, RecordConflict, ValueError, KeyError):
        return None


def _make(job: _Job, run: StageRun) -> Result:
    recipe, base = job.recipe, job.base
    run.params(recipe=recipe.label, parent_version=base.version, parent_digest=base.digest)
    run.text("recipe.yaml", _recipe_yaml(recipe))
    if recipe.aim is Aim.MEMORY:
        run.text("note.md", CPU_NOTE)
    _require_room(job)
    folder = cache.adopt(job.source.manifest, job.source.directory, job.place.cache)
    request = {"source": str(folder), "recipe": dataclasses.asdict(recipe)}
    with worker.scratch(job.place.work, "quantize") as out:
        run.work("pipelines.quantize", request, out)
        measured = QuantizeResult.from_json((out / "result.json").read_text(encoding="utf-8"))
        made = _read_back(out / "checkpoint", recipe)
        variant = job.place.record.versions.register(
            base.model, made, _registration(job, run.run_id)
        )
    run.metrics(_metrics(measured), model_id=variant.model_id)
    run.evidence.table(run.run_id, "weight_error.json", _columns(measured))
    return {
        "version": variant.version,
        "digest": variant.digest,
        "measured": dataclasses.asdict(measured),
        "summary": f"version {variant.version}, {recipe.label}, {measured.size_ratio:.2f} of the "
        f"size, {short(variant.digest)}",
    }


def _require_room(job: _Job) -> None:
    """FP8 is smaller, but by a share that is not known before: embeddings stay as they are."""
    most = 2 * job.source.manifest.size_bytes
    disk.require(job.place.work, most, "the FP8 variant and its copy")


def _read_back(directory: Path, recipe: Recipe) -> Checkpoint:
    """The variant as its own files say it is, which must be what the recipe asked for."""
    try:
        made = checkpoint.inspect(directory)
    except CheckpointInvalid as exc:
        raise StageFailed(f"the quantizer wrote a checkpoint that is not one: {exc}") from exc
    scheme = made.scheme
    found = scheme.label if scheme else "unquantized"
    if scheme is None or found != recipe.label or scheme.activations != "dynamic-token":
        raise StageFailed(
            f"the quantizer was asked for {recipe.label} with dynamic activations per token and "
            f"wrote {found} with {scheme.activations if scheme else 'none'}; it is not used"
        )
    return made


def _registration(job: _Job, run_id: str) -> Registration:
    label = job.recipe.label
    tags = {Tag.PARENT: str(job.base.version), Tag.RECIPE: label, Tag.SCHEME: label}
    if Tag.LINEAGE in job.base.tags:
        tags[Tag.LINEAGE] = job.base.tags[Tag.LINEAGE]
    return Registration(
        name=f"{job.source.directory.resolve().name}-{label}",
        run_id=run_id,
        tags={str(k): v for k, v in tags.items()},
    )


def _recipe_yaml(recipe: Recipe) -> str:
    plain = {**dataclasses.asdict(recipe), "aim": str(recipe.aim), "ignore": list(recipe.ignore)}
    return str(yaml.safe_dump(plain, sort_keys=False))


def _metrics(measured: QuantizeResult) -> dict[str, float]:
    metrics = {
        "size_ratio": measured.size_ratio,
        "variant_bytes": float(measured.variant_bytes),
        "quantize_seconds": measured.seconds,
    }
    for group in measured.groups:
        metrics[f"weight_error/{group.group}/relative"] = group.relative_error
        metrics[f"weight_error/{group.group}/max"] = group.max_error
    return metrics


def _columns(measured: QuantizeResult) -> dict[str, list[object]]:
    return {
        "layer_group": [g.group for g in measured.groups],
        "layers": [g.layers for g in measured.groups],
        "relative_error": [g.relative_error for g in measured.groups],
        "max_error": [g.max_error for g in measured.groups],
    }
