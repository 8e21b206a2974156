"""The copy on this machine of what going back without MLflow needs; brought up to date by every
command that changes what serves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipelines.config import SETTINGS_FILE
from pipelines.place import Place
from registry.errors import RegistryError
from registry.ledger import LedgerEntry
from registry.local_copy import LocalCopy
from registry.store import Record

KEPT_ENTRIES = 5
"""How many of the last entries' versions and settings are kept; a rollback goes to one of them."""


def copy_in(folder: Path) -> LocalCopy:
    """The copy that a model's folder holds."""
    return LocalCopy(folder / "copy")


def keep(record: Record, model: str, copy: LocalCopy) -> None:
    """Brings the copy up to date with the record.

    Raises:
        RegistryError: the record did not answer, or the copy is of another record.
    """
    log = record.ledger.read(model)
    for entry in log.entries[-KEPT_ENTRIES:]:
        if not _is_kept(copy, entry):
            copy.save_version(record.versions.get(model, entry.version))
            settings = record.evidence.read(entry.evidence_run, SETTINGS_FILE)
            copy.save_settings(entry.seq, settings)
    copy.save_log(log)


def _is_kept(copy: LocalCopy, entry: LedgerEntry) -> bool:
    try:
        copy.load_settings(entry.seq)
        return copy.load_version(entry.version).digest == entry.digest
    except RegistryError:
        return False


def keep_quietly(place: Place, model: str) -> None:
    """`keep`, where not being able to must not undo what was done."""
    keep_or_tell(place.record, model, copy_in(place.journal), place.progress.note)


def keep_or_tell(record: Record, model: str, copy: LocalCopy, note: Callable[[str], None]) -> None:
    """`keep`, telling with `note` why it could not."""
    try:
        keep(record, model, copy)
    except RegistryError as exc:
        note(f"the local copy for going back without MLflow could not be brought up to date: {exc}")
