"""MaxMatch against an exhaustive search, published numbers and corpora's own references."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals import errors, m2
from evals.converters.m2 import corrected
from evals.m2 import Edit
from evals.metrics import alignment, maxmatch, readings
from evals.metrics.maxmatch import Counts
from tests.evals.metrics import build
from tests.evals.metrics.build import edit

MAXMATCH = maxmatch.MaxMatch()

Path_ = tuple[alignment.Node, ...]


def all_paths(graph: alignment.Graph, node: alignment.Node = (0, 0)) -> Iterator[Path_]:
    if node == graph.end:
        yield (node,)
    for target, _ in graph.steps[node]:
        for rest in all_paths(graph, target):
            yield (node, *rest)


def exhaustive(source: Sequence[str], output: Sequence[str], golds: Sequence[Edit]) -> Counts:
    """Tries every path, every way to cut it into edits and every gold edit for each."""
    graph = alignment.shortest_paths(source, output)

    def keeps(one: alignment.Node, two: alignment.Node) -> bool:
        both = two[0] - one[0] == two[1] - one[1] == 1
        return both and source[one[0]] == output[one[1]]

    def search(path: Path_, left: tuple[Edit, ...]) -> tuple[int, int, int]:
        """Best (agreed, -steps, -edits) of the rest of a path."""
        if len(path) == 1:
            return (0, 0, 0)
        found = []
        if keeps(path[0], path[1]):
            agreed, steps, edits = search(path[1:], left)
            found.append((agreed, steps - 1, edits))
        for length in range(1, len(path)):
            (i, j), (i2, j2) = path[0], path[length]
            kept = sum(keeps(*pair) for pair in itertools.pairwise(path[: length + 1]))
            changes = kept < length
            if changes and kept <= 2:
                agreed, steps, edits = search(path[length:], left)
                found.append((agreed, steps - length, edits - 1))
            for k, gold in enumerate(left):
                limit = 99 if gold.type == "R:WO" else 2
                text = " ".join(output[j:j2])
                matches = (gold.start, gold.end) == (i, i2) and text in gold.replacements
                if matches and kept <= limit and text != " ".join(source[i:i2]):
                    agreed, steps, edits = search(path[length:], left[:k] + left[k + 1 :])
                    found.append((agreed + 1, steps, edits))
        return max(found)

    agreed, _, edits = max(search(path, tuple(golds)) for path in all_paths(graph))
    return Counts(correct=agreed, proposed=agreed - edits, gold=len(golds))


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[str], list[str], tuple[Edit, ...]]:
    tokens = st.lists(st.sampled_from("abc"), max_size=4)
    source, output = draw(tokens), draw(tokens)
    return source, output, draw(build.gold_edits(len(source)))


@given(cases())
def test_agrees_with_exhaustive_search(
    case: tuple[list[str], list[str], tuple[Edit, ...]],
) -> None:
    source, output, edits = case
    found = maxmatch.count(" ".join(source), " ".join(output), [edits])
    expected = [exhaustive(source, output, one) for one in readings.readings(edits)]
    assert list(found) == expected


def one(source: str, output: str, *edits: Edit) -> Counts:
    (found,) = maxmatch.count(source, output, [edits])
    return found


def test_counts_right_wrong_and_missed_edits() -> None:
    golds = (edit(1, 2, "goes"), edit(3, 3, "the"), edit(4, 5, "house"))
    found = one("He go to big hous .", "She goes to the big hous .", *golds)
    # She goes is one edit, unless that agrees less with the gold edits
    assert found == Counts(correct=2, proposed=3, gold=3)


def test_a_gold_edit_over_several_words_is_found_as_one() -> None:
    assert one("a b c d", "a x c y", edit(1, 4, "x c y")) == Counts(correct=1, proposed=1, gold=1)
    found = one("a b c d", "a x c y", edit(1, 2, "x"), edit(3, 4, "y"))
    assert found == Counts(correct=2, proposed=2, gold=2)


def test_one_edit_keeps_up_to_two_words_in_its_middle() -> None:
    assert one("a b c d", "x b c y").proposed == 1
    assert one("a b c d e", "x b c d y").proposed == 2
    assert one("a b c d", "x b c y", edit(0, 4, "x b c y")).correct == 1
    assert one("a b c d e", "x b c d y", edit(0, 5, "x b c d y")).correct == 0


def test_any_of_the_alternatives_is_right() -> None:
    assert one("a b", "a d", edit(1, 2, "c", "d")).correct == 1


def test_two_gold_insertions_at_one_place_are_both_found() -> None:
    golds = (edit(1, 1, "x"), edit(1, 1, "y"))
    assert one("a b", "a x y b", *golds) == Counts(correct=2, proposed=2, gold=2)


def test_a_gold_insertion_is_found_only_once() -> None:
    assert one("a b", "a x x b", edit(1, 1, "x")) == Counts(correct=1, proposed=2, gold=1)


def test_a_deletion_beside_an_insertion_and_a_replacement_are_both_ways() -> None:
    apart = one("a b c", "a c x", edit(1, 2, ""), edit(3, 3, "x"))
    assert apart == Counts(correct=2, proposed=2, gold=2)
    together = one("a b c", "a c x", edit(1, 2, "c"), edit(2, 3, "x"))
    assert together == Counts(correct=2, proposed=2, gold=2)


def test_an_edit_that_changes_nothing_is_never_found() -> None:
    assert one("a b", "a b", edit(0, 1, "a")) == Counts(correct=0, proposed=0, gold=1)


def test_word_order_may_move_words_over_many_others() -> None:
    source, output = "x a b c d .", "a b c d x ."
    order = edit(0, 5, "a b c d x", kind="R:WO")
    assert one(source, output, order) == Counts(correct=1, proposed=1, gold=1)
    assert one(source, output, edit(0, 5, "a b c d x")).correct == 0


def test_the_kindest_annotator_is_taken() -> None:
    example = build.example(
        "a b c", edits=((edit(0, 1, "x"),), (edit(1, 2, "y"), edit(2, 3, "z")), ())
    )
    assert MAXMATCH.statistics(example, "x b c") == (1.0, 1.0, 1.0)
    assert MAXMATCH.statistics(example, "a y c") == (1.0, 1.0, 2.0)
    assert MAXMATCH.statistics(example, "a b c") == (0.0, 0.0, 0.0)
    assert MAXMATCH.statistics(example, "a b q") == (0.0, 1.0, 0.0)


def test_released_choice_depends_on_the_score_so_far() -> None:
    bold = Counts(correct=1, proposed=2, gold=3)
    shy = Counts(correct=0, proposed=0, gold=0)
    good = Counts(correct=9, proposed=9, gold=9)
    assert maxmatch.released([(bold, shy)]) == shy
    assert maxmatch.released([(good,), (bold, shy)]) == good
    bad = Counts(correct=1, proposed=9, gold=9)
    assert maxmatch.released([(bad,), (bold, shy)]) == bad + bold


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ((0, 0, 0), 1.0),
        ((0, 3, 0), 0.0),
        ((0, 0, 3), 0.0),
        ((2, 2, 2), 1.0),
        ((1, 2, 4), 1.25 * 0.5 * 0.25 / (0.25 * 0.5 + 0.25)),
    ],
)
def test_f_score(totals: tuple[float, ...], expected: float) -> None:
    assert float(MAXMATCH.value(np.array(totals, dtype=float))) == pytest.approx(expected)


def test_an_example_without_gold_edits_is_refused() -> None:
    with pytest.raises(errors.SuiteInvalid, match="'e1' has no gold edits"):
        MAXMATCH.statistics(build.example("a", "b"), "a")


def test_a_long_and_wholly_different_output_is_counted() -> None:
    found = one("a b c d e f", " ".join("xyz" * 100), edit(0, 1, "q"))
    assert found == Counts(correct=0, proposed=1, gold=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "ua-gec/gec-only.test.m2",
        "multiged-2023-de/german/fm-dev.m2",
        "multiged-2023-de/german/fm-test.m2",
        "estgec-l2/dev.m2",
        "estgec-l2/test.m2",
    ],
)
def test_references_scored_against_their_own_edits(name: str) -> None:
    choices = [
        maxmatch.count(" ".join(sentence.tokens), corrected(sentence.tokens, edits), [edits])
        for sentence in m2.read(build.data_file(name))
        for edits in sentence.annotations.values()
    ]
    assert maxmatch.released(choices).f >= 0.997
    assert sum(map(maxmatch.kindest, choices), start=maxmatch.NOTHING).f >= 0.997


PILLARS = "pillars-of-gec/data"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("system", "published"),
    [
        ("GECToR-2024", (74.95, 44.68, 66.01)),
        ("CTC-Copy", (72.64, 47.04, 65.51)),
        ("EditScorer", (78.54, 39.41, 65.53)),
        ("T5-11B", (70.91, 56.54, 67.48)),
    ],
)
def test_numbers_of_the_released_scorer(system: str, published: tuple[float, ...]) -> None:
    gold = m2.read(build.data_file(f"{PILLARS}/evaluation_sets/nucle14-2a.m2"))
    path = Path(PILLARS) / "system_preds/single_systems" / f"{system}___nucle14_2a.txt"
    choices = [
        maxmatch.count(" ".join(sentence.tokens), output, sentence.annotations.values())
        for sentence, output in zip(gold, build.lines(str(path)), strict=True)
    ]
    found = maxmatch.released(choices)
    percent = (found.correct / found.proposed, found.correct / found.gold, found.f)
    assert [100 * one for one in percent] == pytest.approx(published, abs=0.006)
    alone = sum(map(maxmatch.kindest, choices), start=maxmatch.NOTHING)
    assert alone.f == pytest.approx(found.f, abs=0.0003)
