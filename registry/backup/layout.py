"""How a backup file is laid out: a zip of a few named forms, with an index that hashes them all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

FORMAT = "liftlock/backup/v1"
INDEX = "backup.json"
MAX_MEMBERS = 200_000
MAX_MEMBER_BYTES = 16 << 20
MAX_INDEX_BYTES = 64 << 20
MAX_TOTAL_BYTES = 4 << 30
MAX_TEXT_BYTES = 8 << 20
"""Largest text artifact that is taken into a backup."""
TEXT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.(?:yaml|json|html|md|svg|txt)")
_MODEL = r"models/(?P<model>[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)/"
MEMBER = re.compile(
    rf"{_MODEL}(?:model\.json|ledger\.json|ledger\.jsonl|versions/[1-9][0-9]{{0,8}}\.json"
    rf"|runs/[A-Za-z0-9-]{{1,64}}(?:\.json|/{TEXT_NAME.pattern}))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A member as the index names it."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """What is in a backup, and where it comes from."""

    made_at: str
    source: str
    """Address of the tracking server that was read."""
    members: Mapping[str, Entry]
    models: tuple[str, ...]
    problems: tuple[str, ...] = ()
    """What could not be taken, one sentence each."""
    format: str = FORMAT
