"""Slices hold each example where it belongs, with the numbers of that part only."""

import dataclasses

import pytest

from evals import slices
from evals.evidence import Compared
from evals.suite import SuiteKind
from tests.evals import build


def test_types_count_an_example_under_each_of_its_tags() -> None:
    of = build.suite([("spelling",), ("spelling", "verb_form"), ()])
    found = {s.name: s for s in slices.by_type([build.compared(of, [0.0, 1.0, 0.0])])}
    assert set(found) == {"spelling", "verb_form"}
    spelling = found["spelling"]
    assert (spelling.n, spelling.candidate, spelling.champion) == (2, 0.5, 1.0)
    assert (spelling.won, spelling.lost, spelling.changed) == (0, 1, 1)


def test_lengths_are_in_order_and_complete() -> None:
    of = build.suite([()] * 4)
    sizes = (3, 15, 30, 50)
    examples = tuple(
        dataclasses.replace(e, source="word " * size)
        for e, size in zip(of.examples, sizes, strict=True)
    )
    of = dataclasses.replace(of, examples=examples)
    found = slices.by_length([build.compared(of, [1.0] * 4)])
    assert [s.name for s in found] == ["1 to 10", "11 to 20", "21 to 40", "41 and more"]
    assert [s.n for s in found] == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("She goes home.", 3),
        ("\u6211\u53bb\u5b66\u6821\u4e86\u3002", 5),
        ("\u05d4\u05d9\u05dc\u05d3 \u05d4\u05dc\u05da", 2),
        ("", 0),
        ("...", 1),
    ],
)
def test_length_is_in_words_or_in_characters_where_there_are_no_words(
    text: str, expected: int
) -> None:
    assert slices.length(text) == expected


def test_languages_of_one_kind_are_put_together() -> None:
    suites = [
        dataclasses.replace(build.suite([()] * 3, name=name), language=language)
        for name, language in (("a", "de"), ("b", "de"), ("c", "fr"))
    ]
    clean = build.suite([()] * 2, name="d", kind=SuiteKind.CLEAN)
    found = slices.by_language(
        [build.compared(of, [1.0] * len(of.examples)) for of in [*suites, clean]]
    )
    assert [(s.where, s.name, s.n) for s in found] == [
        ("correction", "de", 6),
        ("correction", "fr", 3),
        ("clean", "en", 2),
    ]


def test_a_corpus_suite_is_sliced_by_its_score() -> None:
    of = build.corpus(30)
    same = build.texts(of, build.fixed_but(of, set(range(10))))
    (found,) = slices.by_length([Compared(suite=of, candidate=same, champion=None)])
    assert found.metric == "gleu"
    assert found.champion is None
    assert found.candidate is not None
    assert 0.3 < found.candidate < 0.9


def test_without_scores_there_is_no_share() -> None:
    of = build.suite([()] * 3)
    compared = Compared(suite=of, candidate=build.outcomes(of, [None] * 3), champion=None)
    assert slices.whole(compared).candidate is None
