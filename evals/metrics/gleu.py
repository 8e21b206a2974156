"""GLEU: n-gram precision against a reference, less what was kept from the source and should not be.

Formula and idea: Napoles, Sakaguchi, Post and Tetreault 2015, "Ground Truth for Grammatical Error
Correction Metrics", in the version of 2016 ("GLEU Without Tuning") that the JFLEG corpus is scored
by. Over a corpus with output length c and reference length r, for n from 1 to 4:

    p_n  = sum of max(0, |output & reference| - |output & (source n-grams not in the reference)|)
           / sum of output n-grams
    GLEU = min(1, exp(1 - r / c)) * (p_1 * p_2 * p_3 * p_4) ** (1 / 4), 0 where a sum is 0

Everything follows from ten integers per sentence and reference: c, r and both parts of each p_n.

With several references the released script draws one per sentence, 500 times with fixed seeds, and
prints the mean: `released`. The metric takes each sentence's mean over its references instead:
what the draws estimate, without chance, and additive. The two differ by about 0.1 point.

It is not nltk's `gleu_score`, nor any other measure of that name.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evals import errors
from evals.metrics import metric, text
from evals.suite import Example

ORDER = 4

DRAWS = 500  # as in the released script, as is the seed: the number of the draw times 101
_SEED_STEP = 101

Ngrams = Counter[tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gleu:
    """The metric over `Example.references`; statistics are the ten sums, mean over references."""

    name: str = "gleu"
    higher_is_better: bool = True
    is_rate: bool = False

    def statistics(self, example: Example, output: str) -> tuple[float, ...]:
        if not example.references:
            raise errors.SuiteInvalid(
                f"example {example.id!r} has no reference, which {self.name} compares with; "
                "add one, or use another metric for this suite"
            )
        by_reference = sentence(example.source, output, example.references)
        sums = (sum(column) for column in zip(*by_reference, strict=True))
        return tuple(column / len(by_reference) for column in sums)

    def value(self, totals: metric.Floats) -> metric.Floats | float:
        return score(totals)


def score(totals: metric.Floats) -> metric.Floats | float:
    """GLEU in 0..1 of sums of shape (..., 10)."""
    defined = np.all(totals > 0, axis=-1)
    safe = np.where(np.expand_dims(defined, -1), totals, 1.0)
    precisions = np.log(safe[..., 2::2] / safe[..., 3::2])
    brevity = np.minimum(0.0, 1.0 - safe[..., 1] / safe[..., 0])
    found: metric.Floats = np.where(defined, np.exp(brevity + precisions.mean(axis=-1)), 0.0)
    return found


def sentence(source: str, output: str, references: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """The ten integers of one sentence against each of its references."""
    source_ngrams = _ngrams(text.tokens(source))
    output_tokens = text.tokens(output)
    output_ngrams = _ngrams(output_tokens)
    found = []
    for reference in references:
        reference_tokens = text.tokens(reference)
        columns = [len(output_tokens), len(reference_tokens)]
        orders = zip(source_ngrams, output_ngrams, _ngrams(reference_tokens), strict=True)
        for n, (of_source, of_output, of_reference) in enumerate(orders, start=1):
            columns.append(_hits(of_source, of_output, of_reference))
            columns.append(max(0, len(output_tokens) + 1 - n))
        found.append(tuple(columns))
    return tuple(found)


def released(statistics: Sequence[Sequence[Sequence[int]]]) -> float:
    """The corpus score that the released script prints, in 0..1.

    `statistics` is the result of `sentence` for each sentence of the corpus, in its order.

    Raises:
        ValueError: there is no sentence, or they have different numbers of references.
    """
    counts = {len(by_reference) for by_reference in statistics}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(
            f"scoring as the released script does: found {sorted(counts)} references a sentence; "
            "it needs sentences that all have the same number; use the metric's statistics instead"
        )
    table = np.array(statistics, dtype=np.int64)
    return float(np.mean([score(_draw(table, number)) for number in range(DRAWS)]))


def _draw(table: NDArray[np.int64], number: int) -> metric.Floats:
    """The sums with one reference drawn per sentence; `table` has shape (n, references, 10)."""
    n, n_references, _ = table.shape
    rng = random.Random(number * _SEED_STEP)
    picks = [rng.randint(0, n_references - 1) for _ in range(n)]
    drawn: metric.Floats = table[np.arange(n), picks].sum(axis=0, dtype=np.float64)
    return drawn


def _ngrams(tokens: Sequence[str]) -> tuple[Ngrams, ...]:
    """How often each n-gram occurs, for n from 1 to 4."""
    return tuple(
        Counter(tuple(tokens[i : i + n]) for i in range(len(tokens) + 1 - n))
        for n in range(1, ORDER + 1)
    )


def _hits(source: Ngrams, output: Ngrams, reference: Ngrams) -> int:
    """Output n-grams found in the reference, less those of the source that should have gone."""
    good = bad = 0
    for ngram, times in output.items():
        if ngram in reference:
            good += min(times, reference[ngram])
        elif ngram in source:
            bad += min(times, source[ngram])
    return max(0, good - bad)
