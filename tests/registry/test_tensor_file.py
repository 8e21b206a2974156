"""Every claim of a safetensors header is compared with the file; every value is looked at."""

from __future__ import annotations

import hashlib
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from registry import tensor_file
from registry.errors import CheckpointInvalid
from tests.fakes.checkpoints import write_safetensors

A = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}
B = {"dtype": "BF16", "shape": [4], "data_offsets": [16, 24]}
DATA = b"\0" * 24


def file(tmp_path: Path, header: Any, data: bytes = DATA) -> Path:
    path = tmp_path / "model.safetensors"
    write_safetensors(path, header, data)
    return path


def raw(tmp_path: Path, header: bytes, data: bytes = DATA, *, length: int | None = None) -> Path:
    path = tmp_path / "model.safetensors"
    claimed = len(header) if length is None else length
    path.write_bytes(claimed.to_bytes(8, "little") + header + data)
    return path


def test_a_whole_file_is_described_in_the_order_of_its_bytes(tmp_path: Path) -> None:
    path = file(tmp_path, {"b": B, "__metadata__": {"format": "pt"}, "a": A})
    header = tensor_file.read_header(path)
    assert list(header.tensors) == ["a", "b"]
    assert header.tensors["b"].shape == (4,)
    digest, size = tensor_file.read_values(path, header)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert size == path.stat().st_size


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ({"a": A, "b": {**B, "data_offsets": [16, 2**40]}}, "disagrees with itself"),
        ({"a": A, "b": {**B, "shape": [2**39], "data_offsets": [16, 2**40 + 16]}}, "cut off"),
        ({"a": A, "b": {**B, "data_offsets": [-8, 0]}}, "data_offsets"),
        ({"a": A, "b": {**B, "data_offsets": [24, 16]}}, "data_offsets"),
        ({"a": A, "b": {**B, "data_offsets": [16]}}, "data_offsets"),
        ({"a": A, "b": {**B, "data_offsets": [16, 20, 24]}}, "data_offsets"),
        ({"a": A, "b": {**B, "data_offsets": [16.0, 24.0]}}, "data_offsets"),
        ({"a": A, "b": {**B, "data_offsets": [True, 24]}}, "data_offsets"),
        ({"a": A, "b": {**B, "data_offsets": "16"}}, "data_offsets"),
        ({"a": A, "b": {**B, "data_offsets": [8, 16]}}, "overlap: 'b' and 'a'"),
        ({"a": A, "b": {**A, "data_offsets": [0, 16]}}, "overlap"),
        ({"b": B}, "gap of 16 bytes before tensor 'b'"),
        ({"a": A}, "8 bytes after its last tensor 'a'"),
        ({"a": {**A, "shape": [2, 3]}, "b": B}, "disagrees with itself"),
        ({"a": {**A, "dtype": "F16"}, "b": B}, "disagrees with itself"),
        ({"a": {**A, "dtype": "F31"}, "b": B}, "unknown dtype 'F31'"),
        ({"a": {**A, "dtype": 32}, "b": B}, "unknown dtype 32"),
        ({"a": {**A, "shape": [2**32, 2**32]}, "b": B}, "disagrees with itself"),
        ({"a": {**A, "shape": [2**63, 2]}, "b": B}, "the shape"),
        ({"a": {**A, "shape": [-2, -2]}, "b": B}, "the shape"),
        ({"a": {**A, "shape": [True, 4]}, "b": B}, "the shape"),
        ({"a": {**A, "shape": [4.0]}, "b": B}, "the shape"),
        ({"a": {**A, "shape": None}, "b": B}, "the shape"),
        ({"a": {**A, "shape": [1] * 20 + [4]}, "b": B}, "the shape"),
        ({"a": A, "b": B, "c": {**B, "shape": [0], "data_offsets": [24, 24]}}, "no values"),
        ({"a": A, "b": B, "c": {**B, "shape": [0, 2**61], "data_offsets": [24, 24]}}, "no values"),
        ({"a": A, "b": {**B, "more": 1}}, "not made of"),
        ({"a": A, "b": [1]}, "not made of"),
        ({"a": A, "b": B, "__metadata__": {"format": 1}}, "__metadata__"),
        ({"a": A, "b": B, "__metadata__": []}, "__metadata__"),
        ({}, "no tensor"),
        ([], "no JSON object"),
    ],
)
def test_a_header_that_lies_is_refused_with_the_lie(tmp_path: Path, header: Any, told: str) -> None:
    with pytest.raises(CheckpointInvalid, match=told):
        tensor_file.read_header(file(tmp_path, header))


def no_lengths(tmp_path: Path) -> Path:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"1234567")
    return path


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


