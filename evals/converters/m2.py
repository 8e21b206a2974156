"""M2 files: a reference per annotator, made by applying the annotator's edits.

Edits of one annotator may overlap: EstGEC marks a misspelled word and, over it, a change of word
order whose replacement holds the word put right. The one idea: the widest edit says it all, so it
is applied and what lies inside or across it is not.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Literal

import pydantic

from evals import m2
from evals.converters import base
from evals.m2 import Edit
from evals.suite import Example


class Tagging(StrEnum):
    """Which part of an edit's type becomes a tag."""

    NONE = "none"  # no tags
    FULL = "full"  # R:NOUN:NUM as it is
    TAIL = "tail"  # NOUN:NUM, without what replaces, adds or deletes


class M2(base.Options):
    """One M2 file."""

    name: Literal["m2"]
    file: base.NonEmpty
    tags: Tagging = Tagging.NONE
    document_marker: str | None = None
    """Pattern of a sentence that is no sentence but begins a document and names it."""

    @pydantic.field_validator("document_marker")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as exc:
            raise ValueError(f"not a regular expression: {exc}") from exc
        return value

    def examples(self, files: base.Files) -> Iterator[Example]:
        """One example per sentence, in file order; the id is the number of its block."""
        document = None
        marker = re.compile(self.document_marker) if self.document_marker else None
        blocks = m2.parse(files.read(self.file), files.label(self.file))
        for number, block in enumerate(blocks, start=1):
            source = " ".join(block.tokens)
            if marker and marker.fullmatch(source):
                document = source
                continue
            edits = tuple(block.annotations.values())
            yield Example(
                id=f"{base.stem(self.file)}:{number}",
                source=source,
                references=tuple(corrected(block.tokens, of) for of in edits),
                tags=_tags(edits, self.tags),
                cluster=document,
                edits=edits,
            )


def corrected(tokens: Sequence[str], edits: Sequence[Edit]) -> str:
    """The tokens with an annotator's edits applied, joined by one space.

    Of alternative replacements the first is taken; of edits that overlap the widest, then the one
    with the longest replacement, then the first. Insertions at one place follow each other.
    """
    out: list[str] = []
    position = 0
    for edit in _applied(edits):
        out += tokens[position : edit.start]
        out += edit.replacements[0].split()
        position = edit.end
    return " ".join([*out, *tokens[position:]])


def _applied(edits: Sequence[Edit]) -> list[Edit]:
    """Edits without overlaps, from left to right."""
    numbered = list(enumerate(edits))
    by_claim = sorted(
        numbered,
        key=lambda item: (
            item[1].start - item[1].end,
            -len(item[1].replacements[0].split()) if item[1].end > item[1].start else 0,
            item[0],
        ),
    )
    kept: list[tuple[int, Edit]] = []
    starts: list[int] = []  # of the kept ones with tokens; they are apart, so their order is one
    ends: list[int] = []
    for number, edit in by_claim:
        place = bisect.bisect_left(starts, edit.end)  # those before it begin before this one ends
        if place and ends[place - 1] > edit.start:
            continue
        kept.append((number, edit))
        if edit.start < edit.end:  # insertions at one place are beside each other
            starts.insert(place, edit.start)
            ends.insert(place, edit.end)
    in_order = sorted(kept, key=lambda item: (item[1].start, item[1].end, item[0]))
    return [edit for _, edit in in_order]


def _tags(edits: Sequence[Sequence[Edit]], tagging: Tagging) -> tuple[str, ...]:
    if tagging is Tagging.NONE:
        return ()
    types = {edit.type for of in edits for edit in of}
    if tagging is Tagging.TAIL:
        types = {kind.partition(":")[2] or kind for kind in types}
    return tuple(sorted(types))
