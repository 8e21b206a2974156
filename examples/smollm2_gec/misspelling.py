"""Misspellings: those that people were seen to make, and slips of the kinds they make.

The first come from the dictionary of the installed `codespell` package (CC BY-SA 3.0), which is
read where it lies and never copied. A slip is kept only if it is no word itself, as far as the
vocabulary knows.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from types import MappingProxyType

from examples.smollm2_gec.sentence import Edit, Label, Token, replaced

MIN_LETTERS = 4
# Vowels that are taken for one another.
VOWEL_SLIPS = {"a": "eo", "e": "aiu", "i": "ey", "o": "aue", "u": "oe"}
# What sounds or looks alike; tried in both directions.
ALIKE = (
    *(
        ("ie", "ei"),
        ("ent", "ant"),
        ("ence", "ance"),
        ("ible", "able"),
        ("ph", "f"),
        ("tion", "sion"),
    ),
    *(("ck", "k"), ("ou", "o"), ("ea", "e"), ("ee", "e"), ("ai", "a"), ("gh", "g"), ("c", "s")),
    *(("c", "k"), ("s", "z"), ("y", "i"), ("er", "or"), ("wh", "w"), ("v", "b"), ("l", "r")),
    *(("ful", "full"), ("ely", "ly"), ("qu", "q"), ("tch", "ch"), ("dge", "ge"), ("sc", "s")),
)


@functools.cache
def observed() -> Mapping[str, tuple[str, ...]]:
    """Misspellings by right word, of those in the dictionary with one right word."""
    import codespell_lib

    found: dict[str, list[str]] = defaultdict(list)
    path = Path(codespell_lib.__file__).parent / "data" / "dictionary.txt"
    for line in path.read_text(encoding="utf-8").splitlines():
        wrong, _, right = line.partition("->")
        if right.isalpha() and wrong.isalpha() and wrong.islower():
            found[right].append(wrong)
    return MappingProxyType({right: tuple(wrongs) for right, wrongs in found.items()})


@functools.cache
def known_typos() -> frozenset[str]:
    """Every observed misspelling, whatever it stands for."""
    return frozenset(wrong for wrongs in observed().values() for wrong in wrongs)


@functools.cache
def slips(text: str) -> tuple[str, ...]:
    """Typical slips on a lower-case word, in a fixed order; the first letter always stays."""
    return tuple(sorted({slip for slip in _slips(text) if slip[0] == text[0]} - {text}))


def _slips(text: str) -> Iterator[str]:
    for index in range(1, len(text)):
        head, letter, tail = text[:index], text[index], text[index + 1 :]
        if letter == head[-1] or letter in VOWEL_SLIPS:
            yield head + tail
        if letter != head[-1] and letter != tail[:1]:
            yield head + letter + letter + tail
        if tail:
            yield head + tail[0] + letter + tail[1:]
        yield from (head + vowel + tail for vowel in VOWEL_SLIPS.get(letter, ""))
    for one, other in ALIKE:
        for old, new in ((one, other), (other, one)):
            if old in text[1:]:
                yield text[0] + text[1:].replace(old, new, 1)


class Speller:
    """Offers misspellings that are not in a vocabulary of right words."""

    def __init__(self, vocabulary: Set[str]) -> None:
        self._vocabulary = vocabulary

    def misspellings(self, text: str) -> tuple[str, ...]:
        """Ways to misspell a lower-case word; the observed ones first."""
        both = dict.fromkeys((*observed().get(text, ()), *slips(text)))
        return tuple(slip for slip in both if slip not in self._vocabulary)

    def options(self, tokens: Sequence[Token]) -> Iterator[Edit]:
        """Every misspelling of every word that is long enough and no name."""
        for index, token in enumerate(tokens):
            is_name = token.text[0].isupper() and index > 0
            if token.is_word and len(token.text) >= MIN_LETTERS and not is_name:
                for wrong in self.misspellings(token.lower):
                    yield replaced(tokens, index, wrong, Label.SPELLING)
