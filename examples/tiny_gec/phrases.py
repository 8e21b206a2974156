"""Noun phrases, places and times: the parts clauses are made of, with their possible faults.

Each phrase takes the random source as its first argument and uses no other state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from examples.tiny_gec import lexicon
from examples.tiny_gec.lexicon import Kind, Noun
from examples.tiny_gec.tokens import Fault, Label, Token, plain, word

SUBJECT = "subject"
TIME = "time"


class Agreement(StrEnum):
    """What a verb must agree with."""

    FIRST = "I"
    SINGULAR = "singular"
    PLURAL = "plural"  # "you" included


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of a clause; `group` also belongs to the verb that agrees with it."""

    tokens: tuple[Token, ...]
    agreement: Agreement
    is_person: bool
    group: str = SUBJECT


PRONOUNS = (
    ("I", Agreement.FIRST),
    ("you", Agreement.PLURAL),
    ("we", Agreement.PLURAL),
    ("they", Agreement.PLURAL),
    ("he", Agreement.SINGULAR),
    ("she", Agreement.SINGULAR),
    ("he", Agreement.SINGULAR),
    ("she", Agreement.SINGULAR),
)


def subject(rng: Random) -> Subject:
    """Somebody who can act."""
    form = rng.choices(tuple(SUBJECTS), weights=tuple(SUBJECTS.values()))[0]
    return form(rng)


def thing_subject(rng: Random) -> Subject:
    """Something that can be described with a verb that shows number."""
    noun = rng.choice(lexicon.nouns(Kind.THING, Kind.TEXT, Kind.FOOD, Kind.PLACE, Kind.MASS))
    if noun.kind is Kind.MASS:
        return _mass_subject(rng, noun)
    return _determined(rng, noun, is_person=False)


def third_person(rng: Random) -> Subject:
    """A single person by pronoun or name, for "She is a teacher"."""
    text = rng.choice(("he", "she", *lexicon.NAMES))
    return _bare(text, Agreement.SINGULAR)


def _bare(text: str, agreement: Agreement) -> Subject:
    return Subject(tokens=plain(text), agreement=agreement, is_person=True)


def _pronoun(rng: Random) -> Subject:
    text, agreement = rng.choice(PRONOUNS)
    return _bare(text, agreement)


def _name(rng: Random) -> Subject:
    return _bare(rng.choice(lexicon.NAMES), Agreement.SINGULAR)


def _names(rng: Random) -> Subject:
    return _bare(" and ".join(rng.sample(lexicon.NAMES, 2)), Agreement.PLURAL)


def _people(rng: Random) -> Subject:
    noun = rng.choice(lexicon.nouns(Kind.PERSON))
    return _determined(rng, noun, is_person=True)


def _animal(rng: Random) -> Subject:
    noun = rng.choice(lexicon.nouns(Kind.ANIMAL))
    return _determined(rng, noun, is_person=False)


def _determined(rng: Random, noun: Noun, *, is_person: bool) -> Subject:
    """Determiner, adjective, noun. A determiner that shows number decides; the noun may fail it."""
    agreement = rng.choice((Agreement.SINGULAR, Agreement.PLURAL))
    is_plural = agreement is Agreement.PLURAL
    deciding = lexicon.PLURAL_DETERMINERS if is_plural else lexicon.SINGULAR_DETERMINERS
    decides = rng.random() < 0.55
    determiner = rng.choice(deciding if decides else ("the", rng.choice(lexicon.POSSESSIVES)))
    head = word(
        noun.plural if is_plural else noun.singular,
        *(number_faults(noun) if decides else ()),
        group=SUBJECT,
    )
    tokens = (Token(determiner), *adjective(rng, noun, share=0.25), head)
    return Subject(tokens=tokens, agreement=agreement, is_person=is_person)


def _people_somewhere(rng: Random) -> Subject:
    """A subject with another noun, often of the other number, between it and its verb."""
    people = _people(rng)
    place = rng.choice(lexicon.nouns(Kind.THING, Kind.PLACE))
    near = rng.choice((place.singular, place.plural))
    tokens = (*people.tokens, Token(rng.choice(lexicon.PREPOSITIONS)), Token("the"), Token(near))
    return Subject(tokens=tokens, agreement=people.agreement, is_person=True)


def _one_of(rng: Random) -> Subject:
    noun = rng.choice(lexicon.nouns(Kind.PERSON))
    owner = rng.choice(("the", rng.choice(lexicon.POSSESSIVES)))
    tokens = (*plain(f"one of {owner}"), word(noun.plural, *number_faults(noun), group=SUBJECT))
    return Subject(tokens=tokens, agreement=Agreement.SINGULAR, is_person=True)


def _mass_subject(rng: Random, noun: Noun) -> Subject:
    determiner = rng.choice(("the", "this", "that", rng.choice(lexicon.POSSESSIVES)))
    tokens = (Token(determiner), word(noun.singular, *number_faults(noun), group=SUBJECT))
    return Subject(tokens=tokens, agreement=Agreement.SINGULAR, is_person=False)


SUBJECTS: dict[Callable[[Random], Subject], int] = {
    _pronoun: 32,
    _name: 8,
    _names: 5,
    _people: 36,
    _animal: 3,
    _people_somewhere: 10,
    _one_of: 6,
}


