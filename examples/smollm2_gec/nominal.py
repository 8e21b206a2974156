"""Errors in noun phrases: determiners and number.

The rule throughout: an edit is offered only where the words around it show that the result is
wrong. "The book" may as well be "the books"; "this books" may not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.smollm2_gec import inflection, words
from examples.smollm2_gec.sentence import (
    Edit,
    Label,
    Token,
    deleted,
    inserted,
    lower_at,
    replaced,
)

MAX_MODIFIERS = 3
VOWEL_LETTERS = "aeio"  # before "u" the article depends on the sound
# With these after a preposition no article is no error: at school, in hospital, by bus.
BARE_PLACES = words.listed(
    "school church bed home university college class hospital town bus car train telephone"
)
NEEDS_THE = words.listed("same first last only best most")
FAKE_PLURALS = {
    "children": ("childrens", "childs"),  # codespell:ignore
    "men": ("mans",),
    "women": ("womans",),  # codespell:ignore
}


def head_of(tokens: Sequence[Token], start: int) -> int | None:
    """Index of the noun that a phrase beginning at `start` is about; None if it is not clear."""
    index = start
    while index - start < MAX_MODIFIERS and _is_modifier(lower_at(tokens, index)):
        index += 1
    if not _is_noun(lower_at(tokens, index)):
        return None
    while _is_noun(lower_at(tokens, index + 1)):
        index += 1
    return index if _ends_phrase(tokens, index + 1) else None


def _is_modifier(text: str) -> bool:
    return text in words.ADJECTIVES or text in words.ADVERBS


def _is_noun(text: str) -> bool:
    return text in inflection.plurals() or text in inflection.singulars() or _is_mass(text)


def _is_mass(text: str) -> bool:
    return text in words.MASS_NOUNS


def _ends_phrase(tokens: Sequence[Token], index: int) -> bool:
    """Whether no further noun can follow: a known word or a mark does."""
    text = lower_at(tokens, index)
    known = (
        text in words.PREPOSITIONS
        or text in words.MODALS
        or _is_surely_verb(text)
        or text in {"is", "are", "was", "were", "has", "have", "had", "do", "does", "and", "or"}
        or text in {"that", "who", "which", "because", "when", "if", "but", "to", "so", "as"}
    )
    return known or not text or not (text[0].isalpha() or text == "'s")


def _is_surely_verb(text: str) -> bool:
    forms = (inflection.by_form(form) for form in ("base", "third", "past"))
    return any(text in form for form in forms) and not _is_noun(text)


def _bare_heads(tokens: Sequence[Token]) -> Iterator[tuple[int, int]]:
    """Start and head of phrases that surely have no determiner."""
    for start in range(len(tokens)):
        before = lower_at(tokens, start - 1)
        opens = start == 0 or before in words.PREPOSITIONS or before in _transitive_forms()
        if opens and before not in words.DETERMINERS:
            head = head_of(tokens, start)
            if head is not None:
                yield start, head


def _transitive_forms() -> frozenset[str]:
    bases = words.listed(
        "buy use have like need love build find get give make read see sell want write"
    )
    known = (inflection.verbs().get(base) for base in bases)
    forms = ({verb.base, verb.third, verb.past, verb.gerund} for verb in known if verb)
    return frozenset().union(*forms)


def number_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Nouns in the number that their determiner, or the lack of one, forbids."""
    for index, token in enumerate(tokens):
        head = head_of(tokens, index + 1)
        wrong = "" if head is None else _other_number(tokens, index, lower_at(tokens, head))
        if head is not None and wrong:
            yield replaced(tokens, head, wrong, Label.NOUN_NUMBER)
        if token.lower in words.WRONGLY_COUNTED:
            yield replaced(tokens, index, inflection.plural_of(token.lower), Label.NOUN_NUMBER)
        for fake in FAKE_PLURALS.get(token.lower, ()):
            yield replaced(tokens, index, fake, Label.NOUN_NUMBER)
    for _, head in _bare_heads(tokens):
        if singular := inflection.singulars().get(lower_at(tokens, head)):
            yield replaced(tokens, head, singular, Label.NOUN_NUMBER)


def _other_number(tokens: Sequence[Token], index: int, noun: str) -> str:
    """The number that the determiner at `index` forbids; empty if it allows both."""
    if lower_at(tokens, index) in words.SINGULAR_ONLY:
        return inflection.plurals().get(noun, "")
    return inflection.singulars().get(noun, "") if _asks_for_plural(tokens, index) else ""


def _asks_for_plural(tokens: Sequence[Token], index: int) -> bool:
    text, before = lower_at(tokens, index), lower_at(tokens, index - 1)
    of_many = text in {"the", "my", "our", "their"} and before == "of"
    return (
        text in words.PLURAL_ONLY
        or (of_many and lower_at(tokens, index - 2) in {"one", "some", "many", "most"})
        or (text == "of" and before in {"lot", "lots", "kinds", "number", "types"})
    )


def determiner_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Articles left out, put where none belongs, or in the wrong form; this for these."""
    for index, token in enumerate(tokens):
        if token.lower in {"a", "an"}:
            yield from _a_options(tokens, index)
        elif token.lower == "the":
            yield from _the_options(tokens, index)
        elif token.lower in {"these", "those"}:
            if _head_text(tokens, index + 1) in inflection.singulars():
                wrong = "this" if token.lower == "these" else "that"
                yield replaced(tokens, index, wrong, Label.DETERMINER)
        elif token.lower == "this" and _head_text(tokens, index + 1) in inflection.plurals():
            yield replaced(tokens, index, "these", Label.DETERMINER)
    yield from _needless_articles(tokens)


def _head_text(tokens: Sequence[Token], start: int) -> str:
    head = head_of(tokens, start)
    return "" if head is None else lower_at(tokens, head)


def _a_options(tokens: Sequence[Token], index: int) -> Iterator[Edit]:
    following = lower_at(tokens, index + 1)
    is_vowel = following[:1] in VOWEL_LETTERS and following[:3] not in {"one", "onc", "eur"}
    if tokens[index].lower == "a" and following[:1] not in "uhaeio":
        yield replaced(tokens, index, "an", Label.DETERMINER)
    elif tokens[index].lower == "an" and following and is_vowel:
        yield replaced(tokens, index, "a", Label.DETERMINER)
    if _head_text(tokens, index + 1) in inflection.plurals():
        yield deleted(tokens, index, Label.DETERMINER)


def _the_options(tokens: Sequence[Token], index: int) -> Iterator[Edit]:
    head, following = _head_text(tokens, index + 1), lower_at(tokens, index + 1)
    is_bare_place = head in BARE_PLACES and lower_at(tokens, index - 1) in words.PREPOSITIONS
    if following in NEEDS_THE or (head in inflection.plurals() and not is_bare_place):
        yield deleted(tokens, index, Label.DETERMINER)
    if head in inflection.singulars():
        yield replaced(tokens, index, "a", Label.DETERMINER)


def _needless_articles(tokens: Sequence[Token]) -> Iterator[Edit]:
    for start, head in _bare_heads(tokens):
        text = lower_at(tokens, head)
        if text in inflection.singulars() or text in words.WRONGLY_COUNTED:
            article = "an" if lower_at(tokens, start)[0] in "aeiou" else "a"
            yield inserted(tokens, start, article, Label.DETERMINER)
        elif text in words.MASS_NOUNS:
            yield inserted(tokens, start, "the", Label.DETERMINER)
