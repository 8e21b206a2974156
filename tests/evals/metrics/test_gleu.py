"""GLEU against a slow reading of its definition and against published numbers."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals import errors
from evals.metrics import gleu, metric
from tests.evals.metrics import build

GLEU = gleu.Gleu()


def slow_ngrams(text: str, n: int) -> list[tuple[str, ...]]:
    tokens = text.split()
    return [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]


def slow_statistics(source: str, output: str, reference: str) -> list[int]:
    """The ten integers, counted n-gram by n-gram on lists."""
    found = [len(output.split()), len(reference.split())]
    for n in range(1, 5):
        of_output, of_reference = slow_ngrams(output, n), slow_ngrams(reference, n)
        of_source = slow_ngrams(source, n)
        hits = 0
        for ngram in set(of_output):
            if ngram in of_reference:
                hits += min(of_output.count(ngram), of_reference.count(ngram))
            elif ngram in of_source:
                hits -= min(of_output.count(ngram), of_source.count(ngram))
        found += [max(hits, 0), len(of_output)]
    return found


def slow_score(totals: Sequence[float]) -> float:
    if min(totals) <= 0:
        return 0.0
    c, r, *fractions = totals
    product = math.prod(fractions[k] / fractions[k + 1] for k in (0, 2, 4, 6))
    return min(1.0, math.exp(1 - r / c)) * product**0.25


def slow_released(corpus: Sequence[tuple[str, str, Sequence[str]]]) -> float:
    scores = []
    for draw in range(500):
        random.seed(draw * 101)
        totals = [0] * 10
        for source, output, references in corpus:
            pick = references[random.randint(0, len(references) - 1)]
            added = slow_statistics(source, output, pick)
            totals = [a + b for a, b in zip(totals, added, strict=True)]
        scores.append(slow_score(totals))
    return sum(scores) / len(scores)


@given(build.sentences, build.sentences, st.lists(build.sentences, min_size=1, max_size=3))
def test_agrees_with_the_slow_reading(source: str, output: str, references: list[str]) -> None:
    expected = [slow_statistics(source, output, reference) for reference in references]
    assert [list(row) for row in gleu.sentence(source, output, references)] == expected
    totals = np.mean(expected, axis=0)
    found = GLEU.statistics(build.example(source, *references), output)
    assert found == pytest.approx(tuple(totals))
    assert float(GLEU.value(np.array(found))) == pytest.approx(slow_score(list(totals)))


def test_released_draws_agree_with_the_slow_reading() -> None:
    corpus = [
        ("a b c d e f", "a b d d e f", ["a b d d e f", "a c d e f g"]),
        ("b b c d a f e", "b c d a f e", ["b c d a a f e", "b b c d a f"]),
        ("c d e f a b", "c d e f a b", ["c d e f b", "d e f a b b"]),
    ]
    fast = gleu.released([gleu.sentence(*row) for row in corpus])
    assert fast == pytest.approx(slow_released(corpus), abs=1e-12)
    assert 0 < fast < 1


def test_a_kept_error_costs_more_than_a_new_word() -> None:
    def of(output: str) -> float:
        example = build.example("he go to the big old house", "he goes to the big old house")
        return float(GLEU.value(np.array(GLEU.statistics(example, output))))

    assert of("he goes to the big old house") == 1.0
    assert of("he go to the big old house") < of("he went to the big old house") < 1.0


def test_short_outputs_pay_for_brevity() -> None:
    totals = np.array([[10.0, 20.0] + [5.0, 5.0] * 4, [20.0, 10.0] + [5.0, 5.0] * 4])
    assert gleu.score(totals) == pytest.approx([math.exp(-1), 1.0])


def test_released_wants_equally_many_references() -> None:
    one, two = gleu.sentence("a", "a", ["a"]), gleu.sentence("a", "a", ["a", "b"])
    with pytest.raises(ValueError, match=r"found \[1, 2\] references a sentence"):
        gleu.released([one, two])
    with pytest.raises(ValueError, match=r"found \[\]"):
        gleu.released([])


def test_an_example_without_references_is_refused() -> None:
    with pytest.raises(errors.SuiteInvalid, match="'e1' has no reference"):
        GLEU.statistics(build.example("a"), "a")


def corpus_statistics(part: str, output: str) -> Any:
    folder = f"jfleg/{part}/{part}"
    references = zip(*(build.lines(f"{folder}.ref{k}") for k in range(4)), strict=True)
    sources, outputs = build.lines(f"{folder}.src"), build.lines(f"{folder}.{output}")
    return list(map(gleu.sentence, sources, outputs, references))


@pytest.mark.parametrize(
    ("part", "output", "released", "mean"),
    [
        ("dev", "src", 38.197, 38.315),
        ("test", "src", 40.474, 40.518),
        ("dev", "spellchecked.src", 43.425, 43.540),
        ("test", "spellchecked.src", 43.404, 43.441),
    ],
)
def test_numbers_of_the_released_script(
    part: str, output: str, released: float, mean: float
) -> None:
    statistics = corpus_statistics(part, output)
    assert 100 * gleu.released(statistics) == pytest.approx(released, abs=0.001)
    sums: metric.Floats = np.array(statistics, dtype=np.float64).mean(axis=1).sum(axis=0)
    assert 100 * float(gleu.score(sums)) == pytest.approx(mean, abs=0.001)
