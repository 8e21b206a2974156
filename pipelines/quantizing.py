"""Quantizing without a gate: a checkpoint and its one FP8 variant are registered, none is served.

The stages are the promotion's, so a promotion of the same checkpoint takes them from the record.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from pipelines import ownership, recovery, registering, space, variants
from pipelines.config import PromotionConfig
from pipelines.errors import ConfigInvalid
from pipelines.ownership import Owned, Timing
from pipelines.place import Place
from pipelines.quantize import QuantizeResult
from pipelines.registering import Source
from pipelines.stage import Reuse, Stages, evidence_closed
from pipelines.sweep_plan import Effort
from registry.checkpoint import Checkpoint
from registry.engine_settings import DeviceKind
from registry.model import ModelVersion, Tag

VARIANT_STAGE = "variant"
"""Tag of runs that are about one variant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to quantize, and how.

    Raises:
        ConfigInvalid: the checkpoint is quantized already.
    """

    checkpoint: Checkpoint
    config: PromotionConfig
    """Its recipe's `aim` says what is picked, its `ignore` what no variant quantizes."""
    config_folder: Path | None = None
    data_dir: Path | None = None
    effort: Effort = field(default_factory=Effort)
    """How much a sweep measures."""

    def __post_init__(self) -> None:
        scheme = self.checkpoint.scheme
        if scheme is not None:
            raise ConfigInvalid(
                f"{self.checkpoint.directory} is {scheme.label} already; quantize the checkpoint "
                "that it was made from"
            )

    @property
    def name(self) -> str:
        """For people."""
        return self.checkpoint.directory.resolve().name

    @property
    def on_cpu(self) -> bool:
        """Whether engines compute on a CPU."""
        return self.config.resources.engine.device is DeviceKind.CPU


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One variant, from the settings' recipe."""

    version: ModelVersion
    measured: QuantizeResult
    run_url: str


def quantize(request: Request, place: Place, *, timing: Timing | None = None) -> Made:
    """Makes and registers the one variant of the settings' recipe.

    Raises:
        RegistryError, StageFailed, ConfigInvalid: no variant was made.
        OwnedByAnother: another command works on this model.
    """
    model, recipe = request.config.model, request.config.recipe
    if not recipe.enabled:
        raise ConfigInvalid("recipe.enabled is false in the settings, so there is none to make")
    space.require(request.checkpoint, request.config, place)
    with ownership.owned(place, model, f"quantize {request.name}", timing=timing) as mine:
        recovery.tidy(place, mine)
        evidence = place.record.evidence
        tags = {str(Tag.STAGE): VARIANT_STAGE}
        run_id = evidence.open(model, f"quantize {request.name}", tags, None)
        with evidence_closed(evidence, run_id):
            stages = stages_of(request, place, mine, run_id)
            base = registering.register(source_of(request), place, stages)
            version, measured = variants.quantize(base, request.checkpoint, recipe, place, stages)
        return Made(version=version, measured=measured, run_url=evidence.url(run_id))


def source_of(request: Request) -> Source:
    """The checkpoint as it is registered."""
    return Source(
        checkpoint=request.checkpoint, model=request.config.model, pointer=request.config.pointer
    )


def stages_of(request: Request, place: Place, mine: Owned, run_id: str) -> Stages:
    """The stages under a run; evidence that a promotion would find too old is too old here."""
    return Stages(
        model=request.config.model,
        run_id=run_id,
        evidence=place.record.evidence,
        progress=place.progress,
        reuse=Reuse.within(request.config.evidence_max_age_days, place.now()),
        enter=mine.enter,
    )
