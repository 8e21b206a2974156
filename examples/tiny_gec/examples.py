"""Sentences with errors put into them, and which of them a model may be trained on.

The split is a property of the text: a correct sentence is held out when its hash says so, in every
variant and with every seed. Training skips a pair if its source or its target is held out, so no
trained model has seen a held-out sentence, right or wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from random import Random

from examples.tiny_gec import grammar, spelling
from examples.tiny_gec.grammar import Sentence
from examples.tiny_gec.tokens import Fault, Label, Token, render

HELD_OUT_ONE_IN = 10
# What the project's README asks the endpoint; held out whatever their hashes are.
SHOWN = ("She go to school every days.", "She goes to school every day.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A correct sentence and the faults put into it, by word index (none: a clean example)."""

    sentence: Sentence
    faults: Mapping[int, Fault]

    @property
    def source(self) -> str:
        """What the model is given."""
        return self._with({*Label})

    @property
    def target(self) -> str:
        """The one right correction."""
        return self.sentence.text

    @property
    def labels(self) -> tuple[Label, ...]:
        """The kinds of error in the source, in alphabetical order."""
        return tuple(sorted({fault.label for fault in self.faults.values()}))

    def corrected_except(self, label: Label) -> str:
        """The source with everything corrected but the errors of one kind."""
        return self._with({label})

    def _with(self, labels: Set[Label]) -> str:
        words = [token.text for token in self.sentence.tokens]
        for index, fault in self.faults.items():
            if fault.label in labels:
                words[index] = fault.text
        return render(words, self.sentence.end)


def is_held_out(text: str) -> bool:
    """Whether a sentence is kept for evaluation."""
    digest = hashlib.sha256(text.encode()).digest()
    return text in SHOWN or int.from_bytes(digest[:8], "big") % HELD_OUT_ONE_IN == 0


def draw(rng: Random, labels: tuple[Label, ...] = ()) -> Example:
    """A sentence with one error of each of `labels`; none leaves it clean."""
    while True:
        sentence = grammar.sentence(rng)
        faults = _choose(rng, sentence, labels)
        if faults is not None:
            return Example(sentence=sentence, faults=faults)


def _choose(rng: Random, sentence: Sentence, labels: tuple[Label, ...]) -> dict[int, Fault] | None:
    """One fault per label by word index, no two in a group; None if the sentence has no room."""
    chosen: dict[int, Fault] = {}
    taken: set[str] = set()
    for label in labels:
        options = [
            (index, token)
            for index, token in enumerate(sentence.tokens)
            if _group(index, token) not in taken and _faults(token, label)
        ]
        if not options:
            return None
        index, token = rng.choice(options)
        chosen[index] = rng.choice(_faults(token, label))
        taken.add(_group(index, token))
    return chosen


def _group(index: int, token: Token) -> str:
    return token.group or f"word {index}"


def _faults(token: Token, label: Label) -> tuple[Fault, ...]:
    if label is Label.SPELLING:
        return tuple(Fault(label, slip) for slip in spelling.slips().get(token.text, ()))
    return tuple(fault for fault in token.faults if fault.label is label)
