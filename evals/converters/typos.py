"""Sentences with one misspelled word, made of a dictionary of misspellings and a few frames.

A dictionary line is `typo->word`; one that offers several words, or gives a reason to be careful,
is left out. The one idea: which word goes into which frame and is misspelled how is decided by
hash, so the same dictionary and frames make the same sentences everywhere.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from typing import Literal

import pydantic

from evals import errors, textfile
from evals.converters import base
from evals.m2 import Edit
from evals.suite import Example

_WORD = "{word}"
_ARROW = "->"
_PLAIN = re.compile(r"[a-z]+")


class Frame(base.Options):
    """Sentences that any word with one of the endings fits into."""

    endings: tuple[base.NonEmpty, ...] = pydantic.Field(min_length=1)
    sentences: tuple[base.NonEmpty, ...] = pydantic.Field(min_length=1)
    """Each holds `{word}` once, between spaces: the word must be a token of its own."""

    @pydantic.field_validator("sentences")
    @classmethod
    def _has_a_gap(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for sentence in value:
            if sentence.split().count(_WORD) != 1:
                raise ValueError(f"needs {_WORD} once, between spaces: {sentence!r}")
        return value


class Typos(base.Options):
    """A dictionary of misspellings and the frames to put them in."""

    name: Literal["typos"]
    file: base.NonEmpty
    frames: tuple[Frame, ...] = pydantic.Field(min_length=1)
    least_letters: int = pydantic.Field(default=8, ge=1)
    """Shorter words are left out: their misspellings tend to be words too."""
    correct: bool = False
    """Make the sentences without the mistake, for a suite of clean text."""

    def examples(self, files: base.Files) -> Iterator[Example]:
        """One example per word that fits a frame, by word; the id is the word."""
        found = _typos_by_word(files.read(self.file), files.label(self.file))
        for word, typos in sorted(found.items()):
            frame = self._frame(word)
            if frame is not None:
                yield self._example(word, min(typos, key=_rank), frame)

    def _frame(self, word: str) -> Frame | None:
        if len(word) < self.least_letters or not _PLAIN.fullmatch(word):
            return None
        return next((frame for frame in self.frames if word.endswith(frame.endings)), None)

    def _example(self, word: str, typo: str, frame: Frame) -> Example:
        sentence = frame.sentences[int(_rank(word), 16) % len(frame.sentences)]
        right = sentence.replace(_WORD, word)
        if self.correct:
            return Example(id=word, source=right, references=(right,), edits=((),))
        place = sentence.split().index(_WORD)
        edit = Edit(start=place, end=place + 1, replacements=(word,), type="R:SPELL")
        return Example(
            id=word,
            source=sentence.replace(_WORD, typo),
            references=(right,),
            tags=(mistake(typo, word),),
            edits=((edit,),),
        )


def mistake(typo: str, word: str) -> str:
    """What kind of slip makes the word the typo."""
    if len(typo) == len(word):
        wrong = [i for i, (a, b) in enumerate(zip(typo, word, strict=True)) if a != b]
        if len(wrong) == 1:
            return "wrong_letter"
        if len(wrong) == 2 and typo == _swapped(word, wrong):
            return "swapped_letters"
        return "several_slips"
    longer, shorter = (typo, word) if len(typo) > len(word) else (word, typo)
    letters = enumerate(zip(longer, shorter, strict=False))
    slip = next((i for i, (a, b) in letters if a != b), len(shorter))
    if longer[:slip] + longer[slip + 1 :] != shorter:
        return "several_slips"
    return "extra_letter" if longer is typo else "missing_letter"


def _swapped(word: str, at: Sequence[int]) -> str:
    letters = list(word)
    letters[at[0]], letters[at[1]] = letters[at[1]], letters[at[0]]
    return "".join(letters)


def _typos_by_word(data: bytes, name: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in textfile.lines(data, name):
        typo, arrow, word = line.text.strip().partition(_ARROW)
        if not arrow or not typo or not word or typo == word:
            raise errors.SuiteInvalid(
                f"{line.where}: expected `typo{_ARROW}word`, two words, found {line.text[:40]!r}"
            )
        if "," not in word and _PLAIN.fullmatch(typo):
            found.setdefault(word, []).append(typo)
    return found


def _rank(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
