"""Sentences and edits: nothing is lost, whatever the text."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.engine import corrections
from serving.engine.corrections import Edit, apply_edits, edits, rejoin, segments

# Few characters, so that words, marks and white space meet often; and any text at all.
MARKS = st.text("aBIé go.!?。\uff01\"'”)…, \t\n\r\x0b\u2028\xa0\u3000e.gDr😀", max_size=60)
TEXTS = st.one_of(MARKS, st.text(max_size=60))


def bodies(text: str) -> list[str]:
    return [text[part.start : part.end] for part in segments(text)]


@settings(deadline=None)  # time depends on who else uses the machine
@given(TEXTS)
def test_rejoining_untouched_sentences_is_identity(text: str) -> None:
    assert rejoin(text, bodies(text), list(segments(text))) == text


@settings(deadline=None)
@given(TEXTS)
def test_only_white_space_lies_outside_sentences(text: str) -> None:
    parts = list(segments(text))
    outside = rejoin(text, [""] * len(parts), parts)
    assert outside.strip() == ""
    assert all(body == body.strip() != "" for body in bodies(text))
    assert all(one.end <= other.start for one, other in itertools.pairwise(parts))


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_edits_turn_the_source_into_the_corrected_text(source: str, corrected: str) -> None:
    found = edits(source, corrected)
    assert apply_edits(source, found) == corrected
    assert all(edit.original != edit.replacement for edit in found)


@settings(deadline=None)
@given(TEXTS, TEXTS, TEXTS)
def test_edits_with_an_offset_fit_the_text_around(before: str, source: str, after: str) -> None:
    found = edits(source, source.upper(), offset=len(before))
    assert apply_edits(before + source + after, found) == before + source.upper() + after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He go. She come!", ["He go.", "She come!"]),
        ('"What?" he said. Ok', ['"What?" he said.', "Ok"]),
        ('"What?"\r\n\r\nhe said', ['"What?"', "he said"]),
        ("Dr. \nsmith", ["Dr.", "smith"]),
        ('They said "no." Then left.', ['They said "no."', "Then left."]),
        ("Dr. Smith met J. Smith, e.g. here.", ["Dr. Smith met J. Smith, e.g. here."]),
        ("You and I. Ok", ["You and I.", "Ok"]),
        ("Well... maybe. Well... Maybe.", ["Well... maybe.", "Well...", "Maybe."]),
        ("one line\nanother\r\n\r\nlast", ["one line", "another", "last"]),
        ("Mr.\nSmith", ["Mr.", "Smith"]),
        ("3.14 is not two. a.b", ["3.14 is not two.", "a.b"]),
        ("你好。再见\uff01「好。」 是", ["你好。", "再见\uff01", "「好。」", "是"]),
        ("", []),
        (" \t\n ", []),
    ],
)
def test_where_sentences_end(text: str, expected: list[str]) -> None:
    assert bodies(text) == expected


@pytest.mark.parametrize(
    ("source", "corrected", "expected"),
    [
        ("go school", "go to school", [Edit(start=3, end=3, original="", replacement="to ")]),
        ("the the cat", "the cat", [Edit(start=4, end=8, original="the ", replacement="")]),
        ("days.", "day.", [Edit(start=0, end=4, original="days", replacement="day")]),
        (
            "cafe\u0301 x",
            "cafe\u0301s x",
            [Edit(start=0, end=5, original="cafe\u0301", replacement="cafe\u0301s")],
        ),
        (
            "\u0939\u093f x",
            "\u0939\u0940 x",
            [Edit(start=0, end=2, original="\u0939\u093f", replacement="\u0939\u0940")],
        ),
        (
            "a\u200cb",
            "a\u200cc",
            [Edit(start=0, end=3, original="a\u200cb", replacement="a\u200cc")],
        ),
        (
            "\u2764\ufe0fgo",
            "\u2764\ufe0fgoes",
            [Edit(start=2, end=4, original="go", replacement="goes")],
        ),
        ("He don't", "He doesn't", [Edit(start=3, end=8, original="don't", replacement="doesn't")]),
    ],
)
def test_edits_are_whole_words(source: str, corrected: str, expected: list[Edit]) -> None:
    assert list(edits(source, corrected)) == expected


def test_texts_too_long_to_align_are_one_edit() -> None:
    source, corrected = "x " + "a " * 1_000 + "end", "y " + "b " * 1_000 + "end"
    assert len(edits(source, corrected)) == 1
    assert apply_edits(source, edits(source, corrected)) == corrected


def test_words_that_share_but_their_spaces_are_not_compared_for_long() -> None:
    source, corrected = (" ".join(f"{name}{n}" for n in range(245)) for name in "ab")
    assert len(edits(source, corrected)) < 30  # 245 take all the time there is
    assert apply_edits(source, edits(source, corrected)) == corrected


def test_a_long_sentence_with_many_faults_is_aligned_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chance = random.Random(0)
    words = [f"w{chance.paretovariate(0.6):.0f}" for _ in range(245)]  # as often as real ones
    faulty = chance.sample(range(len(words)), 80)
    fixed = [f"{word}s" if n in faulty else word for n, word in enumerate(words)]
    found = edits(" ".join(words), " ".join(fixed))
    monkeypatch.setattr(corrections, "_MOST_COMPARED", 10**12)
    assert edits(" ".join(words), " ".join(fixed)) == found


def test_an_edit_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"edit at 0\.\.2 expects 'no', the source has 'ye'"):
        apply_edits("yes", [Edit(start=0, end=2, original="no", replacement="")])


@pytest.mark.parametrize("unit", [" ", "a", ".", "\n", ".'", "。", "e.g. ", "'"])
def test_no_text_takes_quadratic_time(unit: str) -> None:
    text = unit * (100_000 // len(unit))
    started_s = time.process_time()
    count = sum(1 for _ in segments(text))
    assert count <= len(text)
    assert time.process_time() - started_s < 2.0  # quadratic would take minutes


@pytest.mark.parametrize("unit", ["Mr. ", "A. ", ".. a", '\u3002"a', '"What?" he '])
def test_a_sentence_does_not_go_on_for_ever(unit: str) -> None:
    text = unit * 10_000
    parts = list(segments(text))
    assert len(parts) > 250
    assert rejoin(text, [text[part.start : part.end] for part in parts], parts) == text
