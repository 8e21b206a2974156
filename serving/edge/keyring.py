"""The edge's view of the keys: a file that others replace, and the rules that follow from it.

The one idea: what was ended stays ended, whatever becomes of the list. One that is lost or cannot
be read changes nothing, and one that a backup put back opens nothing that was ended since.
"""

from __future__ import annotations

import math
import time
from pathlib import Path

from serving.discovery import files
from serving.edge import config
from serving.edge import home as edge_home
from serving.errors import KeysUnusable
from serving.keys import rules
from serving.keys.record import KeyList, KeyRecord
from serving.keys.rules import KeyRules
from serving.keys.store import KeyStore


class Keyring:
    """The keys of one edge, or of a fleet of them; has none where none are required."""

    def __init__(self, settings: config.KeySettings, home: edge_home.EdgeHome | None) -> None:
        """Without a home the settings must name the folder; raises KeysUnusable else."""
        folder = settings.folder
        if folder is None and home is not None:
            folder = home.root.parent / "keys"
        if folder is None and settings.required:
            raise KeysUnusable(
                "API keys are required, but nothing says where they are: set keys.folder to the "
                "folder of keys.json and jwks.json"
            )
        self._required = settings.required
        self._store = KeyStore(folder or Path())
        self._list = KeyList()
        self._mark: tuple[int, ...] | None = None
        self._rules: tuple[int, KeyRules] | None = None
        """Those of the second that they were last made for."""

    def refresh(self) -> None:
        """Read the list again if it was replaced. Raises KeysUnusable, and goes on by the old."""
        if not self._required:
            return
        mark = files.mark(self._store.records_file)
        if mark != self._mark:
            self._list = _joined(self._list, self._store.listed())
            self._mark, self._rules = mark, None

    def now(self) -> KeyRules:
        """What holds at this moment. Raises KeysUnusable as `refresh` does.

        Asked many times a second, while keys end by the passing of whole seconds.
        """
        self.refresh()
        second = int(time.time())
        if self._rules is None or self._rules[0] != second:
            self._rules = (second, rules.rules(self._list, second))
        return self._rules[1]

    def public_set(self) -> str | None:
        """What verifies keys; None where none are required. Raises KeysUnusable."""
        return self._store.public_set() if self._required else None


def _joined(known: KeyList, offered: KeyList) -> KeyList:
    """A newly read list, in which nothing that was ended before has come back."""
    records = {r.key_id: r for r in offered.records}
    for old in known.records:
        if old.ends_at is not None:
            records[old.key_id] = min(old, records.get(old.key_id, old), key=_end)
    return KeyList(
        records=tuple(records.values()), written_at=max(known.written_at, offered.written_at)
    )


def _end(record: KeyRecord) -> float:
    return math.inf if record.ends_at is None else record.ends_at
