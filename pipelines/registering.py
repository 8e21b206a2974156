"""The register stage: a validated checkpoint directory becomes a model version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import ConfigInvalid
from pipelines.place import Place
from pipelines.stage import Result, StageRun, Stages
from registry import cache
from registry.checkpoint import Checkpoint
from registry.errors import NotFound
from registry.model import ModelVersion, Tag, short
from registry.store import Registration

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The checkpoint to promote and what is known of where it comes from."""

    checkpoint: Checkpoint
    model: str
    lineage: str | None = None
    """Link to or id of the training run."""
    parent: int | None = None
    """Version that an already quantized checkpoint was made from."""
    pointer: str | None = None
    """Object-store URI that already holds the files."""


def register(source: Source, place: Place, stages: Stages) -> ModelVersion:
    """Runs the stage; the same checkpoint again gives the same version.

    Raises:
        ConfigInvalid: the named parent version does not exist.
        RegistryError: MLflow refused or did not answer.
    """
    checkpoint = source.checkpoint
    parent = _parent(source, place)

    def body(run: StageRun) -> Result:
        run.params(**_facts(checkpoint))
        run.text("manifest.json", checkpoint.manifest.to_json())
        version = place.record.versions.register(
            source.model, checkpoint, _registration(source, run.run_id, parent)
        )
        scheme = checkpoint.scheme.label if checkpoint.scheme else dtype_label(checkpoint)
        place.record.versions.describe(
            source.model,
            version.version,
            f"Checkpoint {checkpoint.directory.resolve().name} as it was given ({scheme}). What is "
            "judged and served is the version that the gate's summary names.\n",
        )
        return {
            "version": version.version,
            "summary": f"version {version.version}, {checkpoint.parameters / 1e6:.2f} M "
            f"parameters, {checkpoint.manifest.size_bytes / MIB:.1f} MiB, {short(version.digest)}",
        }

    inputs = {"checkpoint": checkpoint.digest, "pointer": source.pointer, "parent": source.parent}
    result = stages.run(
        "register",
        inputs,
        body,
        still_valid=lambda r: (
            place.record.versions.find(source.model, checkpoint.digest) is not None
        ),
    )
    version = place.record.versions.get(source.model, int(result["version"]))
    wanted = _registration(source, "", parent).tags
    missing = {k: v for k, v in wanted.items() if k not in version.tags}
    if missing:  # it was registered before, without its lineage or parent
        place.record.versions.tag(version, missing)
        version = place.record.versions.get(source.model, version.version)
    cache.adopt(checkpoint.manifest, checkpoint.directory, place.cache)
    return version


def _parent(source: Source, place: Place) -> ModelVersion | None:
    if source.parent is None:
        return None
    try:
        return place.record.versions.get(source.model, source.parent)
    except NotFound as exc:
        raise ConfigInvalid(
            f"parent version {source.parent} of {source.model} does not exist; give the version "
            "that the quantized checkpoint was made from, or leave --parent out"
        ) from exc


def _registration(source: Source, run_id: str, parent: ModelVersion | None) -> Registration:
    scheme = source.checkpoint.scheme
    tags = {Tag.SCHEME: scheme.label if scheme else dtype_label(source.checkpoint)}
    if parent is not None:
        tags[Tag.PARENT] = str(parent.version)
    if source.lineage is not None:
        tags[Tag.LINEAGE] = source.lineage
    return Registration(
        name=source.checkpoint.directory.resolve().name,
        run_id=run_id,
        tags={str(k): v for k, v in tags.items()},
        pointer=source.pointer,
    )


def dtype_label(checkpoint: Checkpoint) -> str:
    """Element types of plain weights, such as `bf16`."""
    return "+".join(d.lower() for d in checkpoint.weight_dtypes)


def _facts(checkpoint: Checkpoint) -> dict[str, object]:
    scheme = checkpoint.scheme
    return {
        "checkpoint": str(Path(checkpoint.directory).name),
        "checkpoint_digest": checkpoint.digest,
        "architecture": checkpoint.architecture,
        "parameters": checkpoint.parameters,
        "size_bytes": checkpoint.manifest.size_bytes,
        "files": len(checkpoint.manifest.files),
        "scheme": scheme.label if scheme else dtype_label(checkpoint),
        "prompt_template": checkpoint.manifest.prompt.template,
        "max_tokens": checkpoint.manifest.generation.max_tokens,
        "temperature": checkpoint.manifest.generation.temperature,
    }
