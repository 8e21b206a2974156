"""A record that may be away: evidence is kept on this disk meanwhile, all else is waited for.

Writes of evidence never wait for MLflow. One that finds it away goes to the journal, and so does
everything after it until the journal has been entered; that is tried again every few seconds of
use, and by the next command. What needs an answer (the ledger, versions, finding stages) is asked
again until MLflow is back or patience ends.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path

from registry import disk
from registry.entering import enter_all
from registry.journaled_evidence import JournaledEvidence
from registry.patience import Patience
from registry.pending import Pending, counted
from registry.store import Record
from registry.waiting_record import NothingWaits, PatientLedger, PatientVersions


def journaled(
    record: Record,
    folder: Path,
    *,
    patience_s: float,
    note: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
) -> Record:
    """The record, for a place where it may go away.

    Args:
        record: what is written to while it answers.
        folder: the model's journal on this disk, such as `home/journal/<model>`.
        patience_s: longest wait of one call that needs an answer, in seconds; 0 asks once.
        note: is told when MLflow goes away, is waited for, and is back.
    """
    pending = Pending(folder)

    def kept() -> str:
        waiting = len(pending.waiting())
        are = "is" if waiting == 1 else "are"
        told = [f"{counted(waiting)} {are} kept in {folder}."] if waiting else []
        short = disk.shortage(folder)
        if short is not None:
            told.append(f"{short[0].upper()}{short[1:]}; make room there.")
        return " ".join(told)

    patience = Patience(patience_s=patience_s, note=note, clock=clock, sleep=sleep, kept=kept)
    evidence = JournaledEvidence(record, pending, patience, now_ms)
    return dataclasses.replace(
        record,
        versions=PatientVersions(record.versions, evidence, patience),
        evidence=evidence,
        ledger=PatientLedger(record.ledger, evidence, patience),
    )


def patient(
    record: Record,
    *,
    patience_s: float,
    note: Callable[[str], None],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Record:
    """The record for who only reads versions and ledgers: waits for it, and keeps nothing."""
    patience = Patience(patience_s=patience_s, note=note, clock=clock, sleep=sleep, kept=lambda: "")
    runs = NothingWaits()
    return dataclasses.replace(
        record,
        versions=PatientVersions(record.versions, runs, patience),
        ledger=PatientLedger(record.ledger, runs, patience),
    )


def flush(record: Record, folder: Path, note: Callable[[str], None]) -> int:
    """Enters what an earlier process has left, as far as MLflow answers; returns how many writes.

    Does not wait: where MLflow is away that is told, and what is kept stays.

    Raises:
        RecordDenied: MLflow lets nothing through.
        JournalBroken: the journal cannot be read; it was put aside.
    """
    pending = Pending(folder)
    entered = enter_all(pending, record.evidence, note)
    if entered.count:
        note(f"entered into MLflow from {folder}: {counted(entered.count)} of earlier commands")
    if entered.away is not None:
        waiting = counted(len(pending.waiting()))
        note(f"kept in {folder} until MLflow answers: {waiting} ({entered.away})")
    return entered.count
