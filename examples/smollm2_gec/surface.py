"""Errors that show on the surface: prepositions, marks, capitals, order, and the wrong word."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from examples.smollm2_gec import confusions, inflection, nominal, words
from examples.smollm2_gec.sentence import (
    Edit,
    Label,
    Token,
    deleted,
    inserted,
    lower_at,
    lowered,
    replaced,
    word,
)
from examples.smollm2_gec.verbal import BE, DO

NEVER_WITH_PREPOSITION = {
    **dict.fromkeys(("discuss", "discussed", "discussing", "mention", "mentioned"), "about"),
    **dict.fromkeys(("reach", "reached", "enter", "visit", "visited", "contact"), "to"),
    **dict.fromkeys(("answer", "join", "affect", "affects", "approach"), "to"),
    **dict.fromkeys(("marry", "married", "face", "resemble"), "with"),
}
DETERMINER_LIKE = words.listed("the a an this these those my your his her our their its")


@functools.cache
def _collocations() -> Mapping[tuple[str, str], tuple[str, ...]]:
    table = {}
    for line in confusions.COLLOCATIONS:
        head, right, wrong = line.split("|")
        table[head, right] = tuple(wrong.split())
    return MappingProxyType(table)


def preposition_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """A preposition that does not go with its word, none, or one too many."""
    label = Label.PREPOSITION
    for index in range(1, len(tokens)):
        text, before = lower_at(tokens, index), lower_at(tokens, index - 1)
        fixed = _collocations().get((before, text))
        if fixed:
            for wrong in fixed:
                is_left_out = wrong == "_"
                yield (
                    deleted(tokens, index, label)
                    if is_left_out
                    else replaced(tokens, index, wrong, label)
                )
        elif before.isalpha() and lower_at(tokens, index + 1) in DETERMINER_LIKE:
            for wrong in confusions.PREPOSITION_SLIPS.get(text, ())[:2]:
                yield replaced(tokens, index, wrong, label)
        extra = NEVER_WITH_PREPOSITION.get(before)
        if extra and text in DETERMINER_LIKE:
            yield inserted(tokens, index, extra, label)


def punctuation_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Commas and stops left out or misplaced, apostrophes left out."""
    label = Label.PUNCTUATION
    for index, token in enumerate(tokens):
        text, before = token.lower, lower_at(tokens, index - 1)
        if _mark_is_needed(tokens, index):
            yield deleted(tokens, index, label)
        elif text == "that" and before in {"think", "say", "believe", "know", "said", "is"}:
            yield inserted(tokens, index, ",", label)
        elif text == "because" and before.isalpha() and index > 1:
            yield inserted(tokens, index + 1, ",", label)
        elif text in {"n't", "'s", "'re", "'ve", "'m"} and before.isalpha():
            yield _joined(tokens, index - 1, text.replace("'", ""))


def _mark_is_needed(tokens: Sequence[Token], index: int) -> bool:
    if tokens[index].text == ",":
        return _comma_is_needed(tokens, index)
    ends = index == len(tokens) - 1 and lower_at(tokens, index - 1).isalpha()
    return ends and tokens[index].text in {".", "?"}


def _comma_is_needed(tokens: Sequence[Token], index: int) -> bool:
    before, following = lower_at(tokens, index - 1), lower_at(tokens, index + 1)
    opens = index == 1 and before in words.INTRODUCTIONS
    phrase = " ".join(lower_at(tokens, at) for at in range(index))
    opens |= phrase in {"for example", "in addition", "in conclusion", "of course", "in my opinion"}
    return opens or following in {"but", "so", "which"} or _is_in_list(tokens, index)


def _is_in_list(tokens: Sequence[Token], index: int) -> bool:
    marks = [at for at, token in enumerate(tokens) if token.text == ","]
    is_single_item = any(0 < abs(at - index) == 2 for at in marks)
    return is_single_item and lower_at(tokens, index + 1) not in {"and", "or"}


def _joined(tokens: Sequence[Token], index: int, ending: str) -> Edit:
    wrong = Token(tokens[index].text + ending, tokens[index].has_space_before)
    return Edit(start=index, end=index + 2, wrong=(wrong,), label=Label.PUNCTUATION)


def capital_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Small letters at the start, in "I" and in names; a common noun with a capital."""
    for index, token in enumerate(tokens):
        if token.is_word and token.text[0].isupper() and not token.text.isupper():
            yield _recased(tokens, index, token.lower)
        elif token.text == "I":
            yield _recased(tokens, index, "i")


def _recased(tokens: Sequence[Token], index: int, text: str) -> Edit:
    wrong = Token(text, tokens[index].has_space_before)
    return Edit(start=index, end=index + 1, wrong=(wrong,), label=Label.CAPITAL)


def order_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Two neighbors in the wrong order: a city big, go always, not can."""
    for index in range(1, len(tokens) - 1):
        first, second = lower_at(tokens, index), lower_at(tokens, index + 1)
        before = lower_at(tokens, index - 1)
        is_phrase = before in words.DETERMINERS and first in words.ADJECTIVES - words.DETERMINERS
        is_verb = second in inflection.by_form("third") or second in inflection.by_form("past")
        if (
            (is_phrase and nominal.head_of(tokens, index) == index + 1)
            or (first in words.FREQUENCY and is_verb and before not in BE)
            or (first in words.MODALS | DO and second == "not")
            or (second == "enough" and first in words.ADJECTIVES)
        ):
            yield _swapped(tokens, index)


def _swapped(tokens: Sequence[Token], index: int) -> Edit:
    first, second = tokens[index], tokens[index + 1]
    wrong = (word(lowered(second), first), Token(lowered(first), second.has_space_before))
    return Edit(start=index, end=index + 2, wrong=wrong, label=Label.WORD_ORDER)


def word_form_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """A word of the same family but another part of speech; comparatives doubled."""
    for index, token in enumerate(tokens):
        for wrong in sorted(inflection.families().get(token.lower, ())):
            yield replaced(tokens, index, wrong, Label.WORD_FORM)
        if token.lower in {"better", "easier", "bigger", "cheaper", "older", "younger", "larger"}:
            yield replaced(tokens, index, f"more {token.lower}", Label.WORD_FORM)


def word_choice_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """A word that is often taken for the right one."""
    for index, token in enumerate(tokens):
        for wrong in sorted(_choices().get(token.lower, ())):
            yield replaced(tokens, index, wrong, Label.WORD_CHOICE)


@functools.cache
def _choices() -> Mapping[str, frozenset[str]]:
    """Confusions in every listed form: say/tell are also said/told."""
    found: dict[str, set[str]] = defaultdict(set)
    for right, wrongs in inflection.confusions().items():
        found[right] |= wrongs
        for wrong in wrongs:
            ours, theirs = inflection.verbs().get(right), inflection.verbs().get(wrong)
            if ours and theirs:
                for form in ("third", "past", "participle", "gerund"):
                    found[getattr(ours, form)].add(getattr(theirs, form))
    return MappingProxyType({right: frozenset(wrongs) for right, wrongs in found.items()})
