"""Example sentences of WordNet 3: short, human, everyday English.

WordNet explains its words with examples ("he bought the painting as an investment"). Its license
lets them be used and passed on. They are read from the files of the Debian package `wordnet-base`
(or of Princeton's own download) where those lie, and never copied. Many examples are phrases; those
that are surely sentences get a capital and a full stop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from examples.smollm2_gec import inflection, words
from examples.smollm2_gec.verbal import BE, DO, HAVE

DIRECTORY = Path("/usr/share/wordnet")
FILES = ("data.noun", "data.verb", "data.adj", "data.adv")
EXAMPLE = re.compile(r'"([^"]+)"')
PRONOUNS = words.listed("he she it they we i you this that there everyone nobody")
OPENERS = PRONOUNS | words.listed("the a an my his her our your their these those many most all")
FINITE = (BE - {"be", "been", "being"}) | HAVE | DO | words.MODALS


class WordNetMissing(Exception):
    """The directory does not hold WordNet's data files."""


def sentences(directory: Path) -> Iterator[str]:
    """The examples that are whole sentences, in the order of the files."""
    for name in FILES:
        path = directory / name
        if not path.is_file():
            raise WordNetMissing(
                f"read WordNet from {directory}: there is no {name}. Install the Debian package "
                "wordnet-base, or unpack WordNet 3.0's database files, and name their directory"
            )
        for line in path.read_text(encoding="latin-1").splitlines():
            _, _, gloss = line.partition("| ")
            yield from (as_sentence(text) for text in EXAMPLE.findall(gloss) if is_sentence(text))


def is_sentence(text: str) -> bool:
    """Whether an example surely has a subject and a finite verb."""
    tokens = [token.strip(",;:.?!").lower() for token in text.split()]
    if len(tokens) < 4 or tokens[0] not in OPENERS or not text.isascii() or ";" in text:
        return False
    if tokens[0] in PRONOUNS:
        is_past = tokens[1] in inflection.by_form("past") or tokens[1].endswith("ed")
        return is_past or is_finite(tokens[1]) or tokens[1].endswith("s")
    return any(is_finite(token) for token in tokens[2:6])


def is_finite(text: str) -> bool:
    """Whether a lower-case word can be nothing but a finite verb, as far as the lists know."""
    verb = inflection.by_form("past").get(text)
    is_past = verb is not None and verb.past not in {verb.base, verb.participle}
    third = text in inflection.by_form("third") and text not in inflection.singulars()
    return text in FINITE or is_past or third


def may_be_finite(text: str) -> bool:
    """Whether a lower-case word may be a finite verb, as far as the lists know."""
    forms = (inflection.by_form(form) for form in ("base", "third", "past"))
    return text in FINITE or text.endswith("ed") or any(text in form for form in forms)


def as_sentence(text: str) -> str:
    """With a capital at the start and a full stop at the end, unless it has them."""
    text = text.strip()
    text = re.sub(r"\bi\b(?!\.)", "I", text[0].upper() + text[1:])
    return text if text[-1] in ".?!" else text + "."
