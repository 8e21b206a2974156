"""Correct sentences of the demo language: eleven constructions over a closed vocabulary.

A construction picks its subject, conjugates its verb and says which wrong forms of that verb
cannot be mistaken for another right sentence: "yesterday" makes a present tense wrong, a modal
allows the base form alone, and a bare verb in the wrong number is taken as present tense.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from examples.tiny_gec import lexicon, phrases
from examples.tiny_gec.lexicon import Kind, Verb
from examples.tiny_gec.phrases import Agreement, Subject
from examples.tiny_gec.tokens import Fault, Label, Token, plain, render, word


@dataclass(frozen=True, slots=True)
class Sentence:
    """A correct sentence: its words and the mark it ends with."""

    tokens: tuple[Token, ...]
    end: str = "."

    @property
    def text(self) -> str:
        """The sentence as written."""
        return render([token.text for token in self.tokens], self.end)


BE_PRESENT = {Agreement.FIRST: "am", Agreement.SINGULAR: "is", Agreement.PLURAL: "are"}
BE_PAST = {Agreement.FIRST: "was", Agreement.SINGULAR: "was", Agreement.PLURAL: "were"}
EXISTING = (Kind.PERSON, Kind.ANIMAL, Kind.THING, Kind.TEXT)
DO = {Agreement.FIRST: "do", Agreement.SINGULAR: "does", Agreement.PLURAL: "do"}
HAVE = {Agreement.FIRST: "have", Agreement.SINGULAR: "has", Agreement.PLURAL: "have"}


def sentence(rng: Random) -> Sentence:
    """A correct sentence."""
    construction = rng.choices(tuple(CONSTRUCTIONS), weights=tuple(CONSTRUCTIONS.values()))[0]
    return construction(rng)


def _agreeing(forms: dict[Agreement, str], who: Subject) -> Token:
    """An auxiliary that agrees with its subject, and can fail to."""
    faults = (Fault(Label.AGREEMENT, form) for form in dict.fromkeys(forms.values()))
    return word(forms[who.agreement], *faults, group=who.group)


def _form(right: str, *wrong: str) -> Token:
    """A verb whose form is set by what stands before it."""
    return word(right, *(Fault(Label.VERB_FORM, form) for form in dict.fromkeys(wrong)))


def _complement(rng: Random, verb: Verb) -> tuple[Token, ...]:
    if verb.objects:
        return phrases.object_phrase(rng, verb.objects)
    return phrases.destination(rng) if verb.is_motion else phrases.location(rng)


def _present(verb: Verb, who: Subject) -> Token:
    """The present tense, in the wrong number if it fails."""
    right = verb.third if who.agreement is Agreement.SINGULAR else verb.base
    faults = (Fault(Label.AGREEMENT, form) for form in (verb.base, verb.third))
    return word(right, *faults, group=who.group)


def _habit(rng: Random) -> Sentence:
    """She goes to school every day. He often reads a book."""
    who = phrases.subject(rng)
    verb = rng.choice(lexicon.verbs())
    if rng.random() < 0.3:
        often = Token(rng.choice(lexicon.FREQUENCY_ADVERBS))
        return Sentence((*who.tokens, often, _present(verb, who), *_complement(rng, verb)))
    time = phrases.habit_time(rng)
    clause = (*who.tokens, _present(verb, who), *_complement(rng, verb))
    return Sentence((*time, *clause) if rng.random() < 0.2 else (*clause, *time))


def _past(rng: Random) -> Sentence:
    """Yesterday she went to school. The time makes a present tense wrong."""
    who = phrases.subject(rng)
    verb = rng.choice(lexicon.verbs())
    present = verb.third if who.agreement is Agreement.SINGULAR else verb.base
    made_up = (verb.overregular,) if verb.is_irregular else ()
    clause = (*who.tokens, _form(verb.past, present, *made_up), *_complement(rng, verb))
    time = phrases.past_time(rng)
    return Sentence((*time, *clause) if rng.random() < 0.3 else (*clause, *time))


def _progressive(rng: Random) -> Sentence:
    """They are reading a book now."""
    who = phrases.subject(rng)
    verb = rng.choice(lexicon.verbs())
    now = rng.choice(("now", "today", "this morning", ""))
    doing = _form(verb.ing, verb.base)
    return Sentence(
        (*who.tokens, _agreeing(BE_PRESENT, who), doing, *_complement(rng, verb), *plain(now))
    )


def _perfect(rng: Random) -> Sentence:
    """He has already written two letters."""
    who = phrases.subject(rng)
    verb = rng.choice(lexicon.verbs())
    already = rng.choice(("already", "just", ""))
    made_up = (verb.overregular,) if verb.is_irregular else ()
    done = _form(verb.participle, verb.base, verb.past, *made_up)
    return Sentence(
        (*who.tokens, _agreeing(HAVE, who), *plain(already), done, *_complement(rng, verb))
    )


def _modal(rng: Random) -> Sentence:
    """We must clean the kitchen tomorrow."""
    who = phrases.subject(rng)
    verb = rng.choice(lexicon.verbs())
    negation = rng.choice(("", "", "not"))
    action = _form(verb.base, verb.third, verb.past, verb.ing)
    time = rng.choice(("tomorrow", "next week", "today", ""))
    modal = Token(rng.choice(lexicon.MODALS))
    return Sentence(
        (*who.tokens, modal, *plain(negation), action, *_complement(rng, verb), *plain(time))
    )


def _negation(rng: Random) -> Sentence:
    """She does not eat apples. They did not go to work yesterday."""
    is_past = rng.random() < 0.35
    who = phrases.subject(rng)
    verb = rng.choice(lexicon.verbs())
    action = _form(verb.base, verb.third, verb.past, verb.ing)
    auxiliary = Token("did") if is_past else _agreeing(DO, who)
    time = phrases.past_time(rng) if is_past else phrases.habit_time(rng)
    ending = time if rng.random() < 0.5 else ()
    tokens = (*who.tokens, auxiliary, Token("not"), action, *_complement(rng, verb), *ending)
    return Sentence(tokens)


def _question(rng: Random) -> Sentence:
    """Does she go to school every day?"""
    is_past = rng.random() < 0.35
    who = phrases.subject(rng)
    verb = rng.choice(lexicon.verbs())
    action = _form(verb.base, verb.third, verb.past)
    auxiliary = Token("did") if is_past else _agreeing(DO, who)
    time = phrases.past_time(rng) if is_past else phrases.habit_time(rng)
    ending = time if rng.random() < 0.4 else ()
    return Sentence((auxiliary, *who.tokens, action, *_complement(rng, verb), *ending), "?")


def _wish(rng: Random) -> Sentence:
    """He wants to buy a hat. They enjoy swimming in the park."""
    who = phrases.subject(rng)
    verb = rng.choice(lexicon.verbs())
    if rng.random() < 0.6:
        desire = rng.choice((("want", "wants"), ("hope", "hopes"), ("need", "needs")))
        action = _form(verb.base, verb.third, verb.past, verb.ing)
        to = plain("to")
    else:
        desire = rng.choice((("enjoy", "enjoys"), ("avoid", "avoids")))
        action = _form(verb.ing, verb.base, verb.third)
        to = ()
    forms = {
        Agreement.FIRST: desire[0],
        Agreement.SINGULAR: desire[1],
        Agreement.PLURAL: desire[0],
    }
    return Sentence((*who.tokens, _agreeing(forms, who), *to, action, *_complement(rng, verb)))


def _existence(rng: Random) -> Sentence:
    """There is an old book in the kitchen. There are too many chairs near the bridge."""
    forms = rng.choice((BE_PRESENT, BE_PAST))
    form = rng.choices((_one, _several, _too_much, _too_many), weights=(6, 2, 1, 1))[0]
    number, what = form(rng)
    wrong = (Fault(Label.AGREEMENT, forms[n]) for n in (Agreement.SINGULAR, Agreement.PLURAL))
    verb = word(forms[number], *wrong, group=what[-1].group)
    return Sentence((Token("there"), verb, *what, *phrases.location(rng)))


def _one(rng: Random) -> tuple[Agreement, tuple[Token, ...]]:
    noun = rng.choice(lexicon.nouns(*EXISTING))
    return Agreement.SINGULAR, phrases.indefinite(rng, noun, may_drop=True)


def _several(rng: Random) -> tuple[Agreement, tuple[Token, ...]]:
    return Agreement.PLURAL, phrases.quantified(rng, rng.choice(lexicon.nouns(*EXISTING)))


def _too_much(rng: Random) -> tuple[Agreement, tuple[Token, ...]]:
    return Agreement.SINGULAR, phrases.too("much", rng.choice(lexicon.nouns(Kind.MASS)))


def _too_many(rng: Random) -> tuple[Agreement, tuple[Token, ...]]:
    return Agreement.PLURAL, phrases.too("many", rng.choice(lexicon.nouns(*EXISTING)))


def _description(rng: Random) -> Sentence:
    """This old book is very interesting. We were tired yesterday."""
    if rng.random() < 0.5:
        who, adjectives = phrases.thing_subject(rng), lexicon.THING_ADJECTIVES
    else:
        who = phrases.subject(rng)
        adjectives = lexicon.PERSON_ADJECTIVES if who.is_person else lexicon.THING_ADJECTIVES
    forms = rng.choice((BE_PRESENT, BE_PAST))
    very = rng.choice(("", "very"))
    ending = plain(f"{very} {rng.choice(adjectives)}")
    return Sentence((*who.tokens, _agreeing(forms, who), *ending))


def _profession(rng: Random) -> Sentence:
    """She is an honest teacher who works in the museum."""
    who = phrases.third_person(rng)
    job = phrases.indefinite(rng, rng.choice(lexicon.nouns(Kind.PERSON)), may_drop=True)
    verb = rng.choice(lexicon.verbs())
    person = Subject(tokens=(), agreement=Agreement.SINGULAR, group="who", is_person=True)
    relative = (Token("who"), _present(verb, person), *_complement(rng, verb))
    return Sentence((*who.tokens, _agreeing(BE_PRESENT, who), *job, *relative))


CONSTRUCTIONS: dict[Callable[[Random], Sentence], int] = {
    _habit: 24,
    _past: 13,
    _progressive: 10,
    _perfect: 8,
    _modal: 8,
    _negation: 8,
    _question: 6,
    _wish: 8,
    _existence: 10,
    _description: 10,
    _profession: 8,
}
