"""Writes down what is in charge now: the ledger entry first, then its mirrors.

The ledger is the truth. Aliases and descriptions are for the eye and for Databricks-style tools;
they are set from the ledger and can be set again from it at any time (`reconcile`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pipelines.errors import ConfigInvalid, ModelFrozen
from pipelines.ownership import fenced
from registry.appending import append_following
from registry.errors import RecordConflict, RegistryError
from registry.ledger import Kind, LedgerEntry, Log, Mark, MarkKind, Waiver
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
from registry.wording import check_line

SHOWN_ENTRIES = 10
PROMOTION_STAGE = "promotion"
VERBS = {
    Kind.PROMOTE: "promoted",
    Kind.ROLLBACK: "rolled back to",
    Kind.OVERRIDE: "let through despite a gate",
}
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
    """Entries in the ledger when it was decided; a longer one means that the decision is stale."""
    epoch: int
    """Of the owner that decided."""
    runtime_digest: str = ""
    waiver: Waiver | None = None


def in_charge(record: Record, model: str) -> int | None:
    """The version that the ledger says serves."""
    entry = record.ledger.read(model).champion
    return entry.version if entry is not None else None


def check_reason(reason: str) -> None:
    """Refuses a reason that would not fit, before anything is done rather than after.

    Raises:
        ConfigInvalid: it is too long, or no line of text.
    """
    try:
        check_line("the reason", reason, MAX_REASON_CHARS)
    except ValueError as exc:
        raise ConfigInvalid(f"{exc}; put long stories where a link can point to them") from exc


def commit(
    record: Record, version: ModelVersion, change: Change, note: Callable[[str], None]
) -> LedgerEntry:
    """Appends the entry and mirrors it. A version that is champion already is not entered again.

    Once the entry is written nothing is raised any more: mirrors that could not be set are told
    with `note` and set by the next command.

    Raises:
        Fenced: another owner has taken over since.
        ModelFrozen: somebody froze the model meanwhile.
        RecordConflict: what serves has changed since it was decided.
        RecordUnavailable: MLflow did not answer, and the entry is not there.
    """

    def following(log: Log) -> LedgerEntry | None:
        refuse_overtaken(log, version.model, change)
        now = log.champion
        if now is not None and now.version == version.version:
            return None
        return log.entry(
            change.kind,
            version=version.version,
            digest=version.digest,
            policy_digest=change.policy_digest,
            evidence_run=record.evidence.resolve(change.evidence_run),
            actor=change.actor,
            reason=change.reason,
            at=change.now(),
            epoch=change.epoch,
            runtime_digest=change.runtime_digest,
            waiver=change.waiver,
        )

    entry = append_following(record.ledger, version.model, following)
    _mirror(record, version.model, note)
    if isinstance(entry, LedgerEntry):
        return entry
    now = record.ledger.read(version.model).champion
    assert now is not None, "it is in charge already"
    return now


def refuse_overtaken(log: Log, model: str, change: Change) -> None:
    """Refuses a decision that others' items have made void.

    Raises:
        Fenced, ModelFrozen, RecordConflict: see `commit`.
    """
    if log.epoch > change.epoch:
        newest = log.claim
        if newest is not None and newest.epoch > change.epoch:
            raise fenced(model, newest)
        raise RecordConflict(f"{model} was rolled back without the record meanwhile; look at it")
    if change.kind is not Kind.ROLLBACK:  # going back by hand is what a freeze must not prevent
        refuse_frozen(log, model)
    if len(log.entries) != change.entries_seen:
        raise RecordConflict(
            f"what serves {model} has changed since this was decided (ledger entry "
            f"{log.entries[-1].seq} is new); run it again to decide against the version in charge"
        )


def refuse_frozen(log: Log, model: str) -> None:
    """Refuses whatever a freeze stops.

    Raises:
        ModelFrozen: the model is frozen.
    """
    frozen = log.frozen
    if frozen is not None:
        raise ModelFrozen(
            f"{model} is frozen by {frozen.actor} since {frozen.at}: {frozen.reason}. Nothing was "
            f"changed; `liftlock thaw {model}` lets promotions go on"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """Who freezes or thaws, why, and when."""

    actor: str
    reason: str
    now: Callable[[], str]


def freeze(record: Record, model: str, said: Said) -> Mark:
    """Stops promotions and automatic actions; a frozen model stays as it was frozen first."""
    item = _set_frozen(record, model, said, MarkKind.FREEZE)
    frozen = item or record.ledger.read(model).frozen
    if frozen is None:
        raise RecordConflict(f"somebody thawed {model} in the same moment; look at its status")
    return frozen


def thaw(record: Record, model: str, said: Said) -> Mark | None:
    """Lets them go on; None where the model was not frozen."""
    if record.ledger.read(model).frozen is None:
        return None
    return _set_frozen(record, model, said, MarkKind.THAW)


def _set_frozen(record: Record, model: str, said: Said, kind: MarkKind) -> Mark | None:
    """The mark, None where the model is so already."""
    check_reason(said.reason)
    if not said.reason.strip():
        raise ConfigInvalid("a reason is needed: it is what others read when they are refused")

    def following(log: Log) -> Mark | None:
        if (log.frozen is not None) is (kind is MarkKind.FREEZE):
            return None
        return log.mark(kind, actor=said.actor, reason=said.reason, at=said.now())

    item = append_following(record.ledger, model, following)
    return item if isinstance(item, Mark) else None


def _mirror(record: Record, model: str, note: Callable[[str], None]) -> None:
    try:
        reconcile(record, model)
    except RegistryError as exc:
        note(f"recorded; aliases and description will be set by the next command: {exc}")


def reconcile(record: Record, model: str) -> None:
    """Sets the aliases and the model's description from the ledger."""
    log = record.ledger.read(model)
    now, before = log.champion, log.previous
    # Whatever was under test is decided once this is called.
    aliases: dict[str, int | None] = {CANDIDATE: None}
    if now is not None:
        aliases[CHAMPION] = now.version
        aliases[PREVIOUS] = before.version if before else None
    record.versions.mirror(model, aliases)
    _describe(record, model, log)


