"""The values of the record: a registered version, a stage's evidence, the names used in MLflow."""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from registry.manifest import Manifest

CHAMPION, PREVIOUS, CANDIDATE = "champion", "previous", "candidate"


class Tag(enum.StrEnum):
    """Tag names on model versions and runs; part of the public surface (docs/reference.md)."""

    DIGEST = "liftlock.checkpoint.digest"
    PARENT = "liftlock.parent.version"
    RECIPE = "liftlock.recipe"
    SCHEME = "liftlock.scheme"
    STAGE = "liftlock.stage"
    INPUTS = "liftlock.inputs.digest"
    GATE_STATUS = "liftlock.gate.status"
    GATE_RUN = "liftlock.gate.run_id"
    POLICY_DIGEST = "liftlock.policy.digest"
    ENDING = "liftlock.ending"
    ERROR = "liftlock.error"
    JOURNAL = "liftlock.journal.id"
    LEDGER = "liftlock.ledger"
    BEAT = "liftlock.beat"
    RUNTIME = "liftlock.runtime.digest"
    STORAGE = "liftlock.storage"
    LINEAGE = "liftlock.lineage.run"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelVersion:
    """One registered checkpoint."""

    model: str
    version: int
    digest: str
    source: str
    """Where the files are, as MLflow says it: `models:/m-…` or an object-store URI."""
    model_id: str | None
    """The LoggedModel behind it, for metrics that should show on its page."""
    manifest: Manifest
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def scheme(self) -> str:
        """The quantization label, `bf16` style dtype names for plain weights."""
        return self.tags.get(Tag.SCHEME, "unknown")

    @property
    def parent(self) -> int | None:
        """The version this one was quantized from."""
        return int(self.tags[Tag.PARENT]) if Tag.PARENT in self.tags else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEvidence:
    """A finished stage as the record holds it: found again by the digest of all its inputs."""

    run_id: str
    stage: str
    inputs_digest: str
    params: Mapping[str, str]
    metrics: Mapping[str, float]
    tags: Mapping[str, str]
    started_at_ms: int
    ended_at_ms: int


INTERRUPTED = "interrupted"
"""Value of the error tag on runs whose owner died."""

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")


def check_model_name(name: str) -> str:
    """Model names go into URLs, cluster and application names, so they are kept plain.

    Raises:
        ValueError: not lowercase letters, digits and inner hyphens, at most 63.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"model name {name!r} must be 1-63 lowercase letters, digits or inner hyphens, such as "
            "grammar or grammar-de"
        )
    return name


def content_digest(content: Any) -> str:
    """`sha256:…` of canonical JSON; the identity of inputs, policies and settings."""
    canonical = json.dumps(content, sort_keys=True, separators=(",", ":"), default=str)
    return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()


def short(digest: str) -> str:
    """The first 12 hex digits, for people."""
    return digest.removeprefix("sha256:")[:12]
