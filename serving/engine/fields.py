"""Reads typed fields of a JSON object; what is wrong is refused by name.

`null` counts as "not given", as OpenAI's clients send it for that. A boolean is never a number.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from serving.engine.errors_http import ApiError, invalid
from serving.engine.exchange import json_type

NOT_FOUND = HTTPStatus.NOT_FOUND


def string(body: dict[str, Any], name: str, *, default: str | None) -> str:
    """A text; without a default it must be given."""
    value = body.get(name)
    if value is None:
        value = default
    if not isinstance(value, str):
        raise _wrong_type(name, "a string", body.get(name))
    return value


def boolean(body: dict[str, Any], name: str, *, default: bool) -> bool:
    """true or false."""
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise _wrong_type(name, "a boolean", value)
    return value


def integer(body: dict[str, Any], name: str, *, default: int, low: int, high: int) -> int:
    """A whole number in `low`..`high`."""
    value = optional_integer(body, name, low=low, high=high)
    return default if value is None else value


def optional_integer(body: dict[str, Any], name: str, *, low: int, high: int) -> int | None:
    """A whole number in `low`..`high`, or None where it is not given."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(name, "a whole number", value)
    if not low <= value <= high:
        raise invalid(name, f"{name} must be {low} to {high}, got {value}", "out_of_range")
    return value


def number(body: dict[str, Any], name: str, *, default: float, low: float, high: float) -> float:
    """A number in `low`..`high`."""
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(name, "a number", value)
    if not low <= value <= high:
        raise invalid(name, f"{name} must be {low} to {high}, got {value}", "out_of_range")
    return float(value)


def strings(body: dict[str, Any], name: str, *, most: int) -> tuple[str, ...]:
    """A text or a list of up to `most` texts, none of them empty."""
    value = body.get(name)
    if value is None:
        return ()
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, str) and item for item in items):
        raise invalid(
            name, f"{name} must be a text that is not empty, or a list of such", "invalid_type"
        )
    if len(items) > most:
        raise invalid(name, f"{name} takes at most {most} texts, got {len(items)}", "out_of_range")
    return tuple(items)


def _wrong_type(name: str, expected: str, value: object) -> ApiError:
    if value is None:
        return invalid(name, f"{name} is required and must be {expected}", "missing_field")
    return invalid(name, f"{name} must be {expected}, found {json_type(value)}", "invalid_type")
