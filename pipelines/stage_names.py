"""The stages a promotion takes from the record where it has them, in their order.

Apart from the promotion itself, so that the command line can name them without importing it.
"""

from __future__ import annotations

STAGE_NAMES = (
    "register",
    "quantize",
    "evaluate",
    "evaluate champion",
    "evaluate champion again",
    "gate",
)
