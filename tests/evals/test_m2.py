"""M2 is read as published; broken M2 is refused naming file and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evals import errors, m2, textfile

BLOCK = """S He go home .
A 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0
A 2 2|||M:DET|||to||to the|||REQUIRED|||-NONE-|||0
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1
"""


def parse(text: str) -> tuple[m2.M2Sentence, ...]:
    return m2.parse(text.encode(), "gold.m2")


def test_reads_edits_of_several_annotators() -> None:
    (sentence,) = parse(BLOCK)
    assert sentence.tokens == ("He", "go", "home", ".")
    assert sentence.annotations == {
        0: (
            m2.Edit(start=1, end=2, replacements=("goes",), type="R:VERB:SVA"),
            m2.Edit(start=2, end=2, replacements=("to", "to the"), type="M:DET"),
        ),
        1: (),
    }


def test_a_block_without_edits_was_read_by_annotator_0() -> None:
    assert [s.annotations for s in parse("S a\n\nS b\n")] == [{0: ()}, {0: ()}]


def test_absent_annotator_is_not_one_who_found_nothing() -> None:
    (sentence,) = parse("S a b\nA 0 1|||R|||x|||REQUIRED|||-NONE-|||3\n")
    assert list(sentence.annotations) == [3]


def test_windows_lines_byte_order_mark_and_no_last_newline() -> None:
    data = b"\xef\xbb\xbf" + BLOCK.rstrip().replace("\n", "\r\n").encode()
    assert m2.parse(data, "gold.m2") == parse(BLOCK)


@pytest.mark.parametrize(
    ("written", "replacements"),
    [("", ("",)), ("-NONE-", ("",)), ("|", ("|",)), (" a  b ", ("a b",)), ("a||a", ("a",))],
)
def test_replacements(written: str, replacements: tuple[str, ...]) -> None:
    (sentence,) = parse(f"S a b\nA 0 1|||R|||{written}|||REQUIRED|||-NONE-|||0\n")
    assert sentence.annotations[0][0].replacements == replacements


def test_overlapping_edits_and_edits_on_one_span_are_kept_in_order() -> None:
    lines = [
        f"A {span}|||T|||{new}|||REQUIRED|||-NONE-|||0"
        for span, new in [("0 2", "x"), ("1 2", "y"), ("1 1", "p"), ("1 1", "q")]
    ]
    (sentence,) = parse("\n".join(["S a b c", *lines]))
    assert [edit.replacements[0] for edit in sentence.annotations[0]] == ["x", "y", "p", "q"]


def test_line_separator_inside_a_sentence_does_not_end_it() -> None:
    (sentence,) = parse("S a\u2028b 😀\n")
    assert sentence.tokens == ("a", "b", "😀")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("A 0 1|||R|||x|||REQUIRED|||-NONE-|||0", 1, "without a sentence"),
        ("S a\n\nnonsense", 3, "expected a line that starts with"),
        ("S a\nA 0 1|||R|||x|||0", 2, "expected 6 fields"),
        ("S a\nA 0 2|||R|||x|||REQUIRED|||-NONE-|||0", 2, "0 <= start <= end <= 1"),
        ("S a\nA 1 0|||R|||x|||REQUIRED|||-NONE-|||0", 2, "0 <= start <= end <= 1"),
        ("S a\nA one 1|||R|||x|||REQUIRED|||-NONE-|||0", 2, "two token numbers"),
        ("S a\nA 0 1|||R|||x|||REQUIRED|||-NONE-|||me", 2, "annotator must be a number"),
        ("S a\nA 0 1|||R|||x|||REQUIRED|||-NONE-|||" + "9" * 5_000, 2, "at most 9 digits"),
        ("S a\nA 0 1|||R|||x|||REQUIRED|||-NONE-|||\u0663", 2, "annotator must be a number"),
        ("S a\nA 0 0_1|||R|||x|||REQUIRED|||-NONE-|||0", 2, "two token numbers"),
        ("S a\x00b", 1, "holds U+0000 at position 4"),
        ("S a\rA 0 1|||R|||x|||REQUIRED|||-NONE-|||0", 1, "holds a carriage return"),
        ("S " + "x" * textfile.LINE_LIMIT_BYTES, 1, "one sentence or one record"),
    ],
)
def test_broken_files_are_refused_naming_the_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(errors.SuiteInvalid, match=rf"^gold\.m2:{line}: ") as caught:
        parse(text)
    assert reason in str(caught.value)


def test_a_sentence_of_endless_annotators_is_refused() -> None:
    lines = [f"A 0 1|||R|||x|||REQUIRED|||-NONE-|||{n}" for n in range(m2.ANNOTATOR_LIMIT + 1)]
    with pytest.raises(errors.SuiteInvalid, match=r"gold\.m2:102: .*more than 100 annotators"):
        parse("\n".join(["S a", *lines]))


def test_other_encoding_is_refused_naming_the_line() -> None:
    with pytest.raises(errors.SuiteInvalid, match=r"gold\.m2:2: byte 3 of the line is not UTF-8"):
        m2.parse(b"S a\nS \xe4h\n", "gold.m2")


def test_absent_file_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(errors.SuiteUnavailable, match=r"M2 file .*gone\.m2 does not exist"):
        m2.read(tmp_path / "gone.m2")


@pytest.mark.parametrize(
    ("name", "n_sentences", "n_annotators"),
    [("ua-gec/gec-only.test.m2", 2862, 2), ("estgec-l2/test.m2", 2029, 3)],
)
def test_reads_published_corpora(name: str, n_sentences: int, n_annotators: int) -> None:
    root = os.environ.get("LIFTLOCK_DATA_DIR")
    if root is None or not (Path(root) / name).is_file():
        pytest.skip(f"no {name} in LIFTLOCK_DATA_DIR")
    sentences = m2.read(Path(root) / name)
    assert len(sentences) == n_sentences
    assert max(len(sentence.annotations) for sentence in sentences) == n_annotators
