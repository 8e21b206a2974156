"""From a text to the sentences a model corrects, and from the corrections back to edits.

The one idea: a text is cut into sentence bodies and the white space between them, so that joining
the pieces gives the text back to the byte, and whatever the model does to a body can be said as
edits at code-point offsets of the caller's own string. Pure: no model, no I/O.

Left out: languages whose sentences end without punctuation known here; such text is corrected one
line at a time.
"""

from __future__ import annotations

import collections
import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

_ABBREVIATIONS = frozenset(
    {"mr", "mrs", "ms", "dr", "prof", "st", "sr", "jr", "vs", "etc", "e.g", "i.e", "cf", "no"}
    | {"vol", "fig", "al", "approx", "inc", "ltd", "co"}
)
# Quotes and brackets that may close or open a sentence; the escapes are typographic quotes.
_CLOSING = r"""["'\u201d\u2019\u00bb)\]]"""
_CLOSING_WIDE = r"""["'\u201d\u2019\u00bb\u300d\u300f)\]]"""
_OPENING = "\"'\u201c\u2018(["
_WIDE_END = r"[\u3002\uff01\uff1f]"
# A sentence ends at a line break, at .!? (with closing quotes or brackets) before white space,
# or right after a full-width mark, which no white space follows.
# No alternative starts with a repetition: a megabyte of spaces must not take quadratic time.
_LINE_BREAK = re.compile(r"[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
_BREAK = re.compile(
    rf"{_LINE_BREAK.pattern}\s*"
    rf"|(?<=[.!?]){_CLOSING}*\s+"
    rf"|(?<={_WIDE_END})(?!{_WIDE_END}){_CLOSING_WIDE}*\s*"
)
# Accents and vowel signs that are characters of their own, and joiners, belong to what they follow.
_MARKS = "".join(c for c in map(chr, range(0x10000)) if unicodedata.category(c).startswith("M"))
_WORD = rf"\w[\w\u200c\u200d{_MARKS}]*"
_TOKEN = re.compile(rf"\s+|{_WORD}(?:['\u2019]{_WORD})*|[^\w\s][\u200d{_MARKS}]*")
_LONGEST_ABBREVIATION_CHARS = 12
_MOST_PASSED = 32
"""Abbreviations and the like after which a sentence goes on; without an end to them a megabyte of
"Mr. " is one sentence, and takes a second to read."""

_MOST_COMPARED = 800_000
"""Pairs of like tokens that are looked at to align a sentence, some 80 ms; 500,000 are enough for
245 words with every other one wrong. What is not aligned by then is one edit: two texts that share
nothing but their spaces would hold the event loop for seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """`text[start:end]` is a sentence without white space at its borders."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Replace `source[start:end]`, which is `original`, by `replacement`. Offsets: code points."""

    start: int
    end: int
    original: str
    replacement: str


def segments(text: str) -> Iterator[Segment]:
    """The sentences of a text, in order, lazily. What lies between them is white space only."""
    start = passed = 0
    for match in _BREAK.finditer(text):
        end = match.end()
        tail = text[max(start, match.start() - _LONGEST_ABBREVIATION_CHARS) : match.start()]
        if passed < _MOST_PASSED and _goes_on(tail, match.group(), text[end : end + 1]):
            passed += 1
        else:
            yield from _trimmed(text, start, end)
            start, passed = end, 0
    yield from _trimmed(text, start, len(text))


def _trimmed(text: str, start: int, end: int) -> Iterable[Segment]:
    piece = text[start:end]
    lead = len(piece) - len(piece.lstrip())
    body = piece.strip()
    if body:
        yield Segment(start=start + lead, end=start + lead + len(body))


def _goes_on(tail: str, gap: str, following: str) -> bool:
    """Whether the sentence goes on past `tail` and `gap`; `following` is the next character."""
    if _LINE_BREAK.search(gap) or not tail:
        return False
    if gap.strip() or tail.endswith(".."):
        return following.islower()  # '"What?" he said', 'Well... maybe'
    if not tail.endswith("."):
        return False
    last = tail[:-1].split()[-1:]
    word = last[0].lstrip(_OPENING) if last else ""
    return word.lower() in _ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I")


def rejoin(text: str, bodies: Sequence[str], parts: Sequence[Segment]) -> str:
    """The text with the body of each segment replaced; white space between them is kept."""
    pieces: list[str] = []
    done = 0
    for part, body in zip(parts, bodies, strict=True):
        pieces += (text[done : part.start], body)
        done = part.end
    return "".join([*pieces, text[done:]])


def edits(source: str, corrected: str, *, offset: int = 0) -> tuple[Edit, ...]:
    """Word-level edits that turn `source` into `corrected`, exactly, in order, not overlapping.

    `offset` is added to every position: where `source` begins in the caller's own string.
    """
    old, new = _TOKEN.findall(source), _TOKEN.findall(corrected)
    starts = [offset]
    for token in old:
        starts.append(starts[-1] + len(token))
    return tuple(
        Edit(
            start=starts[i1],
            end=starts[i2],
            original="".join(old[i1:i2]),
            replacement="".join(new[j1:j2]),
        )
        for i1, i2, j1, j2 in _changes(old, new)
    )


def _changes(old: list[str], new: list[str]) -> Iterable[tuple[int, int, int, int]]:
    """The differing ranges of two token lists."""
    head = _common_prefix(old, new)
    tail = _common_prefix(old[head:][::-1], new[head:][::-1])
    middle_old = old[head : len(old) - tail]
    middle_new = new[head : len(new) - tail]
    if not middle_old and not middle_new:
        return
    for tag, i1, i2, j1, j2 in _Matcher(middle_old, middle_new).get_opcodes():
        if tag != "equal":
            yield head + i1, head + i2, head + j1, head + j2


class _Matcher(difflib.SequenceMatcher[str]):
    """Finds what two token lists share, until it has compared enough."""

    def __init__(self, old: list[str], new: list[str]) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._old, self._alike = old, collections.Counter(new)
        self._left = _MOST_COMPARED

    def find_longest_match(
        self, from_old: int = 0, to_old: int | None = None,
        from_new: int = 0, to_new: int | None = None,
    ) -> difflib.Match:  # fmt: skip
        """The longest run of like tokens in a range, empty once enough was compared."""
        self._left -= sum(self._alike[each] for each in self._old[from_old:to_old])
        if self._left < 0:
            return difflib.Match(from_old, from_new, 0)
        return super().find_longest_match(from_old, to_old, from_new, to_new)


def _common_prefix(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def apply_edits(source: str, changes: Iterable[Edit]) -> str:
    """`source` with the edits made.

    Raises:
        ValueError: an edit's `original` is not what stands at its place.
    """
    pieces: list[str] = []
    done = 0
    for edit in changes:
        if source[edit.start : edit.end] != edit.original or edit.start < done:
            raise ValueError(
                f"edit at {edit.start}..{edit.end} expects {edit.original!r}, "
                f"the source has {source[edit.start : edit.end]!r}"
            )
        pieces += (source[done : edit.start], edit.replacement)
        done = edit.end
    return "".join([*pieces, source[done:]])
