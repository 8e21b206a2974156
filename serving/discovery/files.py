"""Replacing a file so that a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from serving import errors


def write_atomic(path: Path, data: bytes, *, durable: bool, mode: int = 0o666) -> None:
    """Replace `path` by `data` with a rename inside its directory, which must exist.

    `durable` waits until the disk has it; leave it out for what is rebuilt after a crash. `mode`,
    less the user's mask, holds from the first byte on.
    Raises EdgeError where it cannot be written, such as on a full disk; the old bytes are then
    still there, and nothing else is.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        temporary.touch(mode)
        _write(temporary, data, durable=durable)
        os.replace(temporary, path)
        if durable:
            _sync_directory(path.parent)
    except OSError as exc:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise errors.EdgeError(
            f"{path} could not be written ({exc.strerror}), so the edge goes on as it was; make "
            "room there or mend its permissions, then run the same command again"
        ) from exc


def mark(path: Path) -> tuple[int, ...]:
    """Changes whenever a file is replaced or written; empty where none can be seen."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _write(path: Path, data: bytes, *, durable: bool) -> None:
    with path.open("wb") as handle:
        handle.write(data)
        if durable:
            handle.flush()
            os.fsync(handle.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
