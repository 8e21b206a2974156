"""Sentences made of a dictionary of misspellings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evals.converters import Typos
from evals.converters.m2 import corrected
from evals.converters.typos import Frame, mistake
from evals.errors import SuiteInvalid
from tests.evals.converters.build import files

DICTIONARY = (
    "accomodation->accommodation\nacommodation->accommodation\ncondtions->conditions\n"
    "relaly->really, relay,\nshrot->short\nex-tension->extension\nstation-->station\n"
)
FRAMES = (
    Frame(endings=("tions",), sentences=("The {word} were listed.", "Most {word} changed.")),
    Frame(endings=("tion",), sentences=("The {word} was mentioned.",)),
)
OPTIONS = Typos(name="typos", file="d.txt", frames=FRAMES)


def test_each_word_that_fits_gives_one_sentence_with_one_typo() -> None:
    first, second = OPTIONS.examples(files(d__txt=DICTIONARY))
    assert first.id == "accommodation"
    assert first.references == ("The accommodation was mentioned.",)
    assert first.source in ("The accomodation was mentioned.", "The acommodation was mentioned.")
    assert first.tags == ("missing_letter",)
    assert second.id == "conditions"


def test_edits_lead_from_source_to_reference() -> None:
    for example in OPTIONS.examples(files(d__txt=DICTIONARY)):
        (edits,) = example.edits
        assert corrected(example.source.split(), edits) == example.references[0]


def test_correct_sentences_are_their_own_reference() -> None:
    options = OPTIONS.model_copy(update={"correct": True})
    for example in options.examples(files(d__txt=DICTIONARY)):
        assert example.references == (example.source,)
        assert example.edits == ((),)


def test_order_of_the_dictionary_does_not_matter() -> None:
    turned = "".join(reversed(DICTIONARY.splitlines(keepends=True)))
    assert list(OPTIONS.examples(files(d__txt=turned))) == list(
        OPTIONS.examples(files(d__txt=DICTIONARY))
    )


@pytest.mark.parametrize(
    ("typo", "kind"),
    [
        ("aple", "missing_letter"),
        ("appple", "extra_letter"),
        ("appel", "swapped_letters"),
        ("apqle", "wrong_letter"),
        ("elppa", "several_slips"),
        ("ap", "several_slips"),
        ("applesxy", "several_slips"),
    ],
)
def test_slips_have_a_kind(typo: str, kind: str) -> None:
    assert mistake(typo, "apple") == kind


@given(st.text("abc", min_size=1, max_size=6), st.text("abc", min_size=1, max_size=6))
def test_any_two_words_have_a_kind_of_slip_between_them(typo: str, word: str) -> None:
    assert mistake(typo, word)


@pytest.mark.parametrize("line", ["accomodation", "->word", "typo->", "a => b"])
def test_line_without_an_arrow_is_named(line: str) -> None:
    with pytest.raises(SuiteInvalid, match=r"d.txt:2: expected `typo->word`"):
        list(OPTIONS.examples(files(d__txt=f"shrot->short\n{line}\n")))


@pytest.mark.parametrize("sentence", ["No gap.", "Two {word} and {word} .", "At the {word}."])
def test_frame_needs_one_gap_between_spaces(sentence: str) -> None:
    with pytest.raises(ValidationError, match=r"needs {word} once"):
        Frame(endings=("s",), sentences=(sentence,))


def test_a_word_that_is_its_own_typo_is_refused() -> None:
    with pytest.raises(SuiteInvalid, match=r"d\.txt:1: expected `typo->word`, two words"):
        list(OPTIONS.examples(files(d__txt="station->station\n")))


@given(st.text("ab", min_size=1, max_size=6), st.integers(0, 6), st.sampled_from("ab"))
def test_one_letter_more_is_an_extra_letter_wherever_it_is(word: str, at: int, more: str) -> None:
    typo = word[:at] + more + word[at:]
    assert (mistake(typo, word), mistake(word, typo)) == ("extra_letter", "missing_letter")


def test_a_very_long_word_is_looked_at_once() -> None:
    assert mistake("a" * 300_000, "a" * 299_999 + "b" * 5) == "several_slips"
    assert mistake("a" * 300_000 + "c", "a" * 299_999 + "bc" * 5) == "several_slips"
