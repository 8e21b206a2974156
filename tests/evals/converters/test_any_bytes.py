"""Whatever a file holds, a converter makes examples or says what is wrong where."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.converters import M2, Csv, Files, Jsonl, Labeled, Parallel, Tei, Typos
from evals.converters.base import Converter
from evals.converters.records import Fields
from evals.converters.typos import Frame
from evals.errors import SuiteInvalid
from tests.evals.converters.build import files

FIELDS = Fields(source="s", references=("r",), tags=("t",))
FRAME = Frame(endings=("ing",), sentences=("A {word} .",))
GOOD: dict[str, tuple[Converter, bytes]] = {
    "m2": (
        M2(name="m2", file="f.x"),
        b"S a b\nA 0 1|||R|||d||e|||REQUIRED|||-NONE-|||0\nA -1 -1|||noop||||||R|||N|||1\n\nS d\n",
    ),
    "parallel": (Parallel(name="parallel", source="f.x", references=("f.x",)), b"one\ntwo\n"),
    "tei": (
        Tei(name="tei", files="*"),
        b"<t><s><w>a</w><revision><original/><corrected><w>b</w></corrected></revision></s></t>",
    ),
    "csv": (Csv(name="csv", files="*", fields=FIELDS), b's,r,t\n"a ""b""",c,d\ne,f,g\n'),
    "jsonl": (
        Jsonl(name="jsonl", files="*", fields=FIELDS),
        b'{"s": "a", "r": ["b"], "t": "c"}\n{"s": "d", "r": "e", "t": 7}\n',
    ),
    "labeled": (Labeled(name="labeled", files="*"), b"True\ta\nFalse\tb\n"),
    "typos": (
        Typos(name="typos", file="f.x", frames=(FRAME,), least_letters=4),
        b"tpying->typing\nshrot->short\n",
    ),
}


def made(converter: Converter, data: bytes) -> int:
    """How many examples come of the bytes; 0 where they are refused."""
    given_files: Files = files(f__x=data)
    try:
        return len(list(converter.examples(given_files)))
    except SuiteInvalid as exc:
        assert "/data/f.x" in str(exc)  # noqa: PT017
        return 0


@pytest.mark.parametrize("name", sorted(GOOD))
def test_good_bytes_give_examples(name: str) -> None:
    assert made(*GOOD[name]) >= 1


@pytest.mark.parametrize("name", sorted(GOOD))
@given(junk=st.binary(max_size=12), start=st.integers(0, 120), length=st.integers(0, 20))
def test_damaged_bytes_are_refused_at_worst(
    name: str, junk: bytes, start: int, length: int
) -> None:
    converter, data = GOOD[name]
    start = min(start, len(data))
    made(converter, data[:start] + junk + data[start + length :])


@pytest.mark.parametrize("name", sorted(GOOD))
@given(data=st.binary(max_size=80))
def test_any_bytes_are_refused_at_worst(name: str, data: bytes) -> None:
    made(GOOD[name][0], data)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_line_of_ten_megabytes_is_refused(name: str) -> None:
    converter, data = GOOD[name]
    long = data.rstrip(b"\n") + b" " + b"x" * 10_000_000
    assert made(converter, long) == 0
