"""A disk that runs full: opening or writing a file below a folder fails from some file on."""

from __future__ import annotations

import builtins
import contextlib
import errno
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@contextlib.contextmanager
def writing_fails(
    monkeypatch: pytest.MonkeyPatch, *, under: Path, after_files: int = 0
) -> Iterator[None]:
    """Within the block the disk has room for so many more new files below a folder."""
    left = after_files
    real = io.open

    def checked(file: Any, mode: str = "r", *args: Any, **more: Any) -> Any:
        nonlocal left
        inside = isinstance(file, str | Path) and Path(file).is_relative_to(under)
        if inside and set(mode) & set("wax+"):
            left -= 1
            if left < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(file))
        return real(file, mode, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(builtins, "open", checked)
        patch.setattr(io, "open", checked)
        yield
