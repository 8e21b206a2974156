"""Enters kept writes into the record: in order, each as often as it takes, none twice.

A write that MLflow refuses is put aside and told, and the rest goes on; the run it belongs to ends
as failed, so that incomplete evidence is never taken for whole. While MLflow is away, or lets
nothing through at all, everything stays where it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from registry.errors import (
    NotFound,
    RecordConflict,
    RecordDenied,
    RecordRefused,
    RecordUnavailable,
)
from registry.model import Tag
from registry.pending import PROVISIONAL, Entry, Pending
from registry.store import Evidence

SPOILED = "incomplete: MLflow refused a part of this evidence; it is in aside.jsonl of the journal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entered:
    """What came of entering."""

    count: int
    """Writes that wait no more."""
    away: RecordUnavailable | None
    """Why it stopped, where MLflow went away before all were entered."""


def enter_all(pending: Pending, evidence: Evidence, note: Callable[[str], None]) -> Entered:
    """Enters what waits.

    Raises:
        RecordDenied: MLflow lets nothing through.
        JournalBroken: the journal cannot be read or written.
    """
    count = 0
    with pending.entering() as mine:
        waiting = pending.waiting() if mine else []
        try:
            while waiting:
                _enter_or_put_aside(waiting[0], pending, evidence, note)
                if len(waiting) == 1:
                    _drop_doubles(pending, evidence)
                pending.mark_first()
                count += 1
                waiting = pending.waiting()
        except RecordUnavailable as exc:
            return Entered(count=count, away=exc)
    return Entered(count=count, away=None)


def enter(entry: Entry, pending: Pending, evidence: Evidence) -> None:
    """Does one write. Repeating it changes nothing more."""
    if entry["op"] == "open":
        _open(entry, pending, evidence)
        return
    _write(pending.created(str(entry["run"])), pending.translate(entry), pending, evidence)


def _write(run: str, entry: dict[str, Any], pending: Pending, evidence: Evidence) -> None:
    match entry["op"]:
        case "log":
            evidence.log(
                run,
                params=entry["params"],
                metrics=entry["metrics"],
                model_id=entry["model_id"],
                at_ms=entry["at_ms"],
            )
        case "text":
            evidence.text(run, entry["name"], entry["content"])
        case "table":
            evidence.table(run, entry["name"], dict(entry["columns"]))
        case "label":
            evidence.label(run, entry["tags"])
        case "close":
            spoiled = pending.spoiled(run)
            tags = {str(Tag.ERROR): SPOILED, **entry["tags"]} if spoiled else entry["tags"]
            failed = bool(entry["failed"]) or spoiled
            evidence.close(run, failed=failed, tags=tags, at_ms=entry["at_ms"])


def _open(entry: Entry, pending: Pending, evidence: Evidence) -> None:
    run, journal_id = str(entry["run"]), journal_id_of(str(entry["run"]))
    if pending.run_of(run) is not None:
        return
    parent = pending.created(entry["parent"]) if entry["parent"] is not None else None
    found = evidence.opened(entry["model"], journal_id)
    made = (
        found[0]
        if found
        else evidence.open(
            entry["model"],
            entry["name"],
            {**pending.translate(entry["tags"]), str(Tag.JOURNAL): journal_id},
            parent,
            at_ms=entry["at_ms"],
        )
    )
    pending.name_run(run, made)


def _enter_or_put_aside(
    entry: Entry, pending: Pending, evidence: Evidence, note: Callable[[str], None]
) -> None:
    try:
        enter(entry, pending, evidence)
    except RecordDenied:
        raise
    except (RecordRefused, RecordConflict, NotFound) as exc:
        kept = pending.set_aside(entry, str(exc))
        note(f"kept evidence ({entry['op']} of run {entry['run']}) is put aside in {kept}: {exc}")


def _drop_doubles(pending: Pending, evidence: Evidence) -> None:
    """A request that was given up may still have been done, after its run was looked for."""
    for entry in pending.runs_opened():
        run = pending.run_of(str(entry["run"]))
        if run is not None:
            for other in evidence.opened(entry["model"], journal_id_of(str(entry["run"]))):
                if other != run:
                    evidence.drop(other)


def journal_id_of(run: str) -> str:
    """The `Tag.JOURNAL` of a provisional run."""
    found = PROVISIONAL.fullmatch(run)
    assert found is not None, run
    return found[1]
