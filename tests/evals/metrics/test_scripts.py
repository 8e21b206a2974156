"""Scripts of letters, and whether an output keeps them."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from evals.metrics import scripts

UKRAINIAN = "Я не є доктор ."


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Zażółć 12 !", {"LATIN": 6}),
        ("доктор A1", {"CYRILLIC": 6, "LATIN": 1}),
        ("שלום", {"HEBREW": 4}),
        ("سلام ، ـ", {"ARABIC": 5}),
        ("漢字かなカナｶﾅ", {"CJK": 8}),
        ("ΑΩ µ ª ﬁ", {"GREEK": 2, "LATIN": 1}),
        ("😀 \U0001d4b3 ½ ʰ", {}),
        ("", {}),
    ],
)
def test_scripts_of_a_text(text: str, found: dict[str, int]) -> None:
    assert scripts.scripts(text) == found


@pytest.mark.parametrize(
    ("output", "kept"),
    [
        ("Я не є доктором .", True),
        ("Я не є доктором IBM .", False),  # a script that no accepted text has
        ("I am not a doctor .", False),
        ("我不是医生。", False),
        ("", False),
        ("...", False),
        ("Я 😀", True),
    ],
)
def test_kept_beside_a_cyrillic_source(output: str, kept: bool) -> None:
    assert scripts.kept(output, [UKRAINIAN]) is kept


def test_the_main_script_must_be_the_same() -> None:
    assert scripts.kept("Я працюю в IBM .", ["Я працюю для IBM ."])
    assert not scripts.kept("I work at IBM . Я", ["Я працюю для IBM ."])


def test_a_reference_may_bring_a_script() -> None:
    assert scripts.kept("100 km", ["100 ?", "100 km"])


def test_texts_without_letters_keep_nothing_and_lose_nothing() -> None:
    assert scripts.kept("1 + 1 = 2", ["1 + 1 = 3"])
    assert scripts.kept("", ["..."])


def test_agrees_with_the_unicode_script_property() -> None:
    """Every letter that this Python knows, for the scripts that grammar suites are written in."""
    regex = pytest.importorskip("regex")
    names = [
        *("Latin", "Cyrillic", "Greek", "Arabic", "Hebrew", "Hangul", "Devanagari", "Thai"),
        *("Georgian", "Armenian", "Bengali", "Tamil", "Ethiopic", "Khmer", "Gujarati", "Telugu"),
    ]
    properties = {name.upper(): regex.compile(rf"\p{{Script={name}}}") for name in names}
    letters = [
        letter
        for letter in map(chr, range(0x30000))
        if unicodedata.category(letter).startswith("L") and unicodedata.name(letter, "") != ""
    ]
    assert len(letters) > 100_000, sys.version
    wrong = [
        (letter, script)
        for script, pattern in properties.items()
        for letter in filter(pattern.match, letters)
        if scripts.scripts(letter).keys() - {script}
    ]
    assert wrong == []
