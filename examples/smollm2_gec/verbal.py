"""Errors in verbs: agreement with the subject, forms after auxiliaries, and missing "be".

An edit is offered only where the word before decides the form: "she go", "can goes", "to went".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from examples.smollm2_gec import inflection, words
from examples.smollm2_gec.inflection import Verb
from examples.smollm2_gec.sentence import Edit, Label, Token, deleted, lower_at, replaced

BE = words.listed("am is are was were be been being")
HAVE = words.listed("have has had")
DO = words.listed("do does did")
SINGULAR_PRONOUNS = words.listed("he she everyone everybody someone nobody")
PLURAL_PRONOUNS = words.listed("they we")
# These may be objects too, so they count as subjects only where a clause begins.
EITHER_CASE = {"it": True, "you": False, "this": True, "people": False}
CLAUSE_OPENERS = words.listed("and but because if when that so although while")
AGREEING = {
    **{"is": "are", "are": "is", "was": "were", "were": "was"},
    **{"has": "have", "have": "has", "does": "do", "do": "does"},
}
SINGULAR_FORMS = words.listed("is was has does")
BEFORE_GERUND = words.listed("of for by in without before after about at from")
BEFORE_INFINITIVE = words.listed(
    "want wants wanted need needs needed decide decided hope hopes hoped able try tries tried "
    "have has had going like likes"
)
IRREALIS = words.listed("if wish wishes though suggest suggests demand")


def agreement_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Verbs that no longer agree with the subject that stands right before them."""
    for index, token in enumerate(tokens):
        is_singular = subject_is_singular(tokens, index)
        wrong = "" if is_singular is None else _disagreeing(token.lower, is_singular)
        is_irrealis = token.lower in {"was", "were"} and _has(tokens, IRREALIS)
        if wrong and not is_irrealis:
            yield replaced(tokens, index, wrong, Label.AGREEMENT)
    yield from _there_is(tokens)
    yield from _first_person(tokens)


def _disagreeing(text: str, is_singular: bool) -> str:
    """The form of the other number; empty if the verb is not known or shows no number."""
    if text in AGREEING:
        return AGREEING[text] if (text in SINGULAR_FORMS) == is_singular else ""
    if is_singular:
        verb = inflection.by_form("third").get(text)
        return verb.base if verb and text not in inflection.singulars() else ""
    verb = inflection.by_form("base").get(text)
    return verb.third if verb and not _may_be_noun(text) and verb.base != verb.past else ""


def _has(tokens: Sequence[Token], wanted: frozenset[str]) -> bool:
    return any(token.lower in wanted for token in tokens)


def _may_be_noun(text: str) -> bool:
    return text in words.COUNT_NOUNS or text in words.MASS_NOUNS


def subject_is_singular(tokens: Sequence[Token], index: int) -> bool | None:
    """The number of the subject whose verb is at `index`; None if that is not plain to see."""
    subject, before = lower_at(tokens, index - 1), lower_at(tokens, index - 2)
    if before in BE | HAVE | DO | words.MODALS:  # a question, or "let"
        return None
    if subject in SINGULAR_PRONOUNS:
        return True
    if subject in PLURAL_PRONOUNS:
        return False
    if subject in EITHER_CASE:
        opens = index == 1 or before in CLAUSE_OPENERS or before == ","
        return EITHER_CASE[subject] if opens else None
    return _noun_is_singular(tokens, index - 1)


def _noun_is_singular(tokens: Sequence[Token], index: int) -> bool | None:
    """The same for a noun, which must open the sentence with nothing but its phrase before it."""
    text = lower_at(tokens, index)
    is_plural = text in inflection.singulars()
    if not is_plural and text not in inflection.plurals():
        return None
    start = index
    while start > 0 and _in_phrase(lower_at(tokens, start - 1)):
        start -= 1
    before = lower_at(tokens, start - 1)
    is_subject = start == 0 or before in CLAUSE_OPENERS - {"and"} or before == ","
    is_phrase = is_plural or lower_at(tokens, start) in words.DETERMINERS
    return not is_plural if is_subject and is_phrase else None


def _in_phrase(text: str) -> bool:
    return text in words.ADJECTIVES | words.ADVERBS | words.DETERMINERS - {"that"}


