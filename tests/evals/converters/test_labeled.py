"""Alternating lines of grammatical and ungrammatical sentences."""

import pytest

from evals.converters import Labeled
from evals.errors import SuiteInvalid
from tests.evals.converters.build import files

OPTIONS = Labeled(name="labeled", files="*.txt")


def test_two_lines_are_a_pair() -> None:
    text = "True\tdie Bauern sprechen\nFalse\tdie Bauern spricht\n"
    (pair,) = OPTIONS.examples(files(simple__txt=text))
    assert (pair.id, pair.source, pair.contrast) == (
        "simple:1",
        "die Bauern sprechen",
        "die Bauern spricht",
    )
    assert (pair.references, pair.tags, pair.cluster) == ((), ("simple",), "simple.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("True\ta\n", "a.txt:1: the last line has no twin"),
        ("False\ta\nTrue\tb\n", "a.txt:1: expected 'True', a tab and a sentence"),
        ("True\ta\nTrue\tb\n", "a.txt:2: expected 'False'"),
        ("True\ta\nFalse b\n", "a.txt:2: expected 'False'"),
        ("True\ta\nFalse\t \n", "a.txt:2: expected 'False'"),
    ],
)
def test_lines_that_do_not_alternate_are_named(text: str, message: str) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        list(OPTIONS.examples(files(a__txt=text)))
