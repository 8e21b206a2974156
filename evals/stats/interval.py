"""The one value that every interval of this package is returned as."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Two one-sided bounds, each wrong with probability at most alpha."""

    lower: float
    upper: float
