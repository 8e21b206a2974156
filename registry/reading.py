"""Reads files that somebody else wrote: regular ones only, up to a limit, never waiting.

The one idea: what is looked at is what was opened. Type and size are asked of the open file, so
that a pipe, a device or a file that grows cannot hold a command or fill its memory.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from registry.wording import size

CHUNK_BYTES = 1 << 20


class Unreadable(ValueError):
    """A file cannot be used; the message continues a sentence that begins with its name."""


class Absent(Unreadable):
    """There is no such file."""


def open_regular(path: Path) -> BinaryIO:
    """Opens a regular file, unbuffered.

    Raises:
        Unreadable: it is absent, not permitted or not a regular file.
    """
    try:
        # Without O_NONBLOCK the opening of a pipe would wait for somebody to write into it.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as exc:
        raise Absent("does not exist") from exc
    except (OSError, ValueError) as exc:
        raise Unreadable(f"cannot be opened: {_reason(exc)}") from exc
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Unreadable("is not a regular file")
    return os.fdopen(descriptor, "rb", buffering=0)


def read_bytes(path: Path, limit_bytes: int) -> bytes:
    """All bytes of a regular file.

    Raises:
        Unreadable: it cannot be opened or read, or holds more than the limit.
    """
    chunks: list[bytes] = []
    left = limit_bytes + 1
    with open_regular(path) as handle:
        found = os.fstat(handle.fileno()).st_size
        if found <= limit_bytes:
            try:
                while left > 0 and (chunk := handle.read(min(left, CHUNK_BYTES))):
                    chunks.append(chunk)
                    left -= len(chunk)
            except OSError as exc:
                raise Unreadable(f"cannot be read: {_reason(exc)}") from exc
    if found > limit_bytes or left <= 0:
        raise Unreadable(f"holds more than {size(limit_bytes)}, which is the most that is accepted")
    return b"".join(chunks)


def read_text(path: Path, limit_bytes: int) -> str:
    """A regular file as UTF-8 text.

    Raises:
        Unreadable: as for `read_bytes`, or the text is not UTF-8.
    """
    data = read_bytes(path, limit_bytes)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise Unreadable(
            f"is not UTF-8 text (byte 0x{data[exc.start]:02x} at offset {exc.start})"
        ) from exc


def _reason(exc: Exception) -> str:
    return (exc.strerror if isinstance(exc, OSError) else None) or str(exc)
