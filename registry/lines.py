"""An append-only file of JSON objects, one a line, that survives being killed at any point.

A line counts once it is on the disk with its end-of-line and its checksum fits. A last line without
an end is what a kill or a full disk leaves of a write that nobody was told had succeeded: it is
ignored, and cut off before the next one. Any other line that cannot be read is an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from registry.errors import JournalBroken

CHECKSUM = "crc"


class LineCorrupt(JournalBroken):
    """A line that was written whole is not what it was."""


class Lines:
    """The file; every method looks at the disk, so that processes may share it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._threads = threading.RLock()
        self._handle: int | None = None
        self._close: Callable[[], object] = lambda: None
        self._offset = 0
        self._lines: list[dict[str, Any]] = []

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other writers out. The lock goes with its holder, however that ends."""
        with _reported("locking", self.path):
            _make_folder(self.path.parent)
            handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Adds a line; when this returns it is on the disk. Call it with the lock held.

        Raises:
            JournalBroken: it could not be written, such as on a full disk; the file is as before.
        """
        line = _encode(entry)
        with _reported("writing", self.path):
            new = not self.path.exists()
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                end = _end_of_last_line(handle)
                os.ftruncate(handle, end)
                _write_or_undo(handle, line, end)
            finally:
                os.close(handle)
            if new:
                _sync_folder(self.path.parent)

    def replace(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """Puts these lines in place of all others, in one step. Call it with the lock held."""
        write_whole(self.path, b"".join(_encode(e) for e in entries))

    def remove(self) -> None:
        """Removes the file. Call it with the lock held."""
        with _reported("removing", self.path):
            self.path.unlink(missing_ok=True)
            _sync_folder(self.path.parent)

    def read(self) -> list[dict[str, Any]]:
        """All lines, oldest first. Only what is new since the last call is read.

        Raises:
            LineCorrupt: a line that was once written cannot be read; names file and line.
        """
        with self._threads, _reported("reading", self.path):
            if not self._follow():
                return []
            assert self._handle is not None
            size = os.fstat(self._handle).st_size
            new = os.pread(self._handle, size - self._offset, self._offset)
            end = new.rfind(b"\n") + 1  # what follows the last end-of-line was never finished
            for line in new[:end].split(b"\n")[:-1]:
                self._lines.append(self._decode(line, len(self._lines) + 1))
                self._offset += len(line) + 1
            return list(self._lines)

    def _follow(self) -> bool:
        """Opens the file that is there now. An open one keeps its inode from being used again."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            self.forget()
            return False
        if self._handle is None or os.fstat(self._handle).st_ino != there.st_ino:
            self.forget()
            self._handle = os.open(self.path, os.O_RDONLY)
            self._close = weakref.finalize(self, os.close, self._handle)
        return True

    def forget(self) -> None:
        """Closes the file; the next look reads it from its start."""
        if self._handle is not None:
            self._close()
        self._handle, self._offset, self._lines = None, 0, []

    def _decode(self, line: bytes, number: int) -> dict[str, Any]:
        try:
            entry = json.loads(line)
            checksum = entry.pop(CHECKSUM)
        except (ValueError, KeyError, AttributeError, TypeError) as exc:
            raise LineCorrupt(f"{self.path} line {number} cannot be read: {exc!r}") from exc
        if checksum != _checksum(entry):
            raise LineCorrupt(
                f"{self.path} line {number} is not what was written: wrong {CHECKSUM}"
            )
        return dict(entry)


def write_whole(path: Path, content: bytes) -> None:
    """Replaces a file in one step: readers, and whoever comes after a kill, see the old or the new.

    Raises:
        JournalBroken: it could not be written; the old one is still there.
    """
    part = path.with_name(f"{path.name}.part-{os.getpid()}-{threading.get_ident()}")
    with _reported("writing", path):
        _make_folder(path.parent)
        try:
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                _write_or_undo(handle, content, 0)
            finally:
                os.close(handle)
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)


def _encode(entry: Mapping[str, Any]) -> bytes:
    plain = json.loads(json.dumps(entry))
    return _canonical({**plain, CHECKSUM: _checksum(plain)}) + b"\n"


def _canonical(entry: Mapping[str, Any]) -> bytes:
    return json.dumps(entry, sort_keys=True, separators=(",", ":")).encode("ascii")


def _checksum(entry: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(_canonical(entry)):08x}"


def _end_of_last_line(handle: int) -> int:
    size = os.fstat(handle).st_size
    if size == 0 or os.pread(handle, 1, size - 1) == b"\n":
        return size
    return os.pread(handle, size, 0).rfind(b"\n") + 1


def _write_or_undo(handle: int, content: bytes, at: int) -> None:
    try:
        written = 0
        while written < len(content):
            written += os.pwrite(handle, content[written:], at + written)
        os.fsync(handle)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(handle, at)
        raise


def _make_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _reported(doing: str, path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise JournalBroken(
            f"{doing} {path} failed: {exc.strerror or exc}; nothing half written counts. Make room "
            "on that disk or mend its permissions, then run the same command again"
        ) from exc
