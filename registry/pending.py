"""Evidence that waits for MLflow: a journal on this disk, entered in order when MLflow answers.

    journal.jsonl   writes that wait, and a mark behind them for each that has been entered
    runs.jsonl      which run of MLflow a provisional one became; kept
    aside.jsonl     writes that MLflow refused when they were entered, with the reason; kept

A run opened while MLflow is away has a provisional id, `local-<hex>`. The hex is the run's
`Tag.JOURNAL`, by which it is found again where only the answer to its creation was lost. Every
other write changes nothing when it is repeated, so entering can be cut off anywhere and done again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from registry.errors import JournalBroken, NotFound
from registry.lines import LineCorrupt, Lines

Entry = Mapping[str, Any]
"""One write: `op`, `run`, `at_ms` and what the operation needs; see `registry.entering`."""

PROVISIONAL = re.compile(r"local-([0-9a-f]{32})")
MARK = "entered"


class Pending:
    """The journal of one model. Processes may share it; every look is at the disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._waiting = Lines(folder / "journal.jsonl")
        self._runs = Lines(folder / "runs.jsonl")
        self._aside = Lines(folder / "aside.jsonl")

    def waiting(self) -> list[Entry]:
        """The writes that have not been entered, oldest first.

        Raises:
            JournalBroken: a line cannot be read; the file has been put aside under another name.
        """
        lines = _readable(self._waiting)
        return [lines[n] for n in _unmarked(lines)]

    def runs_opened(self) -> list[Entry]:
        """The writes that open a run, entered or not, for as long as anything waits."""
        return [e for e in _readable(self._waiting) if e.get("op") == "open"]

    def add(self, entry: Entry) -> None:
        """Keeps a write; when this returns it is on the disk.

        Raises:
            JournalBroken: it could not be written.
        """
        with self._waiting.locked():
            self._waiting.append(entry)

    def text(self, run: str, name: str) -> str | None:
        """A text that waits; None where the record has to be asked."""
        known = self.run_of(run) or run
        for entry in reversed(self.waiting()):
            if (entry["op"], entry.get("name")) == ("text", name):
                mine = str(entry["run"])
                if mine == run or self.run_of(mine) == known:
                    return str(entry["content"])
        return None

    def run_of(self, run: str) -> str | None:
        """The record's id of a run; None for a provisional one that was not entered yet."""
        if not PROVISIONAL.fullmatch(run):
            return run
        found = (line["id"] for line in _readable(self._runs) if line["run"] == run)
        return next((str(i) for i in found), None)

    def created(self, run: str) -> str:
        """The record's id of a run.

        Raises:
            NotFound: the run is not in the record.
        """
        made = self.run_of(run)
        if made is None:
            raise NotFound(
                f"run {run} is not in MLflow: its creation still waits in {self.folder}, or was "
                "refused (see aside.jsonl there)"
            )
        return made

    def name_run(self, run: str, made: str) -> None:
        """Remembers what a provisional run became."""
        with self._runs.locked():
            self._runs.append({"run": run, "id": made})

    def translate(self, value: Any) -> Any:
        """Puts the record's ids in place of provisional ones, anywhere in plain data."""
        if isinstance(value, str):
            return PROVISIONAL.sub(lambda m: self.run_of(m[0]) or m[0], value)
        if isinstance(value, Mapping):
            return {k: self.translate(v) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self.translate(v) for v in value]
        return value

    def spoiled(self, run: str) -> bool:
        """Whether a part of this run's evidence was refused, so that it must not count as done."""
        return any(run in (line["run"], line["id"]) for line in _readable(self._aside))

    def set_aside(self, entry: Entry, reason: str) -> Path:
        """Keeps a write that MLflow refused, where a person can look at it."""
        with self._aside.locked():
            known = self.run_of(str(entry["run"]))
            self._aside.append({**entry, "id": known or "", "reason": reason})
        return self._aside.path

    def mark_first(self) -> None:
        """Says that the oldest waiting write was entered; the last one takes the file along."""
        with self._waiting.locked():
            left = _unmarked(_readable(self._waiting))
            if len(left) > 1:
                self._waiting.append({MARK: left[0]})
            else:
                self._waiting.remove()

    @contextlib.contextmanager
    def entering(self) -> Iterator[bool]:
        """Whether something waits and this process may enter it; False while another one does."""
        if not self.waiting():
            yield False
            return
        handle = os.open(self.folder / "entering.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(handle)


def counted(number: int) -> str:
    """A number of kept writes, for people."""
    return f"{number} write{'' if number == 1 else 's'} of evidence"


def _unmarked(lines: Sequence[Entry]) -> list[int]:
    entered = {line[MARK] for line in lines if MARK in line}
    return [n for n, line in enumerate(lines) if MARK not in line and n not in entered]


def _readable(file: Lines) -> list[dict[str, Any]]:
    """The lines; a file with one that cannot be read is put aside as a whole.

    What is left of it is not entered: a run that was closed as finished without a part of its
    evidence would be taken for whole. Runs that stay open are ended by the next owner, and their
    stages are done again.
    """
    try:
        return file.read()
    except LineCorrupt as exc:
        kept = file.path.with_name(f"{file.path.stem}-corrupt-{uuid.uuid4().hex[:8]}.jsonl")
        with contextlib.suppress(FileNotFoundError):  # another process has just done it
            file.path.rename(kept)
        file.forget()
        raise JournalBroken(
            f"{exc}. The file is kept as {kept}, and what had not been entered into MLflow yet "
            "will not be; stages without evidence are done again by running the same command again"
        ) from exc
