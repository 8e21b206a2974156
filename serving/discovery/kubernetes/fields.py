"""Reading JSON that somebody else wrote: the type that is wanted, or a ValueError naming the field.

What is null or missing counts as empty, as everywhere in the Kubernetes API.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from registry import wording


def shown(value: Any) -> str:
    """A value in a message; one that holds others is named and not gone through."""
    if isinstance(value, dict | list):
        kind = "object" if isinstance(value, dict) else "list"
        return f"(a JSON {kind} of length {len(value)})"
    return wording.shown(value)


def string(value: Any, what: str) -> str:
    """A text, which may not be missing."""
    if not isinstance(value, str):
        raise ValueError(f"{what} is not a text: {shown(value)}")
    return value


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """An object; empty where it is missing."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{what} is not an object: {shown(value)}")
    return value


def items(value: Any, what: str) -> list[Any]:
    """A list; empty where it is missing."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{what} is not a list: {shown(value)}")
    return value
