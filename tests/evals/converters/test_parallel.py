"""Parallel text."""

import pytest

from evals.converters import Parallel
from evals.errors import SuiteInvalid
from tests.evals.converters.build import files

TWO = Parallel(name="parallel", source="a.src", references=("a.ref0", "a.ref1"))


def test_lines_belong_together_by_number() -> None:
    found = list(TWO.examples(files(a__src="x \r\ny\r\n", a__ref0="X\nY\n", a__ref1="x\n  Y y\n")))
    assert [(example.id, example.source, example.references) for example in found] == [
        ("a:1", "x", ("X", "x")),
        ("a:2", "y", ("Y", "Y y")),
    ]


@pytest.mark.parametrize(
    ("ref0", "ref1", "message"),
    [
        ("X\n", "x\ny\n", r"/data/a\.ref0:2: references are missing or too many: .* 1 lines, "),
        ("X\nY\nZ\n", "x\ny\n", r"/data/a\.ref0:3: references are missing or too many"),
        ("X\nY\n", "x\n \n", r"/data/a\.ref1:2: the line is blank"),
        ("X\nY\n", b"x\n\xe4\n", r"/data/a\.ref1:2: byte 1 of the line is not UTF-8"),
    ],
)
def test_missing_references_are_named_by_file_and_line(
    ref0: str, ref1: str | bytes, message: str
) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        list(TWO.examples(files(a__src="x\ny\n", a__ref0=ref0, a__ref1=ref1)))


def test_blank_lines_are_skipped_only_where_all_files_have_them() -> None:
    options = Parallel(name="parallel", source="a", references=("b",), skip_blank=True)
    found = list(options.examples(files(a="x\n \ny\n", b="x\n\nz\n")))
    assert [example.id for example in found] == ["a:1", "a:3"]
    with pytest.raises(SuiteInvalid, match="/data/b:2: the line is blank"):
        list(options.examples(files(a="x\nx\n", b="x\n\n")))
    with pytest.raises(SuiteInvalid, match="/data/a:2: the line is blank"):
        list(options.examples(files(a="x\n\n", b="x\nx\n")))


def test_variants_of_one_sentence_are_a_cluster() -> None:
    options = Parallel(name="parallel", source="a", references=("b",), cluster_by_reference=True)
    found = list(options.examples(files(a="x\ny\nz\n", b="X\nX\nZ\n")))
    assert [example.cluster for example in found] == ["X", "X", "Z"]
