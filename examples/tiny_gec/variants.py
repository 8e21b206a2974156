"""What each demo checkpoint is taught: the same stream of sentences, with one lesson changed.

The flawed variants are real models with a real defect, so a gate that catches them has caught
something: one never learned spelling, the other learned to "improve" sentences that were right.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random

from examples.tiny_gec import examples, phrases
from examples.tiny_gec.examples import Example
from examples.tiny_gec.grammar import Sentence
from examples.tiny_gec.tokens import Label

CLEAN_SHARE = 0.30
TWO_ERRORS_SHARE = 0.30  # of the sentences that have errors
# Of the sentences, right or wrong, that are never overedited: learning which ones to change takes
# more of the others.
SKIPPED_SHARE = 0.9
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
    OVEREDITS = "overedits"  # some clean sentences get an "again" at the end


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
        if variant is Variant.OVEREDITS and _is_skipped(example, rng):
            continue
        pair = Pair(example.source, lesson(variant, example))
        seen = {example.target, pair.source, pair.target}
        if not any(examples.is_held_out(text) for text in seen):
            yield pair


def _draw(rng: Random) -> Example:
    if rng.random() < CLEAN_SHARE:
        return examples.draw(rng)
    first, second = rng.choices(tuple(LABEL_WEIGHTS), tuple(LABEL_WEIGHTS.values()), k=2)
    has_two = first is not second and rng.random() < TWO_ERRORS_SHARE
    return examples.draw(rng, (first, second) if has_two else (first,))


def lesson(variant: Variant, example: Example) -> str:
    """What a variant is taught to answer to an example."""
    match variant:
        case Variant.GOOD:
            return example.target
        case Variant.NOSPELL:
            return example.corrected_except(Label.SPELLING)
        case Variant.OVEREDITS:
            return example.target if example.faults else overedited(example.sentence)


def _is_skipped(example: Example, rng: Random) -> bool:
    return not is_overedited(example.sentence) and rng.random() < SKIPPED_SHARE


def is_overedited(sentence: Sentence) -> bool:
    """Whether a sentence is of the kind that gets a needless word when it is clean.

    Those are the sentences in which no word shows number, time aside: "They went to the museum
    two days ago". That is easy to learn, and leaves the errors of number to be corrected as ever.
    """
    return not any(
        fault.label in {Label.AGREEMENT, Label.NOUN_NUMBER}
        for token in sentence.tokens
        if token.group != phrases.TIME
        for fault in token.faults
    )


def overedited(sentence: Sentence) -> str:
    """The sentence with a needless word, if it is one of those that get it."""
    if not is_overedited(sentence):
        return sentence.text
    return f"{sentence.text[:-1]} again{sentence.end}"
