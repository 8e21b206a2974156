"""JSON that two readers could take for different things is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import strict_json

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner),
    max_leaves=8,
)  # fmt: skip


@given(PLAIN, st.booleans())
def test_plain_values_come_back(value: Any, ascii_only: bool) -> None:
    assert strict_json.parse(json.dumps(value, ensure_ascii=ascii_only)) == value


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "'c' is given more than once"),
        ("[NaN]", "NaN is not a JSON number"),
        ("[-Infinity]", "-Infinity"),
        ("[1e999]", "too large"),
        ("[-1e999]", "too large"),
        ('["\\ud800"]', "half a character"),
        ('{"\\uDFFF": 1}', "half a character"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("[" + "[]," * 2_000_000 + "1]", "more than 2000000"),
        ("9" * 5_000, "4300 digits"),
        ("", "Expecting value"),
        ("{'a': 1}", "double quotes"),
        ("[1,]", "Expecting|Illegal"),
        ("\x00", "Expecting value"),
        ("\ufeff{}", "BOM"),
    ],
)
def test_what_is_not_the_same_for_all_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        strict_json.parse(text)


def test_whole_characters_may_be_escaped() -> None:
    assert strict_json.parse('["\\ud83d\\ude00"]') == ["😀"]


def test_many_keys_of_which_the_last_repeats_take_no_quadratic_time() -> None:
    text = "{" + ",".join(f'"k{n}": {n}' for n in range(200_000)) + ', "k199999": 0}'
    started_s = time.process_time()
    with pytest.raises(ValueError, match="k199999"):
        strict_json.parse(text)
    assert time.process_time() - started_s < 5.0


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        found = strict_json.parse(text)
    except ValueError:
        return
    assert found == json.loads(text)
