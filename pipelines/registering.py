"""The register stage: a validated checkpoint directory becomes a model version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines import space
from pipelines.errors import ConfigInvalid
from pipelines.place import Place
from pipelines.stage import Result, StageRun, Stages
from registry import cache
from registry.checkpoint import Checkpoint
from registry.errors import NotFound
from registry.model import ModelVersion, Tag, short
from registry.store import Registration
from registry.wording import shown

MIB = 1 << 20
MAX_VERSION = 2**31 - 1  # MLflow's column holds no more


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
        OutOfSpace: there is too little room for the copies.
        RegistryError: MLflow refused or did not answer.
    """
    checkpoint = source.checkpoint
    parent = check_parent(source, place)
    _require_room(source, place)

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
    cache.adopt(checkpoint.manifest, checkpoint.directory, place.cache)
    return _with_what_is_known_now(version, _registration(source, "", parent), place)


def _with_what_is_known_now(
    version: ModelVersion, wanted: Registration, place: Place
) -> ModelVersion:
    """A version that was registered before, without its lineage or parent, gets them."""
    missing = {k: v for k, v in wanted.tags.items() if k not in version.tags}
    if not missing:
        return version
    place.record.versions.tag(version, missing)
    return place.record.versions.get(version.model, version.version)


def _require_room(source: Source, place: Place) -> None:
    known = place.record.versions.find(source.model, source.checkpoint.digest) is not None
    stored = known or source.pointer is not None or not space.is_local(place.record.address)
    wanted = space.copies_of(source.checkpoint, place, stored=stored)
    space.require_room(tuple(wanted), place)


def check_parent(source: Source, place: Place) -> ModelVersion | None:
    """The version that a quantized checkpoint was made from, where one was named.

    Raises:
        ConfigInvalid: there is no such version.
    """
    if source.parent is None:
        return None
    if not 1 <= source.parent <= MAX_VERSION:
        raise ConfigInvalid(f"parent version {shown(source.parent)} must be 1..{MAX_VERSION}")
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
