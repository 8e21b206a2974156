"""Writes down what is in charge now: the ledger entry first, then its mirrors.

The ledger is the truth. Aliases and descriptions are for the eye and for Databricks-style tools;
they are set from the ledger and can be set again from it at any time (`reconcile`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.errors import ConfigInvalid
from registry import ledger
from registry.errors import RecordConflict, RecordUnavailable, RegistryError
from registry.ledger import Kind, LedgerEntry
from registry.model import (
    CANDIDATE,
    CHAMPION,
    PREVIOUS,
    ModelVersion,
    StageEvidence,
    Tag,
    short,
)
from registry.store import Record

SHOWN_ENTRIES = 10
PROMOTION_STAGE = "promotion"
VERBS = {Kind.PROMOTE: "promoted", Kind.ROLLBACK: "rolled back to"}
MAX_REASON_CHARS = 1000
MAX_REASON_SHOWN = 200
MAX_DESCRIPTION_CHARS = 4800  # MLflow's column holds 5000


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Why a version is put in charge."""

    kind: Kind
    policy_digest: str
    evidence_run: str
    actor: str
    reason: str
    now: Callable[[], str]
    """Tells the time when the entry is written: that is when the version is in charge."""
    entries_seen: int
    """Length of the ledger when it was decided; a longer one means that the decision is stale."""


def in_charge(record: Record, model: str) -> int | None:
    """The version that the ledger says serves."""
    entry = ledger.champion(record.ledger.entries(model))
    return entry.version if entry is not None else None


def check_reason(reason: str) -> None:
    """Refuses a reason that would not fit, before anything is done rather than after.

    Raises:
        ConfigInvalid: it is too long.
    """
    if len(reason) > MAX_REASON_CHARS:
        raise ConfigInvalid(
            f"the reason has {len(reason)} characters, at most {MAX_REASON_CHARS} are kept; put "
            "long stories where a link can point to them"
        )


def commit(
    record: Record, version: ModelVersion, change: Change, note: Callable[[str], None]
) -> LedgerEntry:
    """Appends the entry and mirrors it. A version that is champion already is not entered again.

    Once the entry is written nothing is raised any more: mirrors that could not be set are told
    with `note` and set by the next command.

    Raises:
        RecordConflict: another promotion wrote first.
        RecordUnavailable: MLflow did not answer, and the entry is not there.
    """
    entries = record.ledger.entries(version.model)
    now = ledger.champion(entries)
    if now is not None and now.digest == version.digest:
        _mirror(record, version.model, note)
        return now
    if len(entries) != change.entries_seen:
        raise RecordConflict(
            f"what serves {version.model} has changed since this was decided (ledger entry "
            f"{len(entries)} is new); run it again to decide against the version in charge now"
        )
    entry = ledger.following(
        entries,
        kind=change.kind,
        version=version.version,
        digest=version.digest,
        policy_digest=change.policy_digest,
        evidence_run=change.evidence_run,
        actor=change.actor,
        reason=change.reason,
        at=change.now(),
    )
    _append(record, version.model, entry)
    _mirror(record, version.model, note)
    return entry


def _append(record: Record, model: str, entry: LedgerEntry) -> None:
    try:
        record.ledger.append(model, entry)
    except RecordUnavailable:
        # The answer may have been lost after the entry was written; only the ledger can tell.
        if entry not in record.ledger.entries(model):
            raise


def _mirror(record: Record, model: str, note: Callable[[str], None]) -> None:
    try:
        reconcile(record, model)
    except RegistryError as exc:
        note(f"recorded; aliases and description will be set by the next command: {exc}")


def reconcile(record: Record, model: str) -> None:
    """Sets the aliases and the model's description from the ledger."""
    entries = record.ledger.entries(model)
    now, before = ledger.champion(entries), ledger.previous(entries)
    # Whatever was under test is decided once this is called.
    aliases: dict[str, int | None] = {CANDIDATE: None}
    if now is not None:
        aliases[CHAMPION] = now.version
        aliases[PREVIOUS] = before.version if before else None
    record.versions.mirror(model, aliases)
    attempts = record.evidence.recent(model, PROMOTION_STAGE, SHOWN_ENTRIES)
    record.versions.describe(model, None, describe(entries, attempts, record.evidence.url))


def describe(
    entries: Sequence[LedgerEntry],
    attempts: Sequence[StageEvidence],
    url: Callable[[str], str],
) -> str:
    """The model page's Markdown: what serves, why, since when, what came before, what was tried."""
    lines = ["**Nothing serves yet.**"]
    if entries:
        now, before = entries[-1], ledger.previous(entries)
        lines = [
            f"**Serving: version {now.version}** (`{short(now.digest)}`) since {now.at}; "
            f"{VERBS[now.kind]} by {now.actor}.",
            "",
            f"Why: {_cell(now.reason)}. Evidence: [the {now.kind} run]({url(now.evidence_run)})"
            f"{' with its report.html' if now.kind is Kind.PROMOTE else ''}.",
            "",
            f"A rollback goes to version {before.version}."
            if before
            else "There is no earlier version to roll back to.",
            "",
            "What was in charge, newest first (the ledger):",
            "",
        ]
    for entry in reversed(entries[-SHOWN_ENTRIES:]):
        lines.append(
            f"- {entry.seq}. {entry.at} {entry.kind}: version {entry.version} "
            f"(`{short(entry.digest)}`), {_cell(entry.reason)} ([run]({url(entry.evidence_run)}))"
        )
    refused = [a for a in attempts if a.tags.get(Tag.ENDING) == "refused"]
    if refused:
        lines += ["", "Refused lately, newest first:", ""]
    lines += [
        f"- version {a.params.get('candidate_version')}: "
        f"{_cell(a.params.get('verdict_reason', ''))} ([run]({url(a.run_id)}))"
        for a in refused
    ]
    return "\n".join(lines)[:MAX_DESCRIPTION_CHARS] + "\n"


def _cell(text: str) -> str:
    """Text for a Markdown table: one line, no column separators, not endless."""
    plain = " ".join(text.replace("|", "/").split())
    return plain if len(plain) <= MAX_REASON_SHOWN else plain[: MAX_REASON_SHOWN - 1] + "…"
