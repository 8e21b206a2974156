"""Lines of a UTF-8 text file that nobody has to trust.

The one idea: a line is refused where it is read, by file and line, before anything is made of it.
Only a newline ends a line: U+2028 and its like occur inside sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from evals import errors

FILE_LIMIT_BYTES = 256 * 1024 * 1024
"""More than any known corpus of sentences; what is larger is not read into memory."""
LINE_LIMIT_BYTES = 1_000_000
"""A longer line is not a sentence: the longest of the known corpora have about 2,000 bytes."""

_BOM = b"\xef\xbb\xbf"
_UTF_16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_NOT_TEXT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufeff]")
"""Control characters but tab and line ends; halves of surrogate pairs, which JSON can hold; the
byte order mark, which files put one behind the other leave inside."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line without its end."""

    where: str
    """`file:line`, for messages."""
    text: str


def lines(data: bytes, name: str) -> Iterator[Line]:
    """The lines of a file; `name` is the file to name in errors.

    Raises:
        SuiteInvalid: a line is too long, not UTF-8, or holds what is not text.
    """
    if data.startswith(_UTF_16_BOMS):
        raise errors.SuiteInvalid(f"{name}:1: the file is UTF-16; convert it to UTF-8")
    pieces = data.removeprefix(_BOM).split(b"\n")
    if not pieces[-1]:
        pieces.pop()
    for number, raw in enumerate(pieces, start=1):
        where = f"{name}:{number}"
        yield Line(where=where, text=_decoded(raw, where))


def _decoded(raw: bytes, where: str) -> str:
    if len(raw) > LINE_LIMIT_BYTES:
        raise errors.SuiteInvalid(
            f"{where}: the line has {len(raw):,} bytes, more than {LINE_LIMIT_BYTES:,}; "
            "a line must hold one sentence or one record"
        )
    try:
        text = raw.removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as exc:
        raise errors.SuiteInvalid(
            f"{where}: byte {exc.start + 1} of the line is not UTF-8 ({exc.reason}); "
            "the file mixes encodings or is in another one, convert it to UTF-8"
        ) from exc
    problem = not_text(text)
    if "\r" in text:
        problem = "holds a carriage return, an old form of line end; convert the file's line ends"
    if problem:
        raise errors.SuiteInvalid(f"{where}: {problem}")
    return text


def too_long(text: str) -> str | None:
    """What is wrong with a text that no line could hold."""
    if len(text) <= LINE_LIMIT_BYTES:
        return None
    return f"holds a text of {len(text):,} characters, more than {LINE_LIMIT_BYTES:,}"


def not_text(text: str) -> str | None:
    """What and where the first character is that no text holds."""
    found = _NOT_TEXT.search(text)
    if found is None:
        return None
    return f"holds U+{ord(found[0]):04X} at position {found.start() + 1}, which is not text"
