"""Lines of files that nobody has to trust."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals import textfile
from evals.errors import SuiteInvalid


def texts(data: bytes) -> list[str]:
    return [line.text for line in textfile.lines(data, "f")]


def test_only_a_newline_ends_a_line() -> None:
    assert texts("a\u2028b\u0085c\n\nd\r\ne".encode()) == ["a\u2028b\u0085c", "", "d", "e"]


def test_a_byte_order_mark_is_no_text() -> None:
    assert texts(b"\xef\xbb\xbfa\n") == ["a"]
    assert texts(b"") == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ok\nf\xfcr\n", r"f:2: byte 2 of the line is not UTF-8 .*mixes encodings"),
        ("a\n".encode("utf-16"), r"f:1: the file is UTF-16"),
        (b"a\nb\x00\n", r"f:2: holds U\+0000 at position 2"),
        (b"a\rb\r", r"f:1: holds a carriage return"),
        (b"a\n\xef\xbb\xbfb\n", r"f:2: holds U\+FEFF at position 1"),
        (b"ok\n" + b"x" * 10_000_000, r"f:2: the line has 10,000,000 bytes"),
    ],
)
def test_lines_that_are_no_text_are_named(data: bytes, message: str) -> None:
    with pytest.raises(SuiteInvalid, match=message):
        texts(data)


@given(st.binary(max_size=200))
def test_any_bytes_are_lines_or_an_error_that_names_the_file(data: bytes) -> None:
    problem, found = "f:", []
    try:
        found = texts(data)
    except SuiteInvalid as exc:
        problem = str(exc)
    assert problem.startswith("f:")
    assert "\n".join(found).encode() in data.replace(b"\r\n", b"\n")


@pytest.mark.parametrize("text", ["\ud800", "a\x1f", "\x7f"])
def test_half_characters_and_controls_are_not_text(text: str) -> None:
    assert textfile.not_text(text)


@pytest.mark.parametrize("text", ["", "a\tb", "שלום", "😀", "\ufffd"])
def test_text_is_text(text: str) -> None:
    assert textfile.not_text(text) is None
