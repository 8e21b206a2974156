"""What a backup holds of one model, as data that comes from outside when it is read back.

Ledger items are kept as the very text that is stored, so that what is restored hashes the same.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from registry.errors import BackupInvalid

T = TypeVar("T")


class RestoredTag(enum.StrEnum):
    """Tags that a restore leaves; part of the public surface (docs/reference.md)."""

    RUN = "liftlock.restored.run"
    """On a run: the id that ledger entries and tags know it by."""
    MODEL = "liftlock.restored.model"
    """On a logged model: the id it had."""
    BACKUP = "liftlock.restored.backup"
    """On a registered model: the digest of the backup it came from."""
    UNFINISHED = "liftlock.restored.unfinished"
    """On a registered model while it is being restored: the same, and the highest version number
    used up so far."""


PREFIX = "liftlock.restored."


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """A registered model."""

    model: str
    description: str
    tags: Mapping[str, str]
    aliases: Mapping[str, int]
    left_out: Mapping[int, str] = field(default_factory=dict)
    """Versions that could not be backed up, with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerHead:
    """The run that a ledger lies on."""

    run_id: str = ""
    """Empty where there is no ledger."""
    started_at_ms: int = 0
    tags: Mapping[str, str] = field(default_factory=dict)
    """The owners' last signs of life."""
    keys: tuple[str, ...] = ()
    """Parameter names of the items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerFacts:
    """A ledger, oldest item first."""

    head: LedgerHead
    items: tuple[str, ...]
    """Stored texts, in the order of `head.keys`."""

    @property
    def params(self) -> dict[str, str]:
        """As the record stores it."""
        return dict(zip(self.head.keys, self.items, strict=True))

    def values(self, name: str) -> list[Any]:
        """One field of every item that has it, oldest first."""
        parsed = [json.loads(item) for item in self.items]
        return [p[name] for p in parsed if isinstance(p, dict) and name in p]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedFacts:
    """The logged model behind a version."""

    model_id: str
    name: str
    model_type: str | None
    params: Mapping[str, str]
    tags: Mapping[str, str]
    mlmodel: str
    """Its MLmodel file: signature and flavor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionFacts:
    """A version: everything but the weights, and where those are."""

    version: int
    tags: Mapping[str, str]
    description: str
    run_id: str | None
    """The run that registered it."""
    manifest: str
    """The stored text; the digest in it covers every file."""
    storage: str
    """URI that the files lie under."""
    logged: LoggedFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """A run that is evidence, under the id that the ledger knows it by."""

    run_id: str
    name: str
    parent: str | None
    status: str
    started_at_ms: int
    ended_at_ms: int | None
    params: Mapping[str, str]
    tags: Mapping[str, str]
    metrics: Mapping[str, float]
    texts: tuple[str, ...]
    """Names of the text artifacts that lie beside this in the backup."""


def to_json(facts: Any) -> bytes:
    """The form in the archive."""
    return json.dumps(dataclasses.asdict(facts), indent=1, sort_keys=True).encode()


def parse(kind: type[T], data: bytes, *, member: str) -> T:
    """Reads what `to_json` wrote.

    Raises:
        BackupInvalid: it is something else; names the member and the fault.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(kind).validate_json(data, strict=True)
    except ValidationError as exc:
        faults = [f"{'.'.join(map(str, e['loc'])) or 'it'}: {e['msg']}" for e in exc.errors()]
        raise BackupInvalid(
            f"{member} in the backup does not hold what it must: {'; '.join(faults[:3])}"
        ) from exc
