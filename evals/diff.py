"""Word-level differences between two texts, as runs a renderer can mark."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Mark(StrEnum):
    """What happened to a run of words."""

    SAME = "same"  # in both texts
    DELETED = "deleted"  # only in the first
    INSERTED = "inserted"  # only in the second


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Consecutive words with one mark."""

    mark: Mark
    text: str


def words(before: str, after: str) -> tuple[Run, ...]:
    """The runs that turn `before` into `after`; deletions come before what replaces them."""
    return tuple(_runs(before.split(), after.split()))


def _runs(before: list[str], after: list[str]) -> Iterator[Run]:
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    for operation, a_start, a_end, b_start, b_end in matcher.get_opcodes():
        if operation == "equal":
            yield Run(mark=Mark.SAME, text=" ".join(before[a_start:a_end]))
            continue
        if a_end > a_start:
            yield Run(mark=Mark.DELETED, text=" ".join(before[a_start:a_end]))
        if b_end > b_start:
            yield Run(mark=Mark.INSERTED, text=" ".join(after[b_start:b_end]))
