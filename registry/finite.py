"""Finds NaN and infinity in raw tensor bytes, whatever their float type, without converting them.

A float is NaN or infinite when all bits of its exponent are set, so one masked comparison of the
bits as whole numbers decides; numpy has no bfloat16 or FP8, and needs none for this. The FP8 types
without infinity have their own patterns (OCP 8-bit floating point specification; arXiv 2206.02915
for the FNUZ ones).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """The values `v` of a type that are not finite are those with `v & mask == bits`."""

    kind: str
    """numpy's name of the little-endian whole number of the same size."""
    mask: int
    bits: int


def _exponent(kind: str, mask: int) -> Pattern:
    return Pattern(kind=kind, mask=mask, bits=mask)


PATTERNS = {
    "F64": _exponent("<u8", 0x7FF0_0000_0000_0000),
    "F32": _exponent("<u4", 0x7F80_0000),
    "C64": _exponent("<u4", 0x7F80_0000),  # two F32
    "F16": _exponent("<u2", 0x7C00),
    "BF16": _exponent("<u2", 0x7F80),
    "F8_E5M2": _exponent("u1", 0x7C),
    "F8_E4M3": _exponent("u1", 0x7F),  # no infinity; one NaN of each sign
    "F8_E8M0": _exponent("u1", 0xFF),
    "F8_E4M3FNUZ": Pattern(kind="u1", mask=0xFF, bits=0x80),  # minus zero is the only NaN
    "F8_E5M2FNUZ": Pattern(kind="u1", mask=0xFF, bits=0x80),
}
"""F4 and F6 have neither NaN nor infinity."""


def first_bad(data: bytes, dtype: str) -> int | None:
    """Index of the first value that is NaN or infinite; None where all are finite.

    Args:
        data: little-endian, whole elements.
        dtype: safetensors' name of the element type.
    """
    import numpy as np

    pattern = PATTERNS.get(dtype)
    if pattern is None:
        return None
    kind = np.dtype(pattern.kind)
    bad = (np.frombuffer(data, kind) & kind.type(pattern.mask)) == kind.type(pattern.bits)
    return int(bad.argmax()) if bad.any() else None
