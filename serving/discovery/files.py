"""Replacing a file so that a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import os
from pathlib import Path


def write_atomic(path: Path, data: bytes, *, durable: bool) -> None:
    """Replace `path` by `data` with a rename inside its directory, which must exist.

    `durable` waits until the disk has it; leave it out for what is rebuilt after a crash.
    The rename is also what Envoy watches for.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    with temporary.open("wb") as handle:
        handle.write(data)
        if durable:
            handle.flush()
            os.fsync(handle.fileno())
    os.replace(temporary, path)
    if durable:
        _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
