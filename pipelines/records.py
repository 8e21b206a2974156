"""Writes down what is in charge now: the ledger entry first, then its mirrors.

The ledger is the truth. Aliases and descriptions are for the eye and for Databricks-style tools;
they are set from the ledger and can be set again from it at any time (`reconcile`).
"""

from __future__ import annotations

from dataclasses import dataclass

from registry import ledger
from registry.ledger import Kind, LedgerEntry
from registry.model import CANDIDATE, CHAMPION, PREVIOUS, ModelVersion, short
from registry.store import Record

SHOWN_ENTRIES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Why a version is put in charge."""

    kind: Kind
    policy_digest: str
    evidence_run: str
    actor: str
    reason: str
    at: str


def commit(record: Record, version: ModelVersion, change: Change) -> LedgerEntry:
    """Appends the entry and mirrors it. A version that is champion already is not entered again.

    Raises:
        RecordConflict: another promotion wrote first.
        RecordUnavailable: MLflow did not answer.
    """
    entries = record.ledger.entries(version.model)
    now = ledger.champion(entries)
    if now is not None and now.digest == version.digest:
        return now
    entry = ledger.following(
        entries,
        kind=change.kind,
        version=version.version,
        digest=version.digest,
        policy_digest=change.policy_digest,
        evidence_run=change.evidence_run,
        actor=change.actor,
        reason=change.reason,
        at=change.at,
    )
    record.ledger.append(version.model, entry)
    reconcile(record, version.model)
    return entry


def reconcile(record: Record, model: str) -> None:
    """Sets the aliases and the model's description from the ledger."""
    entries = record.ledger.entries(model)
    now, before = ledger.champion(entries), ledger.previous(entries)
    if now is None:
        return
    aliases: dict[str, int | None] = {CHAMPION: now.version}
    aliases[PREVIOUS] = before.version if before else None
    aliases[CANDIDATE] = None  # whatever was under test is decided once something is put in charge
    record.versions.mirror(model, aliases)
    evidence = record.evidence.url(now.evidence_run)
    record.versions.describe(model, None, describe(model, entries, evidence))


def describe(model: str, entries: tuple[LedgerEntry, ...], evidence_url: str) -> str:
    """The model page's Markdown: what serves, why, since when, what came before."""
    now, before = entries[-1], ledger.previous(entries)
    lines = [
        f"**Serving: version {now.version}** (`{short(now.digest)}`) since {now.at}, "
        f"{now.kind} by {now.actor}.",
        "",
        f"Why: {now.reason}. Evidence: [run {now.evidence_run}]({evidence_url}), see its "
        "report.html.",
        "",
        f"Rollback goes to version {before.version}." if before else "Nothing to roll back to yet.",
        "",
        "| # | when | kind | version | checkpoint | reason | evidence run |",
        "|---|---|---|---|---|---|---|",
    ]
    for entry in reversed(entries[-SHOWN_ENTRIES:]):
        lines.append(
            f"| {entry.seq} | {entry.at} | {entry.kind} | {entry.version} | "
            f"`{short(entry.digest)}` | {entry.reason} | `{entry.evidence_run[:8]}` |"
        )
    return "\n".join(lines) + f"\n\nSource: the ledger of {model} (experiment {model}-ledger).\n"
