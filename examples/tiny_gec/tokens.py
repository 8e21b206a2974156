"""A sentence as words that know which mistakes could be made in them.

The phrase that builds a word knows its context, so it also says there which wrong forms would be
plainly wrong and have one right correction. Injecting errors is then only choosing among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Label(StrEnum):
    """The kinds of error, one gate each."""

    DETERMINER = "determiner"  # a/an, much/many, or the determiner is missing
    NOUN_NUMBER = "noun_number"  # "two book", "every days", "informations"
    AGREEMENT = "agreement"  # the verb does not agree with its subject
    VERB_FORM = "verb_form"  # "could goes", "has went", "yesterday she goes"
    SPELLING = "spelling"


@dataclass(frozen=True, slots=True)
class Fault:
    """One wrong form a word can take; empty text means that the word is missing."""

    label: Label
    text: str


@dataclass(frozen=True, slots=True)
class Token:
    """A word of a correct sentence, with the faults that could befall it.

    At most one word of a `group` is ever wrong: were a noun and its verb wrong together, they
    would agree again. An empty group is a group of its own.
    """

    text: str
    faults: tuple[Fault, ...] = ()
    group: str = ""


def word(text: str, *faults: Fault, group: str = "") -> Token:
    """A token whose faults are those that differ from it (so tables need no special cases)."""
    return Token(text, tuple(fault for fault in faults if fault.text != text), group)


def plain(text: str) -> tuple[Token, ...]:
    """Words with no faults of their own (they may still be misspelled)."""
    return tuple(Token(part) for part in text.split())


def render(words: Sequence[str], end: str) -> str:
    """The words as a written sentence; empty words are left out."""
    joined = " ".join(filter(None, words))
    return joined[0].upper() + joined[1:] + end
