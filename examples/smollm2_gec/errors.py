"""Puts labeled errors into clean English sentences.

Which errors a sentence offers is decided by pure functions, one per label; drawing takes a seeded
random generator, so the same seed spoils the same sentences in the same way. An error of number
(determiner, noun, verb) keeps away from another one: two of them can cancel out, and "this book"
spoiled twice would be "these books", which is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

from examples.smollm2_gec import nominal, surface, verbal
from examples.smollm2_gec.misspelling import Speller
from examples.smollm2_gec.sentence import Corruption, Edit, Label, Token

Options = Callable[[Sequence[Token]], Iterator[Edit]]
NUMBER_LABELS = frozenset({Label.DETERMINER, Label.NOUN_NUMBER, Label.AGREEMENT})
NUMBER_DISTANCE_TOKENS = 6
TOKENS_PER_ERROR = 4  # a sentence gets no more errors than one in so many tokens
WEIGHTS: Mapping[Label, float] = MappingProxyType(
    {
        Label.SPELLING: 18,
        Label.DETERMINER: 18,
        Label.NOUN_NUMBER: 20,
        Label.AGREEMENT: 14,
        Label.VERB_FORM: 14,
        Label.PREPOSITION: 8,
        Label.PUNCTUATION: 4,
        Label.CAPITAL: 3,
        Label.WORD_ORDER: 3,
        Label.WORD_FORM: 8,
        Label.WORD_CHOICE: 5,
        Label.MISSING_WORD: 8,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How often what goes wrong."""

    weights: Mapping[Label, float] = field(default_factory=lambda: WEIGHTS)
    errors: tuple[float, ...] = (0.32, 0.33, 0.22, 0.13)  # chances of 1, 2, 3 … errors

    def __post_init__(self) -> None:
        if not self.errors or min(self.errors) < 0 or sum(self.errors) <= 0:
            raise ValueError(f"errors must be chances with a positive sum, got {self.errors}")
        if set(self.weights) != set(Label):
            missing = sorted(set(Label) - set(self.weights))
            raise ValueError(f"weights must name every label, missing: {missing}")


class Spoiler:
    """Knows every error that a sentence offers, and draws some."""

    def __init__(self, speller: Speller, rates: Rates | None = None) -> None:
        self._rates = rates or Rates()
        self._options: Mapping[Label, Options] = {
            Label.SPELLING: speller.options,
            Label.DETERMINER: nominal.determiner_options,
            Label.NOUN_NUMBER: nominal.number_options,
            Label.AGREEMENT: verbal.agreement_options,
            Label.VERB_FORM: verbal.form_options,
            Label.PREPOSITION: surface.preposition_options,
            Label.PUNCTUATION: surface.punctuation_options,
            Label.CAPITAL: surface.capital_options,
            Label.WORD_ORDER: surface.order_options,
            Label.WORD_FORM: surface.word_form_options,
            Label.WORD_CHOICE: surface.word_choice_options,
            Label.MISSING_WORD: verbal.missing_options,
        }

    def options(self, tokens: Sequence[Token], label: Label) -> list[Edit]:
        """The errors of one kind that a sentence offers, each of which changes its text."""
        return [edit for edit in self._options[label](tokens) if _changes(edit, tokens)]

    def spoil(self, tokens: Sequence[Token], rng: Random) -> Corruption:
        """The sentence with errors; with none if it offers none."""
        wanted = 1 + rng.choices(range(len(self._rates.errors)), self._rates.errors)[0]
        wanted = min(wanted, max(1, len(tokens) // TOKENS_PER_ERROR))
        labels = dict(self._rates.weights)
        chosen: list[Edit] = []
        while labels and len(chosen) < wanted:
            label = rng.choices(tuple(labels), tuple(labels.values()))[0]
            free = [edit for edit in self.options(tokens, label) if _fits(edit, chosen)]
            if free:
                chosen.append(_drawn(free, rng))
            else:
                del labels[label]
        return Corruption(tuple(tokens), tuple(sorted(chosen, key=lambda edit: edit.start)))


def _changes(edit: Edit, tokens: Sequence[Token]) -> bool:
    right = [token.text for token in tokens[edit.start : edit.end]]
    return [token.text for token in edit.wrong] != right


def _drawn(edits: Sequence[Edit], rng: Random) -> Edit:
    """A place first, then what goes wrong there: long words are not misspelled more often."""
    place = rng.choice(sorted({edit.start for edit in edits}))
    return rng.choice([edit for edit in edits if edit.start == place])


def _fits(edit: Edit, chosen: Sequence[Edit]) -> bool:
    return not any(edit.touches(other) or _may_cancel(edit, other) for other in chosen)


def _may_cancel(edit: Edit, other: Edit) -> bool:
    are_close = abs(edit.start - other.start) <= NUMBER_DISTANCE_TOKENS
    return are_close and edit.label in NUMBER_LABELS and other.label in NUMBER_LABELS
