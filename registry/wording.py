"""How sizes, and values that somebody else wrote, are put into messages: short and printable.

A file name may hold a newline and a header may hold a megabyte; shown as they are they would forge
lines of a log or flood a terminal.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections.abc import Collection, Iterable

SHOWN_CHARS = 80
_KEY_CHARS = 60
BREAKING = ("Cc", "Cs", "Zl", "Zp")
TURNING = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def shown(value: object) -> str:
    """A value as Python writes it, on one line, cut where it is long."""
    text = ascii(value) if isinstance(value, str) and not value.isprintable() else repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 1]}…"


def unknown_key(key: object, known: Iterable[str], prefix: str = "") -> str:
    """Says that a key is none, and which one is meant; where none is like it, which there are."""
    text, names = str(key), sorted(known)
    plain = text if text.isprintable() and len(text) <= _KEY_CHARS else shown(text)
    close = difflib.get_close_matches(text[:_KEY_CHARS], names, n=1)
    hint = f", did you mean {close[0]}?" if close else f"; known: {', '.join(names)}"
    return f"unknown key {prefix}{plain}{hint}"


def refuse_unknown(given: Iterable[object], known: Collection[str], prefix: str = "") -> None:
    """Raises ValueError for the first key that is none."""
    for key in given:
        if key not in known:
            raise ValueError(unknown_key(key, known, prefix))


def size(count_bytes: int) -> str:
    """Bytes for people, in powers of 1024: `812 bytes`, `1.5 GiB`."""
    if count_bytes < 1024:
        return f"{count_bytes} bytes"
    power = min((count_bytes.bit_length() - 1) // 10, len(UNITS))
    return f"{count_bytes / 1024**power:.1f} {UNITS[power - 1]}"


def breaks_lines(character: str) -> bool:
    """Whether a character could forge a line or its order: line ends, other control characters,
    half characters, marks that turn the direction of writing."""
    return unicodedata.category(character) in BREAKING or character in TURNING


def one_line(text: str) -> str:
    """The text with such characters replaced by question marks."""
    return "".join("?" if breaks_lines(c) else c for c in text)


def check_line(name: str, text: str, most_chars: int) -> str:
    """A text by a person that is shown and stored as one line, such as a name or a reason.

    Raises:
        ValueError: it is too long, or holds a character that is not part of a line.
    """
    if len(text) > most_chars:
        raise ValueError(f"{name} has {len(text)} characters, at most {most_chars} are accepted")
    strange = next((c for c in text if breaks_lines(c)), None)
    if strange is not None:
        raise ValueError(
            f"{name} must be one line of text, holds {strange!a} at position "
            f"{text.index(strange) + 1}"
        )
    return text
