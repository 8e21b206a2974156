"""What the model is taught: spoiled sentences and their originals, and right ones to leave alone.

More than a third of the pairs are right already. Without them a model learns that every sentence
needs a change, which is what is wrong with the base model. Pairs come in numbered buckets, each
drawn with a seed of its own, so that training can go on at any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from examples.smollm2_gec.errors import Rates, Spoiler
from examples.smollm2_gec.misspelling import Speller
from examples.smollm2_gec.sentence import Style, render, tokenize

CLEAN_SHARE = 0.35
TOKENIZED_SHARE = 0.5  # corpora write "is n't ." and people "isn't."
BUCKET_PAIRS = 512


@dataclass(frozen=True, slots=True)
class Pair:
    """What the model reads and what it is taught to answer."""

    source: str
    target: str


class Lessons:
    """All pairs of one training run over some sentences."""

    def __init__(self, sentences: Sequence[str], seed: int, rates: Rates | None = None) -> None:
        self._sentences = [tokenize(sentence) for sentence in sentences]
        self._seed = seed
        known = {token.lower for tokens in self._sentences for token in tokens}
        self._spoiler = Spoiler(Speller(known), rates)

    def bucket(self, number: int) -> list[Pair]:
        """Bucket `number` (0, 1, …); after the last sentence it goes on with the first."""
        rng = Random(f"lessons {self._seed} {number}")
        start = number * BUCKET_PAIRS
        indices = range(start, start + BUCKET_PAIRS)
        return [self._pair(index % len(self._sentences), rng) for index in indices]

    def _pair(self, index: int, rng: Random) -> Pair:
        tokens = self._sentences[index]
        style = Style.TOKENIZED if rng.random() < TOKENIZED_SHARE else Style.NATURAL
        target = render(tokens, style)
        if rng.random() < CLEAN_SHARE:
            return Pair(target, target)
        return Pair(render(self._spoiler.spoil(tokens, rng).tokens(), style), target)
