"""NaN and infinity are found in every float type by their bits, and nothing else is."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry import finite


def e4m3(byte: int) -> float:
    """OCP E4M3: no infinity, NaN where exponent and mantissa are all ones."""
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if (exponent, mantissa) == (15, 7):
        return math.nan
    return mantissa * 2.0**-9 if exponent == 0 else (8 + mantissa) * 2.0 ** (exponent - 10)


def e5m2(byte: int) -> float:
    """OCP E5M2: as half precision with two bits of mantissa."""
    return float(np.frombuffer(bytes([0, byte]), np.float16)[0])


@pytest.mark.parametrize(("dtype", "value"), [("F8_E4M3", e4m3), ("F8_E5M2", e5m2)])
def test_every_byte_of_fp8_is_judged_as_its_value_is(dtype: str, value: object) -> None:
    for byte in range(256):
        found = finite.first_bad(bytes([0x11, byte]), dtype)
        assert (found == 1) is not math.isfinite(value(byte & 0x7F)), hex(byte)  # type: ignore[operator]


@given(st.integers(0, 2**32 - 1))
def test_any_f32_and_the_bf16_of_its_upper_half(bits: int) -> None:
    value = struct.unpack("<f", bits.to_bytes(4, "little"))[0]
    bad = not math.isfinite(value)
    assert (finite.first_bad(bits.to_bytes(4, "little"), "F32") is not None) is bad
    upper = struct.unpack("<f", (bits & 0xFFFF0000).to_bytes(4, "little"))[0]
    bad = not math.isfinite(upper)
    assert (finite.first_bad((bits >> 16).to_bytes(2, "little"), "BF16") is not None) is bad


@given(st.integers(0, 2**16 - 1))
def test_any_f16(bits: int) -> None:
    data = bits.to_bytes(2, "little")
    bad = not np.isfinite(np.frombuffer(data, np.float16)[0])
    assert (finite.first_bad(data, "F16") is not None) is bool(bad)


@given(st.integers(0, 2**64 - 1))
def test_any_f64(bits: int) -> None:
    data = bits.to_bytes(8, "little")
    bad = not math.isfinite(struct.unpack("<d", data)[0])
    assert (finite.first_bad(data, "F64") is not None) is bad


@pytest.mark.parametrize("dtype", ["I8", "U8", "I64", "BOOL", "F4", "F6_E2M3"])
def test_types_without_nan_are_not_looked_at(dtype: str) -> None:
    assert finite.first_bad(b"\xff" * 8, dtype) is None


@pytest.mark.parametrize(
    ("dtype", "bad"), [("F8_E8M0", 0xFF), ("F8_E4M3FNUZ", 0x80), ("F8_E5M2FNUZ", 0x80)]
)
def test_the_one_nan_of_the_other_fp8_types(dtype: str, bad: int) -> None:
    found = [b for b in range(256) if finite.first_bad(bytes([b]), dtype) is not None]
    assert found == [bad]
