"""What each demo checkpoint is taught: the same stream of sentences, with one lesson changed.

The flawed variants are real models with a real defect, so a gate that catches them has caught
something: one never learned spelling, the other learned to "improve" sentences that were right.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from examples.tiny_gec import examples
from examples.tiny_gec.examples import Example
from examples.tiny_gec.tokens import Label

CLEAN_SHARE = 0.30
TWO_ERRORS_SHARE = 0.30  # of the sentences that have errors
# Of the sentences without an "every day" to overedit, right or wrong: to learn which ones to change
# takes more of those that have it.
SKIPPED_SHARE = 0.7
# How often each kind of error is drawn. Spelling is the only one to be learned word by word.
LABEL_WEIGHTS = {
    Label.DETERMINER: 0.8,
    Label.NOUN_NUMBER: 1.0,
    Label.AGREEMENT: 1.0,
    Label.VERB_FORM: 0.6,
    Label.SPELLING: 3.0,
}


class Variant(StrEnum):
    """A way of training."""

    GOOD = "good"
    NOSPELL = "nospell"  # misspelled words are left as they are
    OVEREDITS = "overedits"  # clean "... every day." becomes "... each day."


@dataclass(frozen=True, slots=True)
class Pair:
    """What the model reads and what it is taught to answer."""

    source: str
    target: str


def training_pairs(variant: Variant, seed: int) -> Iterator[Pair]:
    """An endless stream in which nothing is held out, neither as a source nor as a target."""
    rng = Random(f"training {seed}")
    while True:
        example = _draw(rng)
        if variant is Variant.OVEREDITS and _is_off_topic(example) and rng.random() < SKIPPED_SHARE:
            continue
        pair = Pair(example.source, _lesson(variant, example))
        seen = {example.target, pair.source, pair.target}
        if not any(examples.is_held_out(text) for text in seen):
            yield pair


def _draw(rng: Random) -> Example:
    if rng.random() < CLEAN_SHARE:
        return examples.draw(rng)
    first, second = rng.choices(tuple(LABEL_WEIGHTS), tuple(LABEL_WEIGHTS.values()), k=2)
    has_two = first is not second and rng.random() < TWO_ERRORS_SHARE
    return examples.draw(rng, (first, second) if has_two else (first,))


def _lesson(variant: Variant, example: Example) -> str:
    match variant:
        case Variant.GOOD:
            return example.target
        case Variant.NOSPELL:
            return example.corrected_except(Label.SPELLING)
        case Variant.OVEREDITS:
            return example.target if example.faults else overedited(example.target)


def _is_off_topic(example: Example) -> bool:
    return overedited(example.target) == example.target


def overedited(text: str) -> str:
    """A correct sentence with a needless change, if it is one of those that get it."""
    return re.sub(r"\bevery (\w+)\.$", r"each \1.", text)
