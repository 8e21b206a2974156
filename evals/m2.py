"""Reads M2, the form in which most corpora of corrected text are published.

A block is one `S` line (the tokens) and one `A` line per edit and annotator, ended by an empty
line. The one idea: an annotator is in the result if a line names them, so "found no error" (a
`noop` line, an empty tuple of edits) and "did not look" (no entry) stay two things. A block without
any `A` line was read by annotator 0, who found nothing.

Gold edits may overlap and may sit on the same span; they are kept in the order of the file.
Format: Dahlmeier and Ng 2012, "Better Evaluation for Grammatical Error Correction", and the
README of its scorer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evals import errors, textfile
from evals.textfile import Line
from registry import reading

ANNOTATOR_LIMIT = 100
"""Of one sentence; each makes a reference as long as it. The known corpora have 10 at most."""
_NUMBER = re.compile(r"[0-9]{1,9}")
_SEPARATOR = "|||"
_EMPTY = "-NONE-"  # how some corpora write an empty replacement
_NOOP = "noop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replace the tokens `start` to `end` (exclusive) of the source by one of `replacements`.

    At least one replacement, each tokens joined by one space, empty for a deletion; all are equally
    right.
    """

    start: int
    end: int
    replacements: tuple[str, ...]
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class M2Sentence:
    """One source sentence with what each annotator, by number, would change in it."""

    tokens: tuple[str, ...]
    annotations: Mapping[int, tuple[Edit, ...]]


def read(path: Path) -> tuple[M2Sentence, ...]:
    """Reads the M2 file at `path`.

    Raises:
        SuiteUnavailable: the file cannot be read.
        SuiteInvalid: it is not M2; names the file and the line.
    """
    try:
        data = reading.read_bytes(path, textfile.FILE_LIMIT_BYTES)
    except reading.Unreadable as exc:
        raise errors.SuiteUnavailable(
            f"M2 file {path} {exc}; fetch the data of this suite"
        ) from exc
    return parse(data, str(path))


def parse(data: bytes, name: str) -> tuple[M2Sentence, ...]:
    """Reads M2 from UTF-8 bytes; `name` is the file to name in errors.

    Raises:
        SuiteInvalid: the bytes are not M2; names the file and the line.
    """
    return tuple(_sentence(block) for block in _blocks(_lines(data, name)))


def _lines(data: bytes, name: str) -> Iterator[Line]:
    for line in textfile.lines(data, name):
        yield Line(where=line.where, text=line.text.strip())


def _blocks(lines: Iterator[Line]) -> Iterator[list[Line]]:
    """Groups of lines: one `S` line, then its `A` lines."""
    block: list[Line] = []
    for line in lines:
        head = line.text[:2].rstrip()
        if not line.text or head == "S":
            if block:
                yield block
            block = [line] if line.text else []
        elif head == "A" and block:
            block.append(line)
        else:
            raise errors.SuiteInvalid(_stray(line, head))
    if block:
        yield block


def _stray(line: Line, head: str) -> str:
    if head == "A":
        return f"{line.where}: an edit without a sentence; an S line must come before it"
    return f"{line.where}: expected a line that starts with 'S ' or 'A ', found {line.text[:40]!r}"


def _sentence(block: list[Line]) -> M2Sentence:
    tokens = tuple(block[0].text[2:].split())
    found: dict[int, list[Edit]] = {}
    for line in block[1:]:
        annotator, edit = _annotation(line, len(tokens))
        edits = found.setdefault(annotator, [])
        if len(found) > ANNOTATOR_LIMIT:
            raise errors.SuiteInvalid(
                f"{line.where}: the sentence has more than {ANNOTATOR_LIMIT} annotators; "
                "is the last field the annotator's number?"
            )
        if edit is not None:
            edits.append(edit)
    annotations = {annotator: tuple(edits) for annotator, edits in sorted(found.items())}
    return M2Sentence(tokens=tokens, annotations=annotations or {0: ()})


def _annotation(line: Line, n_tokens: int) -> tuple[int, Edit | None]:
    """Annotator and edit of an `A` line; no edit for a `noop`."""
    span, kind, replacements, annotator = _fields(line)
    if kind == _NOOP:
        return annotator, None
    start, end = _span(line, span, n_tokens)
    return annotator, Edit(
        start=start, end=end, replacements=_replacements(replacements), type=kind
    )


def _fields(line: Line) -> tuple[str, str, str, int]:
    """Span, type, replacements and annotator.

    Taken from both ends, because the replacement in the middle may itself hold a bar.
    """
    front = line.text[2:].split(_SEPARATOR, 2)
    back = front[-1].rsplit(_SEPARATOR, 3)
    if len(front) != 3 or len(back) != 4:
        raise errors.SuiteInvalid(
            f"{line.where}: expected 6 fields between {_SEPARATOR!r} (span, type, replacement, "
            f"required, comment, annotator), found {line.text[:60]!r}"
        )
    if not _NUMBER.fullmatch(back[3].strip()):
        raise errors.SuiteInvalid(
            f"{line.where}: the annotator must be a number of at most 9 digits, "
            f"found {back[3][:40]!r}"
        )
    return front[0], front[1], back[0], int(back[3])


def _span(line: Line, text: str, n_tokens: int) -> tuple[int, int]:
    parts = text.split()
    are_numbers = len(parts) == 2 and all(_NUMBER.fullmatch(part) for part in parts)
    start, end = (int(part) for part in parts) if are_numbers else (-1, -1)
    if not 0 <= start <= end <= n_tokens:
        raise errors.SuiteInvalid(
            f"{line.where}: the span must be two token numbers, 0 <= start <= end <= {n_tokens}, "
            f"found {text[:40]!r}"
        )
    return start, end


def _replacements(text: str) -> tuple[str, ...]:
    """`a b||c` offers two; an empty one is a deletion."""
    offered = (
        "" if part.strip() == _EMPTY else " ".join(part.split()) for part in text.split("||")
    )
    return tuple(dict.fromkeys(offered))
