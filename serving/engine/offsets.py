"""Positions in a text, in the unit the caller counts in.

The one idea: we count code points, as Python does; editors, browsers and the JVM count UTF-16
units, in which every character beyond U+FFFF takes two. A position only moves by the number of such
characters before it, so a text without any (nearly every one) costs nothing.
"""

from __future__ import annotations

import bisect
import enum
from collections.abc import Callable


class Unit(enum.StrEnum):
    """What offsets count."""

    CODE_POINTS = "code_points"
    """Characters as Python counts them."""
    UTF16 = "utf16"
    """UTF-16 code units, as JavaScript, Java, C# and the language server protocol count them."""


_LAST_OF_ONE_UNIT = "\uffff"


def converter(text: str, unit: Unit) -> Callable[[int], int]:
    """From a position of `text` in code points to the same position in `unit`."""
    if unit is Unit.CODE_POINTS or max(text, default="") <= _LAST_OF_ONE_UNIT:
        return _same
    wide = [at for at, character in enumerate(text) if character > _LAST_OF_ONE_UNIT]

    def in_utf16(position: int) -> int:
        return position + bisect.bisect_left(wide, position)

    return in_utf16


def _same(position: int) -> int:
    return position