def redescribe(record: Record, model: str) -> None:
    """Sets the model's description from the ledger."""
    _describe(record, model, record.ledger.read(model))


def _describe(record: Record, model: str, log: Log) -> None:
    attempts = record.evidence.recent(model, PROMOTION_STAGE, SHOWN_ENTRIES)
    record.versions.describe(model, None, describe(log, attempts, record.evidence.url))


def describe(
    log: Log,
    attempts: Sequence[StageEvidence],
    url: Callable[[str], str],
) -> str:
    """The model page's Markdown: what serves, why, since when, what came before, what was tried."""
    lines = ["**Nothing serves yet.**"]
    entries, now, before, frozen = log.entries, log.champion, log.previous, log.frozen
    if now is not None:
        lines = [
            f"**Serving: version {now.version}** (`{short(now.digest)}`) since {now.at}; "
            f"{VERBS[now.kind]} by {now.actor}.",
            "",
            f"Why: {_cell(now.reason)}. Evidence: [the {now.kind} run]({url(now.evidence_run)})"
            f"{' with its report.html' if now.kind is not Kind.ROLLBACK else ''}.",
            *_waived(now),
            "",
            f"A rollback goes to version {before.version}."
            if before
            else "There is no earlier version to roll back to.",
            "",
            "What was in charge, newest first (the ledger):",
            "",
        ]
    if frozen is not None:
        told = f"**Frozen** by {frozen.actor} since {frozen.at}: {_cell(frozen.reason)}"
        lines = [told, "", *lines]
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


def _waived(entry: LedgerEntry) -> list[str]:
    waiver = entry.waiver
    if waiver is None:
        return []
    return [
        "",
        f"**Waiver** until {waiver.expires} by {waiver.by} for {', '.join(waiver.gates)}: "
        f"{_cell(waiver.reason)}",
    ]


def _cell(text: str) -> str:
    """Text for a Markdown table: one line, no column separators, not endless."""
    plain = " ".join(text.replace("|", "/").split())
    return plain if len(plain) <= MAX_REASON_SHOWN else plain[: MAX_REASON_SHOWN - 1] + "…"


def others(entries: tuple[LedgerEntry, ...], now: int) -> str:
    """What could be named with --to, as a sentence; empty for nothing."""
    served = sorted({e.version for e in entries} - {now})
    return f". Versions {served} served too; name one with --to" if served else ""
