"""Word-level differences between two texts, as runs a renderer can mark.

Scripts that put no spaces between words are compared character by character: a whole Chinese
sentence marked as changed would say nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_MARKS = "\u0300-\u036f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\u0eb1\u0eb4-\u0ebc\u0ec8-\u0ecd"
"""Signs that belong to the character before them."""
_TOKEN = re.compile(rf"(\s*)([{_UNSPACED}][{_MARKS}]*|[^\s{_UNSPACED}]+)")


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
    is_glued: bool = False
    """Whether no white space stands before it in its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Token:
    text: str
    is_glued: bool


def words(before: str, after: str) -> tuple[Run, ...]:
    """The runs that turn `before` into `after`; deletions come before what replaces them."""
    return tuple(_runs(_tokens(before), _tokens(after)))


def marked(before: str, after: str) -> str:
    """The same as plain text: [-deleted-] and {+inserted+}."""
    signs = {Mark.SAME: "{}", Mark.DELETED: "[-{}-]", Mark.INSERTED: "{{+{}+}}"}
    parts = [
        ("" if run.is_glued else " ") + signs[run.mark].format(run.text)
        for run in words(before, after)
    ]
    return "".join(parts).strip()


def _tokens(text: str) -> list[_Token]:
    found = [_Token(text=m[2], is_glued=not m[1]) for m in _TOKEN.finditer(text)]
    return [_Token(text=found[0].text, is_glued=False), *found[1:]] if found else []


def _runs(before: list[_Token], after: list[_Token]) -> Iterator[Run]:
    matcher = difflib.SequenceMatcher(
        a=[token.text for token in before], b=[token.text for token in after], autojunk=False
    )
    for operation, a_start, a_end, b_start, b_end in matcher.get_opcodes():
        if operation == "equal":
            yield _run(Mark.SAME, before[a_start:a_end])
            continue
        if a_end > a_start:
            yield _run(Mark.DELETED, before[a_start:a_end])
        if b_end > b_start:
            yield _run(Mark.INSERTED, after[b_start:b_end])


def _run(mark: Mark, tokens: Sequence[_Token]) -> Run:
    text = "".join(("" if token.is_glued else " ") + token.text for token in tokens)
    return Run(mark=mark, text=text.strip(), is_glued=tokens[0].is_glued)
