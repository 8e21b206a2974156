"""Forms of the listed nouns and verbs, and the forms that people make up."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from examples.smollm2_gec import confusions as taken_for
from examples.smollm2_gec import words

# Those whose last consonant is doubled before -ed and -ing.
DOUBLING = words.listed(
    "begin forget get plan prefer run sit stop swim win admit chat permit refer"
)
VOWELS = "aeiou"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verb:
    """A verb's five forms."""

    base: str
    third: str
    past: str
    participle: str
    gerund: str


def plural_of(noun: str) -> str:
    """The plural of a noun in the singular."""
    return words.IRREGULAR_PLURALS.get(noun) or _with_s(noun)


def _with_s(text: str) -> str:
    if text.endswith(("s", "x", "z", "ch", "sh")):
        return text + "es"
    if text.endswith("y") and text[-2] not in VOWELS:
        return text[:-1] + "ies"
    return text + "s"


def regular_past(base: str) -> str:
    """What the past would be if the verb were regular: goed, eated."""
    if base.endswith("e"):
        return base + "d"
    if base.endswith("y") and base[-2] not in VOWELS:
        return base[:-1] + "ied"
    return _stem(base) + "ed"


def _gerund(base: str) -> str:
    if base.endswith("ie"):
        return base[:-2] + "ying"
    if base.endswith("e") and not base.endswith("ee"):
        return base[:-1] + "ing"
    return _stem(base) + "ing"


def _stem(base: str) -> str:
    return base + base[-1] if base in DOUBLING else base


def _verb(base: str) -> Verb:
    past, participle = words.IRREGULAR_VERBS.get(base) or (regular_past(base),) * 2
    third = {"have": "has", "do": "does", "go": "goes"}.get(base) or _with_s(base)
    return Verb(base=base, third=third, past=past, participle=participle, gerund=_gerund(base))


@functools.cache
def verbs() -> Mapping[str, Verb]:
    """Verbs by their base form."""
    bases = sorted(words.REGULAR_VERBS | set(words.IRREGULAR_VERBS))
    return MappingProxyType({base: _verb(base) for base in bases})


@functools.cache
def by_form(form: str) -> Mapping[str, Verb]:
    """Verbs by one of their forms: base, third, past, participle or gerund."""
    return MappingProxyType({getattr(verb, form): verb for verb in verbs().values()})


@functools.cache
def plurals() -> Mapping[str, str]:
    """Plural of each singular that differs from it."""
    pairs = ((noun, plural_of(noun)) for noun in sorted(words.COUNT_NOUNS))
    return MappingProxyType({noun: plural for noun, plural in pairs if plural != noun})


@functools.cache
def singulars() -> Mapping[str, str]:
    """Singular of each plural that differs from it; "people" counts as a word of its own."""
    found = {plural: noun for noun, plural in plurals().items()}
    del found["people"]
    return MappingProxyType(found)


@functools.cache
def families() -> Mapping[str, frozenset[str]]:
    """What each word of a family or a confusion is taken for: word forms."""
    return _taken_for(taken_for.WORD_FAMILIES)


@functools.cache
def confusions() -> Mapping[str, frozenset[str]]:
    """What each word is confused with."""
    return _taken_for(taken_for.CONFUSIONS)


def _taken_for(groups: tuple[str, ...]) -> Mapping[str, frozenset[str]]:
    others: dict[str, set[str]] = defaultdict(set)
    for group in groups:
        members = group.split()
        for member in members:
            others[member] |= set(members) - {member}
    return MappingProxyType({member: frozenset(found) for member, found in others.items()})