def _there_is(tokens: Sequence[Token]) -> Iterator[Edit]:
    for index in range(1, len(tokens)):
        text, following = lower_at(tokens, index), lower_at(tokens, index + 1)
        if lower_at(tokens, index - 1) == "there" and text in {"is", "are", "was", "were"}:
            is_plural = following in {"many", "several", "two", "three", "some"}
            if following in {"a", "an", "no"} or (is_plural and text in {"are", "were"}):
                yield replaced(tokens, index, AGREEING[text], Label.AGREEMENT)


def _first_person(tokens: Sequence[Token]) -> Iterator[Edit]:
    for index in range(1, len(tokens)):
        if lower_at(tokens, index - 1) == "i" and lower_at(tokens, index) in {"am", "have"}:
            wrong = {"am": "is", "have": "has"}[lower_at(tokens, index)]
            yield replaced(tokens, index, wrong, Label.AGREEMENT)


def form_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Verbs in a form that the word before them does not allow, and made-up pasts."""
    for index, token in enumerate(tokens):
        for wrong in sorted(_wrong_forms(tokens, index) - {token.lower, ""}):
            yield replaced(tokens, index, wrong, Label.VERB_FORM)


def _wrong_forms(tokens: Sequence[Token], index: int) -> frozenset[str]:
    text = lower_at(tokens, index)
    at = index - 2 if lower_at(tokens, index - 1) in {"not", "n't", "always"} else index - 1
    before = lower_at(tokens, at)
    found = frozenset[str]()
    if verb := inflection.by_form("base").get(text):
        found |= _instead_of_base(verb, before)
    if (verb := inflection.by_form("participle").get(text)) and verb.participle != verb.base:
        found |= _instead_of_participle(verb, before)
    if verb := inflection.by_form("gerund").get(text):
        found |= _instead_of_gerund(verb, before)
    is_after_pronoun = before in PLURAL_PRONOUNS | SINGULAR_PRONOUNS | {"i"}
    if is_after_pronoun and (verb := inflection.by_form("past").get(text)):
        found |= {inflection.regular_past(verb.base)} if verb.past != verb.base else frozenset()
    return found


def _instead_of_base(verb: Verb, before: str) -> frozenset[str]:
    if before in words.MODALS:
        return frozenset({verb.third, verb.past, verb.gerund, f"to {verb.base}"})
    if before in DO:
        return frozenset({verb.third, verb.past, verb.gerund})
    if before == "to" and not _may_be_noun(verb.base):
        return frozenset({verb.past, verb.gerund})
    return frozenset()


def _instead_of_participle(verb: Verb, before: str) -> frozenset[str]:
    if before in HAVE and not _may_be_noun(verb.base):
        return frozenset({verb.base, verb.past})
    if before in {"is", "are", "was", "were", "been", "be"}:
        return frozenset({verb.base, verb.past})
    return frozenset()


def _instead_of_gerund(verb: Verb, before: str) -> frozenset[str]:
    if before in BEFORE_GERUND and not _may_be_noun(verb.base):
        return frozenset({verb.base, f"to {verb.base}"})
    if before in {"is", "are", "was", "were", "am"}:
        return frozenset({verb.base})
    if before in {"enjoy", "enjoys", "enjoyed", "avoid", "stop", "keep", "finish"}:
        return frozenset({verb.base, f"to {verb.base}"})
    return frozenset()


def missing_options(tokens: Sequence[Token]) -> Iterator[Edit]:
    """Without "be", "to", "of" or a pronoun that a sentence cannot do without."""
    for index in range(1, len(tokens)):
        if _is_needed(*(lower_at(tokens, index + offset) for offset in (-1, 0, 1))):
            yield deleted(tokens, index, Label.MISSING_WORD)


def _is_needed(before: str, text: str, following: str) -> bool:
    if text in BE:
        return _needs_be(before, following)
    if text == "to":
        return before in BEFORE_INFINITIVE and following in inflection.verbs()
    if text in {"it", "they", "he", "she"}:
        opens = before in CLAUSE_OPENERS - {"that", "and"}
        return opens and following in BE | words.MODALS
    return text == "of" and before in {"lot", "lots", "kind", "kinds", "number", "most"}


def _needs_be(before: str, following: str) -> bool:
    is_subject = before in SINGULAR_PRONOUNS | PLURAL_PRONOUNS | EITHER_CASE.keys() | {"there"}
    is_noun = before in inflection.singulars() or before in inflection.plurals()
    predicate = words.ADJECTIVES | words.ADVERBS | {"a", "an", "the", "not", "in", "able"}
    is_predicate = following in predicate or following in inflection.by_form("gerund")
    return is_predicate and (is_subject or is_noun or before in words.MODALS)
