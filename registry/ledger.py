"""The promotion ledger: an append-only, hash-chained sequence of what was put in charge, and why.

Each entry is one set-once parameter of one MLflow run per model. MLflow's primary key on
(run, key) makes writing a sequence number an atomic claim: of two writers that both want number
17 exactly one wins, the other gets an error and has changed nothing. Aliases and tags only mirror
the ledger and are set from it. Everything here is pure; registry.mlflow_store does the writing.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from registry.errors import RecordConflict

KEY_PREFIX = "promotion."
MAX_ENTRY_CHARS = 6000  # MLflow's limit on a parameter value
GENESIS = "0" * 64


class Kind(enum.StrEnum):
    """Why an entry was written."""

    PROMOTE = "promote"
    """A candidate passed its gates and answers."""
    ROLLBACK = "rollback"
    """An earlier champion was put back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One change of what serves."""

    seq: int
    kind: Kind
    version: int
    digest: str
    policy_digest: str
    evidence_run: str
    """The promotion run that justifies it."""
    actor: str
    reason: str
    at: str
    """UTC, ISO 8601, to the second."""
    previous_hash: str

    @property
    def key(self) -> str:
        """The parameter name: zero-padded, so that the UI sorts it."""
        return f"{KEY_PREFIX}{self.seq:06d}"

    @property
    def hash(self) -> str:
        """sha256 of the canonical entry, what the next entry's `previous_hash` must be."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """Canonical JSON, the stored form.

        Raises:
            ValueError: longer than a parameter may be.
        """
        text = json.dumps(dataclasses.asdict(self), sort_keys=True, separators=(",", ":"))
        if len(text) > MAX_ENTRY_CHARS:
            raise ValueError(
                f"ledger entry is {len(text)} characters, at most {MAX_ENTRY_CHARS} fit; "
                "shorten the reason"
            )
        return text


def parse(params: Mapping[str, str]) -> tuple[LedgerEntry, ...]:
    """Reads a run's parameters into a verified ledger, oldest first.

    Raises:
        RecordConflict: a number is missing, an entry is unreadable, or the hash chain is broken.
    """
    entries = [_entry(key, params[key]) for key in sorted(params) if key.startswith(KEY_PREFIX)]
    verify(entries)
    return tuple(entries)


def _entry(key: str, text: str) -> LedgerEntry:
    try:
        raw = json.loads(text)
        entry = LedgerEntry(**{**raw, "kind": Kind(raw["kind"])})
    except (ValueError, TypeError, KeyError) as exc:
        raise RecordConflict(f"ledger entry {key} cannot be read: {exc}") from exc
    if entry.key != key:
        raise RecordConflict(f"ledger entry {key} claims to be number {entry.seq}")
    return entry


def verify(entries: Sequence[LedgerEntry]) -> None:
    """Checks that numbers run 1, 2, 3, … and that each entry hashes the one before.

    Raises:
        RecordConflict: with the first entry that does not fit.
    """
    expected = GENESIS
    for number, entry in enumerate(entries, start=1):
        if entry.seq != number:
            raise RecordConflict(f"ledger entry {number} is missing; found {entry.seq} instead")
        if entry.previous_hash != expected:
            raise RecordConflict(
                f"ledger entry {number} does not continue entry {number - 1}: it was altered or "
                "written by something else"
            )
        expected = entry.hash


def following(
    entries: Sequence[LedgerEntry], *, kind: Kind, version: int, digest: str, policy_digest: str,
    evidence_run: str, actor: str, reason: str, at: str,
) -> LedgerEntry:  # fmt: skip
    """The entry that would continue a ledger."""
    return LedgerEntry(
        seq=len(entries) + 1,
        kind=kind,
        version=version,
        digest=digest,
        policy_digest=policy_digest,
        evidence_run=evidence_run,
        actor=actor,
        reason=reason,
        at=at,
        previous_hash=entries[-1].hash if entries else GENESIS,
    )


def champion(entries: Sequence[LedgerEntry]) -> LedgerEntry | None:
    """What should be serving: the last entry."""
    return entries[-1] if entries else None


def previous(entries: Sequence[LedgerEntry]) -> LedgerEntry | None:
    """What a rollback returns to: what was in charge before the current champion took over.

    A rollback steps down a stack: after promote 1, 2, 3 and one rollback (to 2), the next one
    goes to 1, not back to 3, which was just found wanting.
    """
    stack: list[LedgerEntry] = []
    for entry in entries:
        below = [e.digest for e in stack]
        if entry.kind is Kind.ROLLBACK and entry.digest in below:
            del stack[below.index(entry.digest) + 1 :]
        elif not stack or stack[-1].digest != entry.digest:
            stack.append(entry)
    return stack[-2] if len(stack) > 1 else None
