"""safetensors files: the header checked against the file, the values read once.

The one idea: a header is a claim, and every part of it is compared with the bytes: its own length,
each tensor's range with its type and shape, the ranges with one another and with the file's end.
What passes here also passes the safetensors library, which reads the file later.
Values are read in pieces, so that memory stays the same whatever the checkpoint's size, and each
byte once: the digest and the search for NaN and infinity share the reading.

Format: 8 bytes of little-endian header length, the header as JSON, the values
(huggingface.co/docs/safetensors).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from registry import finite, reading, strict_json
from registry.errors import CheckpointInvalid
from registry.wording import shown, size

LENGTH_BYTES = 8
MAX_HEADER_BYTES = 32 << 20
"""A header of 100,000 tensors has 12 MiB; the library's own limit is 100 MB."""
MAX_DIMENSIONS = 16
CHUNK_BYTES = 1 << 20
METADATA = "__metadata__"
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
    "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""Element types of the format, and the bits of one element."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorInfo:
    """One tensor's header entry; `dtype` in safetensors' spelling, such as BF16 or F8_E4M3."""

    dtype: str
    shape: tuple[int, ...]
    file: str
    start: int = 0
    """First byte of its values, counted from the end of the header."""
    end: int = 0
    """First byte after them."""

    @property
    def elements(self) -> int:
        """Number of values."""
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """A header that agrees with its file."""

    tensors: Mapping[str, TensorInfo]
    """By name, in the order of their values in the file."""
    length_bytes: int
    """Of the header and the eight bytes before it."""
    sha256: str
    """Of these bytes."""


class _Lie(ValueError):
    """What a header claims is not so; the message continues a sentence that names the file."""


class _NotFinite(_Lie):
    """A value is no number to compute with."""


def read_header(path: Path) -> Header:
    """Reads and checks the header of a file; the values are not read.

    Raises:
        CheckpointInvalid: with what the header says and what the file is.
    """
    try:
        with reading.open_regular(path) as handle:
            return _read_header(path, handle)
    except (_Lie, reading.Unreadable) as exc:
        raise CheckpointInvalid(f"{path} {exc}; {_advice(exc)}") from exc
    except OSError as exc:
        raise CheckpointInvalid(f"{path} cannot be read: {exc.strerror}") from exc


def _advice(exc: ValueError) -> str:
    if isinstance(exc, reading.Unreadable):
        return "make it readable, or copy it again"
    return "it is not a whole safetensors file, copy it again from where it was made"


def _read_header(path: Path, handle: BinaryIO) -> Header:
    file_bytes = os.fstat(handle.fileno()).st_size
    if file_bytes < LENGTH_BYTES:
        raise _Lie(f"has {file_bytes} bytes, too few for a header")
    prefix = _read(handle, LENGTH_BYTES)
    length = int.from_bytes(prefix, "little")
    if length > file_bytes - LENGTH_BYTES:
        raise _Lie(f"claims a header of {size(length)}, the whole file has {size(file_bytes)}")
    if length > MAX_HEADER_BYTES:
        raise _Lie(f"has a header of {size(length)}, at most {size(MAX_HEADER_BYTES)} are accepted")
    raw = _read(handle, length)
    tensors = _entries(_parse(raw), path.name)
    _check_ranges(tensors, file_bytes - LENGTH_BYTES - length)
    return Header(
        tensors=tensors,
        length_bytes=LENGTH_BYTES + length,
        sha256=hashlib.sha256(prefix + raw).hexdigest(),
    )


def _read(handle: BinaryIO, count: int) -> bytes:
    """Exactly so many bytes."""
    chunks: list[bytes] = []
    while count > 0:
        chunk = handle.read(min(count, CHUNK_BYTES))
        if not chunk:
            raise _Lie("became shorter while it was being read")
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)


def _parse(raw: bytes) -> dict[str, Any]:
    if not raw.startswith(b"{"):
        raise _Lie("has a header that is no JSON object")
    try:
        parsed = strict_json.parse(raw.decode("utf-8"))
    except UnicodeDecodeError as exc:
        raise _Lie(f"has a header that is not UTF-8 (at offset {exc.start})") from exc
    except ValueError as exc:
        raise _Lie(f"has a header that cannot be read: {exc}") from exc
    assert isinstance(parsed, dict), "it begins with a brace"
    return parsed


