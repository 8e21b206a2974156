"""Messages stay on their line and within bounds, whatever they quote."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import wording


@given(st.text() | st.integers() | st.lists(st.text()) | st.none())
def test_a_shown_value_is_short_and_printable(value: object) -> None:
    found = wording.shown(value)
    assert len(found) <= wording.SHOWN_CHARS
    assert "\n" not in found
    assert not any(wording.breaks_lines(c) for c in found)


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (3 << 29, "1.5 GiB"),
     (2**64 - 1, "16.0 EiB")],
)  # fmt: skip
def test_sizes_are_told_in_powers_of_1024(count: int, told: str) -> None:
    assert wording.size(count) == told


@pytest.mark.parametrize(
    "text", ["", "Ann Bell", "naïve café", "模型", "a\u00a0b", "👩\u200d🚀", "ن\u200cم"]
)
def test_lines_in_any_language_are_accepted(text: str) -> None:
    assert wording.check_line("reason", text, 20) == text
    assert wording.one_line(text) == text


@pytest.mark.parametrize(
    "strange", ["\n", "\r", "\x00", "\x1b", "\x7f", "\u0085", "\u2028", "\u202e", "\ud800"]
)
def test_what_could_forge_a_line_is_refused_by_place(strange: str) -> None:
    with pytest.raises(ValueError, match=r"reason must be one line of text, .* at position 3"):
        wording.check_line("reason", f"ab{strange}c", 20)
    assert wording.one_line(f"ab{strange}c") == "ab?c"


def test_an_endless_line_is_refused() -> None:
    with pytest.raises(ValueError, match="name has 21 characters, at most 20"):
        wording.check_line("name", "x" * 21, 20)
