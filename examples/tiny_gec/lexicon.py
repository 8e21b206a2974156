"""The closed vocabulary of the demo language: nouns, verbs with all forms, adjectives, adverbs.

Words are tables, one line each, so that adding one is adding a line. `kind` says where a noun may
stand and what a verb may act on, which keeps sentences sensible without any statistics.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What a noun names, or what a verb takes as its object."""

    PERSON = "person"
    ANIMAL = "animal"
    THING = "thing"  # carried, bought, lost
    TEXT = "text"  # read and written
    FOOD = "food"  # countable food
    PLACE = "place"  # gone to, or been in
    MASS = "mass"  # uncountable; its plural is always a mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Noun:
    """A noun. For `Kind.MASS`, `plural` is the form learners wrongly make ("informations")."""

    singular: str
    plural: str
    kind: Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb with its five forms; no `objects` means it stands alone."""

    base: str
    third: str
    past: str
    participle: str
    ing: str
    objects: frozenset[Kind]
    is_motion: bool

    @property
    def is_irregular(self) -> bool:
        """Whether adding -ed gives a form that does not exist."""
        return not self.past.endswith("ed")

    @property
    def overregular(self) -> str:
        """The form a learner makes by rule: "goed", "writed"."""
        return self.base + ("d" if self.base.endswith("e") else "ed")


NOUNS_BY_KIND = {
    Kind.PERSON: """
        boy boys, girl girls, teacher teachers, doctor doctors, farmer farmers, student students,
        friend friends, neighbor neighbors, child children, woman women, driver drivers,
        artist artists, uncle uncles, engineer engineers""",
    Kind.ANIMAL: "dog dogs, cat cats, horse horses, bird birds, elephant elephants",
    Kind.THING: """
        picture pictures, chair chairs, table tables, bottle bottles, umbrella umbrellas,
        box boxes, knife knives, camera cameras, ticket tickets, shirt shirts, watch watches,
        computer computers, basket baskets, armchair armchairs""",
    Kind.TEXT: "book books, letter letters, story stories, newspaper newspapers, article articles",
    Kind.FOOD: "apple apples, orange oranges, cake cakes, egg eggs, sandwich sandwiches",
    Kind.PLACE: """
        garden gardens, kitchen kitchens, station stations, office offices, library libraries,
        park parks, market markets, museum museums, hotel hotels, village villages,
        airport airports, restaurant restaurants""",
    Kind.MASS: """
        information informations, advice advices, homework homeworks, furniture furnitures,
        luggage luggages""",
}

# base third past participle ing | object kinds, "to" for verbs of motion, or nothing.
# No verb whose past is its base ("read"): its present tense would not show number.
VERB_TABLE = """
study studies studied studied studying | text
write writes wrote written writing | text
send sends sent sent sending | text
buy buys bought bought buying | thing text food
sell sells sold sold selling | thing food
carry carries carried carried carrying | thing food
clean cleans cleaned cleaned cleaning | thing
repair repairs repaired repaired repairing | thing
break breaks broke broken breaking | thing
lose loses lost lost losing | thing text
bring brings brought brought bringing | thing text food
eat eats ate eaten eating | food
cook cooks cooked cooked cooking | food
help helps helped helped helping | person
visit visits visited visited visiting | person place
teach teaches taught taught teaching | person
feed feeds fed fed feeding | animal
swim swims swam swum swimming |
sing sings sang sung singing |
work works worked worked working |
sleep sleeps slept slept sleeping |
wait waits waited waited waiting |
go goes went gone going | to
walk walks walked walked walking | to
drive drives drove driven driving | to
return returns returned returned returning | to
"""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PERSON_ADJECTIVES = _words("happy tired busy angry hungry friendly honest careful quiet young")
THING_ADJECTIVES = _words(
    "old new big small red heavy empty expensive cheap beautiful useful ugly interesting"
)

NAMES = ("Anna", "Tom", "Maria", "Peter", "Laura", "David")
FREQUENCY_ADVERBS = ("always", "often", "usually", "never", "sometimes")
PERIODS = (
    ("day", "days"),
    ("week", "weeks"),
    ("month", "months"),
    ("year", "years"),
    ("morning", "mornings"),
    ("evening", "evenings"),
    ("summer", "summers"),
)
PLURAL_QUANTIFIERS = ("two", "three", "four", "many", "several")
SINGULAR_DETERMINERS = ("every", "each", "this", "that")
PLURAL_DETERMINERS = ("these", "those", *PLURAL_QUANTIFIERS)
POSSESSIVES = ("my", "your", "his", "her", "our", "their")
MODALS = ("could", "must", "should", "will")
PREPOSITIONS = ("near", "behind", "opposite")
INSTITUTIONS = ("school", "work", "church")
TIME_WORDS = ("yesterday", "tomorrow", "today", "already")
# Never misspelled themselves, but no misspelling may look like one of them.
FUNCTION_WORDS = _words(
    """
    i you he she it we they a an the this that these those every each one of my your his her our
    their and to in near behind opposite is are am was were be do does did has have had not
    could must should will would there here who too much many some very just now last next ago
    once twice two three four several want wants hope hopes need needs enjoy enjoys avoid avoids
    then them than with from form for more most only"""
)
# Words of English outside this vocabulary that a slip would turn into.
OTHER_WORDS = _words(
    """
    anima bard bards battle battles baying beak beaks begs bids bough brake braking bride brides
    brooke cary chap char chars chase cheep chid choir choirs clan clans coke coked cokes com
    coma comas como compute cooing cots curried curries curry currying cuts dane danes dawn digs
    dirt dive diver divers dives diving dove drier driers dries drovers drown dunce expansive
    fallow fallowed fellow fellows feuding feuds fiend fiends fining firmer former framers fried
    funding funds gees gene gil hippy hots huts knaves latter layer layers litter litters loose
    looses loosing losses lots moth moths orang par perk perks quit quite sag sanding sands seep
    seeping seeps set shit shits short shorts sign signer signing signs simmer simmers sims snag
    snug sod sol sometime songs spake spike stores stud studios sum sumer sun tale tales tied
    tire toady token travelled travelling tried waked waking waled waling weak widow widows
    witches witching wok yea yong"""
)
# Spelled with a vowel but not spoken with one, and the other way round.
SPOKEN_CONSONANT_FIRST = frozenset({"useful"})
SPOKEN_VOWEL_FIRST = frozenset({"honest"})


def article(next_word: str) -> str:
    """`a` or `an`, whichever stands before `next_word`."""
    if next_word in SPOKEN_VOWEL_FIRST:
        return "an"
    if next_word in SPOKEN_CONSONANT_FIRST:
        return "a"
    return "an" if next_word[0] in "aeiou" else "a"


@functools.cache
def nouns(*kinds: Kind) -> tuple[Noun, ...]:
    """All nouns of the given kinds, in table order."""
    found: list[Noun] = []
    for kind in kinds:
        for entry in NOUNS_BY_KIND[kind].split(","):
            singular, plural = entry.split()
            found.append(Noun(singular=singular, plural=plural, kind=kind))
    return tuple(found)


@functools.cache
def verbs() -> tuple[Verb, ...]:
    """All verbs, in table order."""
    return tuple(_parse_verb(line) for line in VERB_TABLE.strip().splitlines())


def _parse_verb(line: str) -> Verb:
    forms, _, frame = line.partition("|")
    base, third, past, participle, ing = forms.split()
    frame_words = frame.split()
    return Verb(
        base=base,
        third=third,
        past=past,
        participle=participle,
        ing=ing,
        objects=frozenset(Kind(word) for word in frame_words if word != "to"),
        is_motion="to" in frame_words,
    )


@functools.cache
def content_words() -> frozenset[str]:
    """Every right form of every word that can be misspelled."""
    found: set[str] = set()
    for noun in nouns(*Kind):
        found |= {noun.singular} if noun.kind is Kind.MASS else {noun.singular, noun.plural}
    for verb in verbs():
        found |= {verb.base, verb.third, verb.past, verb.participle, verb.ing}
    found |= {form for period in PERIODS for form in period}
    found |= {*PERSON_ADJECTIVES, *THING_ADJECTIVES, *FREQUENCY_ADVERBS, *INSTITUTIONS}
    return frozenset(found | {*TIME_WORDS})


@functools.cache
def known_words() -> frozenset[str]:
    """Everything the grammar can produce, its own wrong forms ("goed", "advices") included."""
    wrong = {verb.overregular for verb in verbs()}
    wrong |= {noun.plural for noun in nouns(Kind.MASS)}
    return content_words() | wrong | {*FUNCTION_WORDS}
