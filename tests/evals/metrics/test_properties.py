"""What is true of every metric, over texts of many scripts."""

from __future__ import annotations

import math
import random
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evals import metrics
from evals.metrics import maxmatch
from evals.suite import Example
from tests.evals.metrics import build

# ERRANT is for English and an extra; its arithmetic is MaxMatch's.
METRICS = [metrics.get(name) for name in metrics.names() if name != "errant_f0.5"]
few = settings(max_examples=40)  # each draws a whole example and scores it by every metric


@st.composite
def examples(draw: st.DrawFn, texts: st.SearchStrategy[str] = build.texts) -> Example:
    source = draw(texts)
    references = draw(st.lists(texts, min_size=1, max_size=3))
    n_tokens = len(source.split())
    edits = draw(st.lists(build.gold_edits(n_tokens), min_size=1, max_size=3))
    contrast = draw(texts.filter(str.strip))
    return build.example(source, *references, edits=tuple(edits), contrast=contrast)


@given(example=examples(), output=build.texts)
@few
def test_statistics_are_finite_and_values_in_range(example: Example, output: str) -> None:
    for metric in METRICS:
        statistics = metric.statistics(example, output)
        assert all(math.isfinite(one) and one >= 0 for one in statistics), metric.name
        value = float(metric.value(np.array(statistics)))
        assert metric.name == "length_ratio" or 0 <= value <= 1, metric.name
        assert not metric.is_rate or statistics in {(0.0, 1.0), (1.0, 1.0)}, metric.name


@given(example=examples(), output=build.texts, order=st.randoms(use_true_random=False))
@few
def test_order_of_references_and_annotators_does_not_matter(
    example: Example, output: str, order: random.Random
) -> None:
    shuffled = build.example(
        example.source,
        *order.sample(example.references, k=len(example.references)),
        edits=tuple(order.sample(example.edits, k=len(example.edits))),
        contrast=example.contrast,
    )
    for metric in METRICS:
        expected = metric.statistics(example, output)
        assert metric.statistics(shuffled, output) == expected, metric.name


@given(rows=st.lists(st.tuples(examples(), build.texts), min_size=2, max_size=3))
@few
def test_sums_add_up_and_values_are_elementwise(rows: list[tuple[Example, str]]) -> None:
    of, outputs = zip(*rows, strict=True)
    weights = np.random.default_rng(0).integers(0, 3, size=(2, 3, len(rows)))
    for metric in METRICS:
        first = metrics.total(metric, of[:1], outputs[:1])
        others = metrics.total(metric, of[1:], outputs[1:])
        assert np.allclose(metrics.total(metric, of, outputs), first + others), metric.name
        sums = weights @ np.array([metric.statistics(*row) for row in rows])
        values = np.asarray(metric.value(sums))
        each = [[float(metric.value(one)) for one in row] for row in sums]
        assert np.array_equal(values, each, equal_nan=True), metric.name


@given(example=examples(), output=build.texts)
@few
def test_composition_and_white_space_are_not_seen(example: Example, output: str) -> None:
    def decomposed(text: str) -> str:
        spaced = "\u3000 ".join(text.split())
        return f"\t{unicodedata.normalize('NFD', spaced)}\n" if spaced else ""

    other = build.example(
        decomposed(example.source),
        *map(decomposed, example.references),
        edits=example.edits,
        contrast=decomposed(example.contrast),
    )
    for metric in METRICS:
        expected = metric.statistics(example, output)
        assert metric.statistics(other, decomposed(output)) == expected, metric.name


@given(text=build.texts)
def test_a_right_output_is_perfect(text: str) -> None:
    example = build.example(text, text, edits=((),), contrast=text + "!")
    found = {
        metric.name: float(metric.value(np.array(metric.statistics(example, text))))
        for metric in METRICS
    }
    blank = not text.split()
    long_enough = len(text.split()) >= 4  # GLEU looks at four tokens in a row
    assert found == {
        "exact": 1.0,
        "change_rate": 0.0,
        "false_positive": 0.0,
        "gleu": pytest.approx(1.0 if long_enough else 0.0),
        "maxmatch_f0.5": 1.0,
        "length_ratio": pytest.approx(math.nan if blank else 1.0, nan_ok=True),
        "runaway": 0.0,
        "script_kept": 1.0,
        "pair_accuracy": 1.0,
    }


@given(source=build.sentences, output=build.sentences, data=st.data())
def test_maxmatch_bounds(source: str, output: str, data: st.DataObject) -> None:
    edits = data.draw(build.gold_edits(len(source.split())))
    for counts in maxmatch.count(source, output, [edits]):
        assert 0 <= counts.correct <= min(counts.proposed, counts.gold)
        assert counts.gold <= len(edits)
        assert counts.proposed <= len(source.split()) + len(output.split())
    if source == output:
        assert all(c.proposed == 0 for c in maxmatch.count(source, output, [edits]))
