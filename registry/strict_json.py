"""JSON of which every reader makes the same: no repeated keys, no NaN, nothing endless.

Two readers of one file may take different values of a repeated key, and Python reads `NaN` and
`1e999` where others stop. What is checked here must be what the engine then reads, so both are
refused.
"""

from __future__ import annotations

import collections
import json
import math
from typing import Any

from registry.wording import shown

MAX_CONTAINERS = 2_000_000
"""Objects and arrays in one document: a hundred bytes each, so that memory stays bounded. A
tokenizer of 250,000 merges holds 250,000, a header of 100,000 tensors 300,000."""


def parse(text: str) -> Any:
    """The value of a JSON document.

    Raises:
        ValueError: it is not JSON, or not such that all read it alike; says where.
    """
    if text.count("[") + text.count("{") > MAX_CONTAINERS:
        raise ValueError(f"it holds more than {MAX_CONTAINERS} objects and arrays")
    try:
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_constant, parse_float=_float
        )
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc
    if "\\ud" in text.lower():
        _refuse_half_characters(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError(f"key {shown(_repeated(pairs))} is given more than once")
    return found


def _repeated(pairs: list[tuple[str, Any]]) -> str:
    counts = collections.Counter(key for key, _ in pairs)
    return counts.most_common(1)[0][0]


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{shown(text)} is too large for a number")
    return value


def _refuse_half_characters(value: Any) -> None:
    """A lone surrogate escape makes a text that cannot be written as UTF-8."""
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as exc:
        half = exc.object[exc.start]
        raise ValueError(f"it holds {half!a}, half a character") from exc
