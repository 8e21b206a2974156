"""How much room a promotion needs on this machine's disk, and whether it is there.

The one idea: every copy that will be made is counted before the first is begun, and those that
exist already are not: a promotion that goes on needs less than one that begins.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines import variants
from pipelines.config import PromotionConfig
from pipelines.place import Place
from pipelines.stage import inputs_digest
from registry import cache, disk
from registry.checkpoint import Checkpoint
from registry.model import ModelVersion
from registry.wording import size

LOCAL_HOSTS = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """One copy, and how large it may become."""

    what: str
    size_bytes: int


def require(checkpoint: Checkpoint, config: PromotionConfig, place: Place) -> None:
    """Refuses a promotion for which the disk has too little room, before anything is begun.

    Raises:
        OutOfSpace: with what is needed for what, and what is free.
        RegistryError: the record did not answer.
    """
    require_room(tuple(needs(checkpoint, config, place)), place)


def require_room(wanted: tuple[Need, ...], place: Place) -> None:
    """Compares needs with what is free.

    Raises:
        OutOfSpace: less is free.
    """
    if wanted:
        parts = ", ".join(f"{need.what} {size(need.size_bytes)}" for need in wanted)
        total = sum(need.size_bytes for need in wanted)
        disk.require(place.cache, total, f"the copies of the checkpoint ({parts})")


def needs(checkpoint: Checkpoint, config: PromotionConfig, place: Place) -> Iterator[Need]:
    """The copies that a promotion will still make on this machine."""
    record, count = place.record, checkpoint.manifest.size_bytes
    base = record.versions.find(config.model, checkpoint.digest)
    stored_here = is_local(record.address) and config.pointer is None
    yield from copies_of(checkpoint, place, stored=base is not None or not stored_here)
    if (
        checkpoint.scheme is None
        and config.recipe.enabled
        and _variant(base, config, place) is None
    ):
        # FP8 is smaller, but not by a share that is known before: embeddings stay as they are.
        yield Need(what="variant while it is made", size_bytes=count)
        yield Need(what="variant in the record or the cache", size_bytes=count)


def copies_of(checkpoint: Checkpoint, place: Place, *, stored: bool) -> Iterator[Need]:
    """The copies that registering makes."""
    count = checkpoint.manifest.size_bytes
    if not cache.path_for(place.cache, checkpoint.digest).is_dir():
        yield Need(what="cache", size_bytes=count)
    if not stored:
        yield Need(what="record", size_bytes=count)


def is_local(address: str) -> bool:
    """Whether a record keeps its files on this machine, as far as its address tells."""
    return urllib.parse.urlsplit(address).hostname in LOCAL_HOSTS


def _variant(
    base: ModelVersion | None, config: PromotionConfig, place: Place
) -> ModelVersion | None:
    """The variant that was made before, if the record has it."""
    if base is None:
        return None
    digest = inputs_digest("quantize", variants.quantize_inputs(base.digest, config.recipe))
    found = place.record.evidence.find(config.model, "quantize", digest)
    return variants.recorded_variant(place.record, config.model, found) if found else None
