"""Sentences of M2 files, with a reference per annotator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evals.converters import M2
from evals.converters.m2 import Tagging, corrected
from evals.errors import SuiteInvalid
from evals.m2 import Edit
from tests.evals.converters.build import files

TEXT = """S # 0007
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

S He go home .
A 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1

S Fine .
"""


def edit(start: int, end: int, *replacements: str) -> Edit:
    return Edit(start=start, end=end, replacements=replacements, type="R:X")


def test_each_annotator_gives_a_reference_and_edits() -> None:
    options = M2(name="m2", file="a.m2", tags=Tagging.TAIL, document_marker=r"# \d+")
    first, second = options.examples(files(a__m2=TEXT))
    assert first.id == "a:2"
    assert first.source == "He go home ."
    assert first.references == ("He goes home .", "He go home .")
    assert [len(edits) for edits in first.edits] == [1, 0]
    assert first.tags == ("VERB:SVA",)
    assert first.cluster == second.cluster == "# 0007"
    assert second.references == ("Fine .",)
    assert second.edits == ((),)


def test_without_options_every_block_is_an_example_without_tags() -> None:
    examples = list(M2(name="m2", file="a.m2").examples(files(a__m2=TEXT)))
    assert [example.source for example in examples] == ["# 0007", "He go home .", "Fine ."]
    assert {(example.tags, example.cluster) for example in examples} == {((), None)}


def test_full_types_are_kept_as_they_are() -> None:
    examples = list(M2(name="m2", file="a.m2", tags=Tagging.FULL).examples(files(a__m2=TEXT)))
    assert examples[1].tags == ("R:VERB:SVA",)


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([], "a b c d"),
        ([edit(0, 1, "x y"), edit(3, 4, "")], "x y b c"),
        # A change of word order over a misspelled word holds the word put right.
        ([edit(1, 2, "B"), edit(0, 2, "B a")], "B a c d"),
        ([edit(0, 2, "B a"), edit(1, 2, "B")], "B a c d"),
        # Across each other: the widest, then the first.
        ([edit(0, 2, "x"), edit(1, 4, "y")], "a y"),
        ([edit(0, 2, "x"), edit(1, 3, "y")], "x c d"),
        # On one span: the longest, which holds the other.
        ([edit(1, 2, "B"), edit(1, 2, "! B")], "a ! B c d"),
        # Insertions at one place follow each other, before what begins there.
        ([edit(1, 1, ","), edit(1, 1, "so")], "a , so b c d"),
        ([edit(1, 2, "B"), edit(1, 1, ",")], "a , B c d"),
        ([edit(0, 1, "A"), edit(1, 1, ",")], "A , b c d"),
        ([edit(4, 4, ".")], "a b c d ."),
        # Inside a wider edit an insertion is part of it.
        ([edit(1, 1, ","), edit(0, 2, "x")], "x c d"),
        # Of alternatives the first.
        ([edit(0, 1, "x", "y")], "x b c d"),
    ],
)
def test_edits_are_applied_the_widest_winning(edits: list[Edit], expected: str) -> None:
    assert corrected(["a", "b", "c", "d"], edits) == expected


@given(
    st.lists(st.sampled_from("abc"), max_size=8),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), st.text("xy ", max_size=4))),
)
def test_any_edits_give_tokens_of_source_and_replacements(
    tokens: list[str], raw: list[tuple[int, int, str]]
) -> None:
    n = len(tokens)
    edits = [edit(min(a, b, n), min(max(a, b), n), text) for a, b, text in raw]
    result = corrected(tokens, edits).split()
    allowed = set(tokens) | {word for _, _, text in raw for word in text.split()}
    assert set(result) <= allowed
    if not edits:
        assert result == tokens


def test_broken_m2_names_file_and_line() -> None:
    broken = "S a b\nA 0 9|||R|||x|||REQUIRED|||-NONE-|||0\n"
    with pytest.raises(SuiteInvalid, match=r"/data/a\.m2:2: the span"):
        list(M2(name="m2", file="a.m2").examples(files(a__m2=broken)))


def test_file_that_is_not_listed_is_refused() -> None:
    with pytest.raises(SuiteInvalid, match=r"'b\.m2', which is not among the files"):
        list(M2(name="m2", file="b.m2").examples(files(a__m2=TEXT)))


def test_marker_must_be_a_pattern() -> None:
    with pytest.raises(ValidationError, match="not a regular expression"):
        M2(name="m2", file="a.m2", document_marker="(")


@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.sampled_from(["x", "y z", ""])),
        max_size=8,
    )
)
def test_an_edit_is_applied_unless_it_overlaps_one_with_a_stronger_claim(
    drawn: list[tuple[int, int, str]],
) -> None:
    edits = [edit(min(a, b), max(a, b), text) for a, b, text in drawn]
    strongest = sorted(
        edits, key=lambda e: (e.start - e.end, -len(e.replacements[0].split()) * (e.end > e.start))
    )
    kept: list[Edit] = []
    for one in strongest:
        inside = [e for e in kept if e.start < one.start < e.end] if one.start == one.end else []
        across = [e for e in kept if max(e.start, one.start) < min(e.end, one.end)]
        if not (inside or across):
            kept.append(one)
    assert corrected("abcdef", edits) == corrected("abcdef", sorted(kept, key=edits.index))


@pytest.mark.parametrize("width", [0, 1])
def test_many_edits_of_one_sentence_are_applied_at_once(width: int) -> None:
    edits = [edit(2 * n, 2 * n + width, "b") for n in range(50_000)]
    assert corrected(["a"] * 100_000, edits).split().count("b") == len(edits)
