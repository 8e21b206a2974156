"""Examples and texts for tests of metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import strategies as st

from evals.m2 import Edit
from evals.suite import Example

# Latin, combining acute, Cyrillic, Hebrew and Arabic (right to left), Han, emoji and mathematical
# letters (astral), and the white space that texts really hold.
ALPHABET = "aab.e\u0301\u00e9дѣאבسل文字\U0001f600\U0001d4b3 \u00a0\u3000\t"

texts = st.text(alphabet=ALPHABET, max_size=24)
sentences = st.lists(st.sampled_from(["a", "b", "c", "ש", "😀"]), max_size=8).map(" ".join)


def example(
    source: str,
    *references: str,
    edits: tuple[tuple[Edit, ...], ...] = (),
    contrast: str = "",
) -> Example:
    return Example(id="e1", source=source, references=references, edits=edits, contrast=contrast)


def edit(start: int, end: int, *replacements: str, kind: str = "R:OTHER") -> Edit:
    return Edit(start=start, end=end, replacements=replacements, type=kind)


@st.composite
def gold_edits(draw: st.DrawFn, n_tokens: int) -> tuple[Edit, ...]:
    """Up to four edits of a sentence with that many tokens; they may overlap."""
    found = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, n_tokens))
        end = draw(st.integers(start, n_tokens))
        replacement = draw(st.lists(st.sampled_from("abc"), max_size=3).map(" ".join))
        kind = draw(st.sampled_from(["R:OTHER", "R:WO"]))
        found.append(edit(start, end, replacement, kind=kind))
    return tuple(found)


def data_file(name: str) -> Path:
    """A file of the data directory; skips the test where it is absent."""
    root = os.environ.get("LIFTLOCK_DATA_DIR")
    path = Path(root or ".") / name
    if root is None or not path.is_file():
        pytest.skip(f"no {name} in LIFTLOCK_DATA_DIR")
    return path


def lines(name: str) -> Sequence[str]:
    """The lines of a file of the data directory, one sentence each."""
    text = data_file(name).read_text(encoding="utf-8")
    return text.removesuffix("\n").split("\n")
