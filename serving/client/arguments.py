"""What a caller gives, checked before anything is sent.

Each function raises ValueError for what cannot work, with the argument's name, what it must be and
what was found. No message holds a key, wherever one was put.
"""

from __future__ import annotations

from collections.abc import Iterable

import httpx

_LONGEST_S = 1e9


def of_type(name: str, value: object, *kinds: type) -> None:
    """Checks the type; true and false are no numbers."""
    if not isinstance(value, kinds) or isinstance(value, bool):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise ValueError(f"{name} must be of type {wanted}, found {type(value).__name__}")


def strings(name: str, value: str | Iterable[str]) -> tuple[str, ...]:
    """One string or several, as several."""
    of_type(name, value, str, Iterable)
    found = (value,) if isinstance(value, str) else tuple(value)
    for each in found:
        of_type(f"each of {name}", each, str)
    return found


def seconds(name: str, value: float) -> None:
    """Checks a length of time."""
    of_type(name, value, int, float)
    if not 0 < value <= _LONGEST_S:
        raise ValueError(f"{name} must be above 0, at most {_LONGEST_S:g}, found {value}")


def whole(name: str, value: int, least: int) -> None:
    """Checks a whole number."""
    of_type(name, value, int)
    if value < least:
        raise ValueError(f"{name} must be at least {least}, found {value}")


def header(name: str, value: str) -> None:
    """Checks what travels in a header."""
    of_type(name, value, str)
    if not value.strip() or not (value.isascii() and value.isprintable()):
        raise ValueError(
            f"{name} must be printable ASCII, and not empty, since it travels in a header"
        )


def address(name: str, value: str) -> None:
    """Checks an address as httpx reads it, which is what asks."""
    of_type(name, value, str)
    shown = repr(value.partition("?")[0].partition("#")[0].rpartition("@")[2])
    try:
        url = httpx.URL(value)
        url.host.encode("idna")  # as whoever looks the name up does
    except (httpx.InvalidURL, UnicodeError) as exc:
        raise ValueError(f"{name} cannot be asked: {exc}, found {shown}") from exc
    if url.userinfo:  # would be sent in place of the API key, and be shown wherever an address is
        raise ValueError(f"{name} must hold no user and password, found some for {shown}")
    if "?" in value or "#" in value:
        raise ValueError(f"{name} must end before any ? or #, found some after {shown}")
    has_port = url.port is None or 0 < url.port < 2**16
    if url.scheme not in ("http", "https") or not url.host or not has_port:
        raise ValueError(f"{name} must be like http://host:port, found {shown}")