def object_phrase(rng: Random, kinds: frozenset[Kind]) -> tuple[Token, ...]:
    """What a verb acts on, with a determiner that decides the number or leaves it alone."""
    noun = rng.choice(lexicon.nouns(*sorted(kinds)))
    form = rng.choice((_indefinite, _indefinite, quantified, _definite))
    return form(rng, noun)


def _indefinite(rng: Random, noun: Noun) -> tuple[Token, ...]:
    return indefinite(rng, noun, may_drop=False)


def indefinite(rng: Random, noun: Noun, *, may_drop: bool) -> tuple[Token, ...]:
    """`a`/`an` [adjective] noun; `may_drop` where no other determiner could be missing."""
    adjectives = adjective(rng, noun, share=0.45)
    following = adjectives[0].text if adjectives else noun.singular
    dropped = (Fault(Label.DETERMINER, ""),) if may_drop else ()
    determiner = word(
        lexicon.article(following), *_determiner_faults("a", "an"), *dropped, group=f"a {noun.kind}"
    )
    return (
        determiner,
        *adjectives,
        word(noun.singular, *number_faults(noun), group=f"a {noun.kind}"),
    )


def quantified(rng: Random, noun: Noun) -> tuple[Token, ...]:
    """Two/many [adjective] nouns."""
    quantifier = rng.choice(lexicon.PLURAL_QUANTIFIERS)
    head = word(noun.plural, *number_faults(noun), group=f"two {noun.kind}")
    return Token(quantifier), *adjective(rng, noun, share=0.2), head


def _definite(rng: Random, noun: Noun) -> tuple[Token, ...]:
    determiner = rng.choice(("the", rng.choice(lexicon.POSSESSIVES)))
    head = rng.choice((noun.singular, noun.plural))
    return (Token(determiner), *adjective(rng, noun, share=0.2), Token(head))


def too(quantifier: str, noun: Noun) -> tuple[Token, ...]:
    """Too much furniture, too many chairs."""
    group = f"too {noun.kind}"
    faults = number_faults(noun) if noun.kind is Kind.MASS else ()
    head = noun.singular if noun.kind is Kind.MASS else noun.plural
    determiner = word(quantifier, *_determiner_faults("much", "many"), group=group)
    return Token("too"), determiner, word(head, *faults, group=group)


def adjective(rng: Random, noun: Noun, *, share: float) -> tuple[Token, ...]:
    """No adjective or one that suits the noun."""
    if rng.random() >= share or noun.kind is Kind.MASS:
        return ()
    is_person = noun.kind is Kind.PERSON
    suitable = lexicon.PERSON_ADJECTIVES if is_person else lexicon.THING_ADJECTIVES
    return (Token(rng.choice(suitable)),)


def number_faults(noun: Noun) -> tuple[Fault, ...]:
    """Both numbers; `word` keeps the one that is wrong."""
    return Fault(Label.NOUN_NUMBER, noun.singular), Fault(Label.NOUN_NUMBER, noun.plural)


def _determiner_faults(first: str, second: str) -> tuple[Fault, ...]:
    return Fault(Label.DETERMINER, first), Fault(Label.DETERMINER, second)


def location(rng: Random) -> tuple[Token, ...]:
    """In/near the place. Only "the" stands here, so a missing one can be put back."""
    place = rng.choice(lexicon.nouns(Kind.PLACE))
    preposition = rng.choice(("in", *lexicon.PREPOSITIONS))
    return Token(preposition), definite_article(), Token(place.singular)


def destination(rng: Random) -> tuple[Token, ...]:
    """To school, or to the place."""
    if rng.random() < 0.4:
        return plain(f"to {rng.choice(lexicon.INSTITUTIONS)}")
    place = rng.choice(lexicon.nouns(Kind.PLACE))
    return Token("to"), definite_article(), Token(place.singular)


def definite_article() -> Token:
    """A "the" that can go missing."""
    return word("the", Fault(Label.DETERMINER, ""))


def habit_time(rng: Random) -> tuple[Token, ...]:
    """Every day, twice a week."""
    if rng.random() < 0.75:
        singular, plural = rng.choice(lexicon.PERIODS)
        return Token("every"), word(singular, Fault(Label.NOUN_NUMBER, plural), group=TIME)
    period = rng.choice(("day", "week", "month", "year"))
    article = word("a", *_determiner_faults("an", ""))
    return Token(rng.choice(("once", "twice"))), article, Token(period)


def past_time(rng: Random) -> tuple[Token, ...]:
    """Yesterday, last week, two days ago."""
    form = rng.randrange(3)
    if form == 0:
        return plain(rng.choice(("yesterday", "yesterday morning")))
    singular, plural = rng.choice(lexicon.PERIODS[:4])
    if form == 1:
        return Token("last"), Token(singular if singular != "day" else "night")
    fault = Fault(Label.NOUN_NUMBER, singular)
    return (
        Token(rng.choice(lexicon.PLURAL_QUANTIFIERS[:3])),
        word(plural, fault, group=TIME),
        Token("ago"),
    )
