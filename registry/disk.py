"""Room on the local disk: asked for before something large is written, and told when it ran out.

The one idea: a full disk is met in two ways and both have one message with numbers. Asking before
keeps a promotion from failing halfway; another process may still take the room meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import shutil
from collections.abc import Iterator
from pathlib import Path

from registry.errors import OutOfSpace
from registry.wording import size

NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""The disk is full, the user's quota is, or a file would pass the process's limit."""
SPARE_BYTES = 64 << 20
"""Left free for logs, databases and whoever else writes there."""

LITTLE_BYTES = 1 << 20
"""Less than this is too little even for a log line and a database page."""


def free_bytes(folder: Path) -> int:
    """Room where the folder is, or will be once it is made."""
    return shutil.disk_usage(_existing(folder)).free


def shortage(folder: Path) -> str | None:
    """A clause that explains why a server on this disk fails without saying why; None with room."""
    free = free_bytes(folder)
    return f"only {size(free)} are free on the disk of {folder}" if free < LITTLE_BYTES else None


def require(folder: Path, needed_bytes: int, what: str) -> None:
    """Asks for room before writing.

    Args:
        folder: where it will be written; it need not exist.
        needed_bytes: what will be written.
        what: names it in the error, such as `the copies of the checkpoint in the cache`.

    Raises:
        OutOfSpace: less is free, with both numbers.
    """
    free = free_bytes(folder)
    if free < needed_bytes + SPARE_BYTES:
        raise OutOfSpace(
            f"{what} need {size(needed_bytes)} (and {size(SPARE_BYTES)} to spare), {size(free)} "
            f"are free at {_existing(folder)}; free some, or choose another --home"
        )


@contextlib.contextmanager
def told(doing: str, folder: Path) -> Iterator[None]:
    """Turns "no space left" in the block into OutOfSpace; other errors pass.

    Args:
        doing: what was being done, such as `copying a checkpoint into the cache`.
        folder: where.
    """
    try:
        yield
    except OSError as exc:
        if not is_full(exc):
            raise
        raise OutOfSpace(out_of_space(exc, doing, folder)) from exc


def is_full(exc: BaseException) -> bool:
    """Whether an error says that there is no room."""
    return isinstance(exc, OSError) and exc.errno in NO_ROOM


def out_of_space(exc: OSError, doing: str, folder: Path) -> str:
    """The message for a disk that ran full."""
    return (
        f"the disk ran full while {doing} ({exc.strerror}; {size(free_bytes(folder))} are free at "
        f"{_existing(folder)}); free some or choose another --home, then run the same command again"
    )


def _existing(folder: Path) -> Path:
    return next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