TWICE = b'{"a":' + json.dumps(A).encode() + b',"a":' + json.dumps(A).encode() + b"}"


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (no_lengths, "7 bytes, too few"),
        (lambda t: raw(t, b"", b""), "no JSON object"),
        (lambda t: raw(t, b"{}", length=2**63), "claims a header of 8.0 EiB"),
        (lambda t: raw(t, b"{}", length=2**64 - 1), "claims a header of 16.0 EiB"),
        (lambda t: raw(t, b"{}", length=27), "claims a header of 27 bytes"),
        (lambda t: raw(t, b'{"a', length=3), "cannot be read"),
        (lambda t: raw(t, b' {"a":1}'), "no JSON object"),
        (lambda t: raw(t, b'{"\xff": 1}'), r"not UTF-8 \(at offset 2\)"),
        (lambda t: raw(t, b'{"\\ud800": 1}'), "half a character"),
        (lambda t: raw(t, b'{"a": NaN}'), "NaN is not a JSON number"),
        (lambda t: raw(t, b'{"a": 1e999}'), "too large"),
        (lambda t: raw(t, b'{"a": ' + b"9" * 5000 + b"}"), "cannot be read"),
        (lambda t: raw(t, TWICE, b"\0" * 16), "key 'a' is given more than once"),
        (lambda t: raw(t, nested(100_000)), "nested too deeply"),
        (lambda t: raw(t, b'{"a":[' + b"[]," * 3_000_000 + b"[]]}"), "more than 2000000 objects"),
        (lambda t: raw(t, b'{"a":1}' + b"\0"), "cannot be read"),
    ],
)  # fmt: skip
def test_bytes_that_are_no_header_are_refused(
    tmp_path: Path, make: Callable[[Path], Path], told: str
) -> None:
    with pytest.raises(CheckpointInvalid, match=told):
        tensor_file.read_header(make(tmp_path))


def test_a_header_of_a_hundred_megabytes_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with path.open("wb") as handle:
        handle.write((100 << 20).to_bytes(8, "little"))
        handle.truncate(101 << 20)  # sparse
    tracemalloc.start()
    started_s = time.process_time()
    with pytest.raises(CheckpointInvalid, match=r"header of 100\.0 MiB, at most 32\.0 MiB"):
        tensor_file.read_header(path)
    assert time.process_time() - started_s < 0.5
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


def test_reading_values_takes_the_same_memory_whatever_the_size(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"a": np.zeros((4096, 2048), np.float32)}, path)  # 32 MiB
    header = tensor_file.read_header(path)
    tracemalloc.start()
    tensor_file.read_values(path, header)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * tensor_file.CHUNK_BYTES


PLACES = [0, 1, (1 << 20) // 2 - 1, (1 << 20) // 2, (1 << 20) // 2 + 3]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0, 0xFFFF])
def test_one_nan_or_infinity_is_found_wherever_it_lies(
    tmp_path: Path, place: int, bits: int
) -> None:
    values = np.full((1 << 20) // 2 + 4, 0x3F80, np.uint16)
    values[place] = bits
    a = {"dtype": "BF16", "shape": [len(values)], "data_offsets": [0, 2 * len(values)]}
    path = file(tmp_path, {"w": a}, values.tobytes())
    told = rf"NaN or infinity in tensor 'w' \(value number {place + 1}\)"
    with pytest.raises(CheckpointInvalid, match=told):
        tensor_file.read_values(path, tensor_file.read_header(path))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data[:-8], "became shorter"),
        (lambda data: data + b"x", "became longer"),
        (lambda data: data[:8] + data[8:].replace(b"BF16", b"I16 "), "was changed"),
    ],
)
def test_a_file_that_changes_between_is_told(
    tmp_path: Path, change: Callable[[bytes], bytes], told: str
) -> None:
    path = file(tmp_path, {"a": A, "b": B})
    header = tensor_file.read_header(path)
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(CheckpointInvalid, match=told):
        tensor_file.read_values(path, header)


def test_a_file_that_may_not_be_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = file(tmp_path, {"a": A, "b": B})

    def denied(*args: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", denied)
    with pytest.raises(CheckpointInvalid, match="cannot be opened: Permission denied"):
        tensor_file.read_header(path)


ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from([*tensor_file.BITS, "F31"]),
        "shape": st.lists(st.integers(0, 4) | st.sampled_from([2**32, 2**64]), max_size=3),
        "data_offsets": st.lists(st.integers(0, 40), min_size=2, max_size=2),
    }
)
HEADERS = st.dictionaries(st.text(max_size=3) | st.sampled_from(["a", "b"]), ENTRIES, max_size=3)


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(header=HEADERS, size=st.integers(0, 40))
def test_what_is_accepted_the_library_accepts_too(
    tmp_path: Path, header: dict[str, Any], size: int
) -> None:
    path = file(tmp_path, header, b"\0" * size)
    try:
        found = tensor_file.read_header(path).tensors
    except CheckpointInvalid:
        return
    with safe_open(str(path), framework="np") as handle:
        assert set(handle.keys()) == set(found)
        for name, info in found.items():
            assert tuple(handle.get_slice(name).get_shape()) == info.shape
            assert handle.get_slice(name).get_dtype() == info.dtype


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(shapes=st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=4))
def test_what_the_library_writes_is_accepted(tmp_path: Path, shapes: list[list[int]]) -> None:
    path = tmp_path / "written.safetensors"
    save_file({f"t{n}": np.ones(s, np.float16) for n, s in enumerate(shapes)}, path)
    header = tensor_file.read_header(path)
    assert [i.shape for _, i in sorted(header.tensors.items())] == [tuple(s) for s in shapes]
    tensor_file.read_values(path, header)


@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(place=st.integers(0, 200), byte=st.integers(0, 255), cut=st.integers(0, 20))
def test_a_damaged_file_is_accepted_only_where_the_library_accepts_it(
    tmp_path: Path, place: int, byte: int, cut: int
) -> None:
    path = file(tmp_path, {"a": A, "b": B})
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(bytes(data[: len(data) - cut]))
    try:
        header = tensor_file.read_header(path)
        tensor_file.read_values(path, header)
    except CheckpointInvalid:
        return
    try:
        with safe_open(str(path), framework="np") as handle:
            assert set(handle.keys()) == set(header.tensors)
    except SafetensorError as exc:
        raise AssertionError(f"accepted, but the library says {exc}") from exc
