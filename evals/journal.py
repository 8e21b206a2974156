"""Answers on disk as they come, so that an evaluation that was killed goes on inside a suite.

The one idea: raw answers are kept, not scores. A line is written to the file the moment an answer
is there, so the death of the process loses nothing, and synced to the disk at intervals, so the
death of the machine loses a few seconds. The first line says what the answers belong to; a file of
another suite, checkpoint or runtime is begun anew.
"""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from evals import errors
from evals.model import Answer

FORMAT = "liftlock/answers/v1"
SYNC_EVERY_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """What answers belong to."""

    suite_digest: str
    checkpoint_digest: str
    runtime_digest: str


@dataclass(frozen=True, slots=True)
class Key:
    """Which input of a suite: an example, and which of its sentences."""

    example_id: str
    part: int


class Journal:
    """The answers of one suite, as a context manager; `answers` holds those of before too."""

    def __init__(
        self, path: Path, owner: Owner, *, clock_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.answers: dict[Key, Answer] = {}
        self._path = path
        self._owner = owner
        self._clock_s = clock_s
        self._file: IO[bytes] | None = None
        self._synced_s = 0.0

    def __enter__(self) -> Self:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        # No buffer: what was written is the kernel's at once.
        file = self._path.open("a+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            file.close()
            raise errors.EvaluationFailed(
                f"another command writes {self._path}; wait for its end or choose another --out"
            ) from exc
        file.truncate(self._read())
        self._file = file
        if not file.seek(0, os.SEEK_END):
            self._write({"format": FORMAT, **dataclasses.asdict(self._owner)})
        self._sync()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._sync()
            self._file.close()

    def add(self, key: Key, answer: Answer) -> None:
        """Keeps one answer."""
        self._write({**dataclasses.asdict(key), **dataclasses.asdict(answer)})
        self.answers[key] = answer
        if self._clock_s() - self._synced_s >= SYNC_EVERY_S:
            self._sync()

    def _write(self, content: dict[str, Any]) -> None:
        if self._file is None:
            raise ValueError(f"the journal {self._path} is not open")
        self._file.write(json.dumps(content, ensure_ascii=False).encode() + b"\n")

    def _sync(self) -> None:
        if self._file is not None:
            os.fsync(self._file.fileno())
            self._synced_s = self._clock_s()

    def _read(self) -> int:
        """Takes in what is there; returns how many bytes of it are whole and ours."""
        data = self._path.read_bytes()
        header, newline, rest = data.partition(b"\n")
        wanted = {"format": FORMAT, **dataclasses.asdict(self._owner)}
        if not newline or _parsed(header) != wanted:
            return 0
        good = len(header) + 1
        for line in rest.splitlines(keepends=True):
            raw = _parsed(line) if line.endswith(b"\n") else None
            if raw is None:  # cut off where the machine died
                break
            try:
                key = Key(example_id=raw.pop("example_id"), part=raw.pop("part"))
                self.answers[key] = Answer(**raw)
            except (KeyError, TypeError):
                break
            good += len(line)
        return good


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        raw = json.loads(line)
    except ValueError:
        return None
    return raw if isinstance(raw, dict) else None
