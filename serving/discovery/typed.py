"""Values of the types that are meant, out of JSON or YAML that somebody wrote."""

from __future__ import annotations

from typing import Any

from registry.wording import shown


def mapping(value: object, name: str) -> dict[Any, Any]:
    """An object of JSON; raises TypeError naming what is none."""
    if not isinstance(value, dict):
        raise TypeError(f"{name} must be an object, found {shown(value)}")
    return value


def text(value: object, name: str) -> str:
    """A string; raises TypeError naming what is none."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, found {shown(value)}")
    return value


def whole_number(value: object, name: str) -> int:
    """A whole number; raises TypeError naming what is none."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, found {shown(value)}")
    return value


def number(value: object, name: str) -> float:
    """A number, whole or not; raises TypeError naming what is none."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, found {shown(value)}")
    return value
