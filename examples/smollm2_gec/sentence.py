"""Sentences as tokens, and edits on them that can be undone.

Tokens follow the Penn Treebank ("do n't", "John 's", punctuation apart), because corpora of
learner text are written so. One sentence can be shown in two styles: as people write, and with a
space around every token. An edit replaces a span of the right sentence with wrong words; the
edits of one corruption never touch one another, so each can be put back on its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass
from enum import StrEnum

TOKEN = re.compile(
    r"(?P<stem>[A-Za-z]+)(?P<negation>n't)(?![A-Za-z])"
    r"|(?P<clitic>'(?:s|re|ve|ll|d|m))(?![A-Za-z])"
    r"|(?P<word>[A-Za-z]+(?:-[A-Za-z]+)*|\d+(?:[.,:]\d+)*%?)"
    r"|(?P<mark>[^\sA-Za-z\d])"
)


class Label(StrEnum):
    """What is wrong in a span."""

    DETERMINER = "determiner"
    NOUN_NUMBER = "noun_number"
    AGREEMENT = "agreement"
    VERB_FORM = "verb_form"
    SPELLING = "spelling"
    PREPOSITION = "preposition"
    PUNCTUATION = "punctuation"
    CAPITAL = "capital"
    WORD_ORDER = "word_order"
    WORD_FORM = "word_form"
    WORD_CHOICE = "word_choice"
    MISSING_WORD = "missing_word"


class Style(StrEnum):
    """How a sentence is written down."""

    NATURAL = "natural"  # He doesn't go.
    TOKENIZED = "tokenized"  # He does n't go .


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a clitic or a mark, and whether a space stands before it in natural style."""

    text: str
    has_space_before: bool

    @property
    def lower(self) -> str:
        """The text in lower case."""
        return self.text.lower()

    @property
    def is_word(self) -> bool:
        """Whether it is made of letters (and is no clitic)."""
        return self.text[0].isalpha() and self.text != "n't"


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """Tokens `start` to `end` of the right sentence become `wrong`."""

    start: int
    end: int
    wrong: tuple[Token, ...]
    label: Label

    def touches(self, other: Edit) -> bool:
        """Whether both edits have a token or a border in common."""
        return self.start <= other.end and other.start <= self.end


@dataclass(frozen=True, slots=True)
class Corruption:
    """A right sentence and the edits that spoil it, in order; none of them leaves it clean."""

    right: tuple[Token, ...]
    edits: tuple[Edit, ...]

    def __post_init__(self) -> None:
        for before, after in itertools.pairwise(self.edits):
            if before.end >= after.start:
                raise ValueError(f"edits out of order, or touching: {before} and {after}")

    def tokens(self, labels: Set[Label] = frozenset(Label)) -> tuple[Token, ...]:
        """The sentence with the errors of these labels only; all of them make the source."""
        out: list[Token] = []
        done = 0
        for edit in self.edits:
            if edit.label in labels:
                out += [*self.right[done : edit.start], *edit.wrong]
                done = edit.end
        return (*out, *self.right[done:])

    @property
    def labels(self) -> tuple[Label, ...]:
        """The label of each edit."""
        return tuple(edit.label for edit in self.edits)


def tokenize(text: str) -> tuple[Token, ...]:
    """The tokens of a sentence; `render` in natural style gives the text back."""
    tokens: list[Token] = []
    end = 0
    for found in TOKEN.finditer(text):
        spaced = found.start() > end or found.start() == 0
        end = found.end()
        if found["negation"]:
            tokens.append(Token(found["stem"], spaced))
            tokens.append(Token("n't", False))
        elif found[0].lower() == "cannot":
            tokens += [Token(found[0][:3], spaced), Token("not", False)]
        else:
            tokens.append(Token(found[0], spaced))
    return tuple(tokens)


def render(tokens: Sequence[Token], style: Style) -> str:
    """The sentence as text."""
    if style is Style.TOKENIZED:
        return " ".join(token.text for token in tokens)
    text = "".join(" " * token.has_space_before + token.text for token in tokens)
    return text.strip()


def word(text: str, like: Token) -> Token:
    """A token that stands where another stood: same case at the start, same space."""
    if like.text[0].isupper() and like.text != "I":
        text = text[0].upper() + text[1:]
    return Token(text, like.has_space_before)


def replaced(tokens: Sequence[Token], index: int, wrong: str, label: Label) -> Edit:
    """The token at `index` becomes the words of `wrong`, of which there is at least one."""
    first, *others = wrong.split()
    new = (word(first, tokens[index]), *(Token(other, True) for other in others))
    return Edit(start=index, end=index + 1, wrong=new, label=label)


def deleted(tokens: Sequence[Token], index: int, label: Label) -> Edit:
    """The token at `index` is gone; at the start, the next one takes over its capital."""
    if index == 0 and len(tokens) > 1 and tokens[1].is_word:
        return Edit(start=0, end=2, wrong=(word(tokens[1].text, tokens[0]),), label=label)
    return Edit(start=index, end=index + 1, wrong=(), label=label)


def inserted(tokens: Sequence[Token], index: int, extra: str, label: Label) -> Edit:
    """A needless word before the token at `index`; at the start it takes over the capital."""
    if index == 0:
        new = (word(extra, tokens[0]), Token(lowered(tokens[0]), True))
        return Edit(start=0, end=1, wrong=new, label=label)
    return Edit(start=index, end=index, wrong=(Token(extra, extra != ","),), label=label)


def lowered(token: Token) -> str:
    """The text of a first word as it would stand inside a sentence."""
    return token.text if token.text == "I" else token.text[0].lower() + token.text[1:]


def lower_at(tokens: Sequence[Token], index: int) -> str:
    """The token in lower case; empty outside the sentence."""
    return tokens[index].lower if 0 <= index < len(tokens) else ""
