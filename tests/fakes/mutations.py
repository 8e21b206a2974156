"""Random damage to checkpoint directories, as hypothesis strategies.

Bytes are flipped, cut, doubled and moved; headers and configurations are also changed where they
are still well formed, since random bytes rarely get past the first check.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tests.fakes import checkpoints

Mutation = Callable[[Path], None]
FILES = ("model.safetensors", "config.json", "tokenizer.json", "prompt.json")
NUMBERS = st.sampled_from([0, 1, -1, 2, 8, 16, 128, 2**31, 2**32, 2**53, 2**63, 2**64, 10**30])
LEAVES = (
    st.none() | st.booleans() | NUMBERS | st.floats() | st.text(max_size=4)
    | st.sampled_from(["F32", "BF16", "F8_E4M3", "I8", "LlamaForCausalLM", "llama", "\ud800", "\n"])
)  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=4,
)


def _write(file: str, change: Callable[[bytes], bytes]) -> Mutation:
    def apply(directory: Path) -> None:
        path = directory / file
        path.write_bytes(change(path.read_bytes()))

    return apply


def _flip(file: str, place: int, byte: int) -> Mutation:
    def change(data: bytes) -> bytes:
        at = place % max(len(data), 1)
        return data[:at] + bytes([byte]) + data[at + 1 :]

    return _write(file, change)


def _cut(file: str, place: int) -> Mutation:
    return _write(file, lambda data: data[: place % (len(data) + 1)])


def _insert(file: str, place: int, what: bytes) -> Mutation:
    def change(data: bytes) -> bytes:
        at = place % (len(data) + 1)
        return data[:at] + what + data[at:]

    return _write(file, change)


def _put(file: str, choice: int, value: Any) -> Mutation:
    """Replaces one value somewhere in a JSON document, or in a header."""

    def change(data: bytes) -> bytes:
        head, text, tail = b"", data, b""
        if file.endswith(".safetensors"):
            length = int.from_bytes(data[:8], "little")
            head, text, tail = data[:8], data[8 : 8 + length], data[8 + length :]
        try:
            document = json.loads(text)
        except ValueError:
            return data
        changed = json.dumps(_replaced(document, choice, value)).encode()
        return (len(changed).to_bytes(8, "little") if head else b"") + changed + tail

    return _write(file, change)


def _replaced(document: Any, choice: int, value: Any) -> Any:
    """The document with the value at one of its places, counted through, put in."""
    if not isinstance(document, dict | list) or not document or choice % 7 == 0:
        return value
    keys = list(document) if isinstance(document, dict) else list(range(len(document)))
    key = keys[choice % len(keys)]
    changed = document.copy()
    changed[key] = _replaced(document[key], choice // len(keys) + 1, value)
    return changed


FILE = st.sampled_from(FILES)
PLACE = st.integers(0, 5_000)
MUTATIONS: st.SearchStrategy[Mutation] = st.one_of(
    st.builds(_flip, FILE, PLACE, st.integers(0, 255)),
    st.builds(_flip, st.just("model.safetensors"), st.integers(0, 7), st.integers(0, 255)),
    st.builds(_cut, FILE, PLACE),
    st.builds(_insert, FILE, PLACE, st.binary(min_size=1, max_size=20)),
    st.builds(_put, FILE, PLACE, VALUES),
    st.builds(_put, st.just("model.safetensors"), PLACE, VALUES),
    st.builds(_put, st.just("config.json"), PLACE, VALUES),
)
DAMAGE = st.lists(MUTATIONS, min_size=1, max_size=3)


def damaged(directory: Path, damage: list[Mutation], *, fp8: bool = False) -> Path:
    """A checkpoint made anew, with the damage done to it one after the other."""
    if fp8:
        checkpoints.make_fp8(directory)
    else:
        checkpoints.make(directory, config=checkpoints.SIZED_CONFIG)
    for mutation in damage:
        mutation(directory)
    return directory
