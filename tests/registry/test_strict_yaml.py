"""Settings are plain data; whatever YAML offers beyond that is refused by line."""

from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from registry import strict_yaml

LAUGHS = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}, *{chr(97 + n)}]\n"
    for n in range(20)
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (LAUGHS, r"alias \*a is not accepted; write the value \(line 2, column 8\)"),
        ("a: &x 1\nb: *x", r"alias \*x"),
        ("base: &b {x: 1}\nc: {<<: *b}", "alias"),
        ("&r [*r]", "alias"),
        ("a: 1\nb: 2\na: 3", r"'a' is given more than once \(line 3, column 1\)"),
        ("{a: {b: 1, b: 2}}", "'b' is given more than once"),
        ("a: .nan", "finite"),
        ("a: [1, -.inf]", "finite"),
        ("a: 1.0e+999", "finite"),
        ("a: " + "9" * 5_000, "too large for a number"),
        ("a: 0x" + "f" * 5_000, "too large for a number"),
        ("a: 9223372036854775808", "too large for a number"),
        ("a: 1:30", r"'1:30' is read in different ways; write it plainly \(line 1, column 4\)"),
        ("a: 1:30.5", "read in different ways"),
        ("a: 0777", "read in different ways"),
        ("a: 2001-99-99", "month must be"),
        ('a: "\\ud800"', "half a character"),
        ('a: "\\U00110000"', "not in range"),
        ("!!python/object/apply:os.system [ls]", "tag .*os.system.* is not accepted"),
        ("!!python/name:os.system", "tag"),
        ("a: !!binary aGk=", "tag"),
        ("a: !!int ''", "tag"),
        ("a: !own x", "tag '!own'"),
        ("a: 0x_", "base 16"),
        ("a: [1", "expected"),
        ("a: b: c", "not allowed here"),
        ("a: \x07", "special characters"),
        ("\t- a", "cannot start any token"),
        ("--- 1\n--- 2", "another document"),
        ("[" * 10_000, "nested too deeply"),
        ("? [a]\n: 1", "unhashable key"),
        ("a: =", "could not determine"),
    ],
)
def test_more_than_plain_data_is_refused(text: str, told: str) -> None:
    started_s = time.process_time()
    with pytest.raises(ValueError, match=told) as refused:
        strict_yaml.parse(text)
    assert "\n" not in str(refused.value)
    assert time.process_time() - started_s < 2.0


@pytest.mark.parametrize(
    ("text", "value"),
    [("", None), ("a: [1, 2.5, yes, null]", {"a": [1, 2.5, True, None]}), ("a: 'x'", {"a": "x"})],
)
def test_plain_data_is_what_it_is(text: str, value: object) -> None:
    assert strict_yaml.parse(text) == value


@given(st.text(max_size=40) | st.text("a:&*!<-[]{},?|>'\"\n 0x.e%@`#=", max_size=40))
def test_any_text_is_read_as_the_library_does_or_refused(text: str) -> None:
    try:
        found = strict_yaml.parse(text)
    except ValueError:
        return
    assert found == yaml.safe_load(text)
