"""Misspellings that can be undone: near one known word, and near no other.

Each word has a fixed handful of typical slips (letters swapped, dropped, doubled, a wrong vowel),
because people misspell a word in a few ways, not in all.
"""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from examples.tiny_gec import lexicon

MIN_LENGTH = 4  # shorter words have too little left to be recognized by
SLIPS_PER_WORD = 3
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOWELS = "aeiou"


@functools.cache
def slips() -> Mapping[str, tuple[str, ...]]:
    """For each word that can be misspelled, its misspellings (at most `SLIPS_PER_WORD`)."""
    neighbors = Counter(near for known in lexicon.known_words() for near in edits(known))
    table = {}
    for text in sorted(lexicon.content_words()):
        if len(text) >= MIN_LENGTH:
            clear = {slip for slip in _slips_of(text) if _is_clear(slip, neighbors)}
            table[text] = tuple(sorted(clear, key=_shuffled)[:SLIPS_PER_WORD])
    return MappingProxyType({text: found for text, found in table.items() if found})


def edits(text: str) -> set[str]:
    """Every string one insertion, deletion, substitution or swap of neighbors away."""
    splits = [(text[:i], text[i:]) for i in range(len(text) + 1)]
    deleted = {head + tail[1:] for head, tail in splits if tail}
    swapped = {head + tail[1] + tail[0] + tail[2:] for head, tail in splits if len(tail) > 1}
    replaced = {head + letter + tail[1:] for head, tail in splits if tail for letter in LETTERS}
    inserted = {head + letter + tail for head, tail in splits for letter in LETTERS}
    return (deleted | swapped | replaced | inserted) - {text}


def _slips_of(text: str) -> Iterator[str]:
    """The first letter always stays: it carries the most, and decides between "a" and "an"."""
    for i in range(1, len(text)):
        head, letter, tail = text[:i], text[i], text[i + 1 :]
        yield head + tail
        if letter not in (head[-1], tail[:1]):
            yield head + letter + letter + tail
        if tail:
            yield head + tail[0] + letter + tail[1:]
        if letter in VOWELS:
            yield from (head + vowel + tail for vowel in VOWELS if vowel != letter)


def _is_clear(slip: str, neighbors: Counter[str]) -> bool:
    is_known = slip in lexicon.known_words() or slip in lexicon.OTHER_WORDS
    return not is_known and neighbors[slip] == 1


def _shuffled(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