def _entries(parsed: dict[str, Any], file: str) -> dict[str, TensorInfo]:
    metadata = parsed.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise _Lie(f"has a {METADATA} that does not map texts to texts")
    tensors = {name: _entry(name, entry, file) for name, entry in parsed.items()}
    if not tensors:
        raise _Lie("holds no tensor")
    return dict(sorted(tensors.items(), key=lambda item: item[1].start))


def _entry(name: str, entry: object, file: str) -> TensorInfo:
    what = f"has a header entry for tensor {shown(name)} that"
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise _Lie(f"{what} is not made of dtype, shape and data_offsets")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in BITS:
        raise _Lie(f"{what} has the unknown dtype {shown(dtype)}")
    if not _counts(shape) or len(shape) > MAX_DIMENSIONS:
        raise _Lie(f"{what} has the shape {shown(shape)}")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise _Lie(f"{what} has the data_offsets {shown(offsets)}")
    info = TensorInfo(dtype=dtype, shape=tuple(shape), file=file, start=offsets[0], end=offsets[1])
    if info.elements == 0:
        raise _Lie(f"{what} has no values (shape {shown(shape)})")
    if info.elements * BITS[dtype] != 8 * (info.end - info.start):
        raise _Lie(
            f"{what} disagrees with itself: {shown(list(shape))} values of {dtype} are "
            f"{info.elements * BITS[dtype] / 8:g} bytes, its range has {info.end - info.start}"
        )
    return info


def _counts(value: object) -> bool:
    """Whether it is a list of whole numbers from 0 to what a file may hold."""
    return isinstance(value, list) and all(type(v) is int and 0 <= v < 1 << 62 for v in value)


def _check_ranges(tensors: Mapping[str, TensorInfo], data_bytes: int) -> None:
    """The ranges must cover the values from the first byte to the last, each byte once."""
    at, last = 0, ""
    for name, info in tensors.items():
        if info.end > data_bytes:
            raise _Lie(
                f"is cut off: tensor {shown(name)} ends at byte {info.end} of the values, the file "
                f"holds {data_bytes}"
            )
        if info.start < at:
            raise _Lie(f"has tensors that overlap: {shown(name)} and {shown(last)}")
        if info.start > at:
            raise _Lie(f"has a gap of {info.start - at} bytes before tensor {shown(name)}")
        at, last = info.end, name
    if at != data_bytes:
        raise _Lie(f"has {data_bytes - at} bytes after its last tensor {shown(last)}")


def read_values(path: Path, header: Header) -> tuple[str, int]:
    """Reads the whole file once: its sha256 in hex and its size in bytes.

    Raises:
        CheckpointInvalid: a floating value is NaN or infinite, or the file is not what its header
            was read from.
    """
    digest = hashlib.sha256()
    total = header.length_bytes
    try:
        with reading.open_regular(path) as handle:
            digest.update(_read(handle, header.length_bytes))
            if digest.hexdigest() != header.sha256:
                raise _Lie("was changed while it was being read")
            for name, info in header.tensors.items():
                _read_tensor(handle, name, info, digest.update)
                total += info.end - info.start
            if handle.read(1):
                raise _Lie("became longer while it was being read")
    except _NotFinite as exc:
        raise CheckpointInvalid(f"{path} {exc}; take a checkpoint from before that") from exc
    except (_Lie, reading.Unreadable) as exc:
        raise CheckpointInvalid(f"{path} {exc}; wait until whatever writes it has ended") from exc
    except OSError as exc:
        raise CheckpointInvalid(f"{path} cannot be read: {exc.strerror}") from exc
    return digest.hexdigest(), total


def _read_tensor(
    handle: BinaryIO, name: str, info: TensorInfo, take: Callable[[bytes], None]
) -> None:
    at = 0
    while at < info.end - info.start:
        # A chunk is a multiple of every element's size, so a piece holds whole elements.
        piece = _read(handle, min(info.end - info.start - at, CHUNK_BYTES))
        take(piece)
        bad = finite.first_bad(piece, info.dtype)
        if bad is not None:
            raise _NotFinite(
                f"holds NaN or infinity in tensor {shown(name)} (value number "
                f"{8 * at // BITS[info.dtype] + bad + 1}): its training has diverged"
            )
        at += len(piece)
