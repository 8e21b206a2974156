"""Members of a zip file that nobody has to trust.

The one idea: sizes are limited while unpacking, not by what the archive says of itself, so an
archive of a few kilobytes cannot fill the memory.
"""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

from evals import errors

MEMBER_LIMIT = 10_000
MEMBER_LIMIT_BYTES = 64 * 1024 * 1024
TOTAL_LIMIT_BYTES = 256 * 1024 * 1024
"""The largest known corpus in one archive unpacks to 30 MB."""

_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    NotImplementedError,  # a way of compression that Python does not know
    RuntimeError,  # encrypted
    EOFError,
    OSError,
    ValueError,
    OverflowError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One unpacked file."""

    path: str
    data: bytes


def members(data: bytes, name: str, pattern: str) -> Iterator[Member]:
    """The files of an archive whose path matches the pattern, by path.

    Raises:
        SuiteInvalid: not a zip file, broken, too large unpacked, or nothing matches.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _BROKEN as exc:
        raise errors.SuiteInvalid(f"{name} is not a zip file: {exc}; fetch it again") from exc
    with archive:
        left = TOTAL_LIMIT_BYTES
        for info in _chosen(archive, name, pattern):
            unpacked = _unpacked(archive, info, name, min(left, MEMBER_LIMIT_BYTES))
            left -= len(unpacked)
            yield Member(path=info.filename, data=unpacked)


def _chosen(archive: zipfile.ZipFile, name: str, pattern: str) -> list[zipfile.ZipInfo]:
    infos = archive.infolist()
    if len(infos) > MEMBER_LIMIT:
        raise errors.SuiteInvalid(
            f"{name} holds {len(infos):,} files, more than {MEMBER_LIMIT:,}; is it a suite's data?"
        )
    chosen = sorted(
        (
            info
            for info in infos
            if not info.filename.endswith("/") and fnmatchcase(info.filename, pattern)
        ),
        key=lambda info: info.filename,
    )
    if not chosen:
        raise errors.SuiteInvalid(f"{name} holds no file like {pattern}; fetch it again")
    paths = [info.filename for info in chosen]
    if len(set(paths)) != len(paths):
        raise errors.SuiteInvalid(f"{name} holds a file twice under one path; fetch it again")
    return chosen


def _unpacked(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, limit_bytes: int
) -> bytes:
    try:
        with archive.open(info) as file:
            unpacked = file.read(limit_bytes + 1)
    except _BROKEN as exc:
        raise errors.SuiteInvalid(
            f"{name}: member {info.filename!r} cannot be unpacked: {exc}; fetch it again"
        ) from exc
    if len(unpacked) > limit_bytes:
        raise errors.SuiteInvalid(
            f"{name}: member {info.filename!r} unpacks to more than {limit_bytes:,} bytes; "
            "an archive like this is not read"
        )
    return unpacked
