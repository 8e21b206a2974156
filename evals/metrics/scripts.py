"""Which scripts a text is written in, and whether an output kept them.

Python knows no scripts, but the name of a letter begins with its script (LATIN SMALL LETTER A), so
the name is asked. This tells a Ukrainian answer from an English one, not from a Russian one: it is
a tripwire, not a language detector.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

_WIDTHS = ("FULLWIDTH ", "HALFWIDTH ")

# Written together within one sentence, often within one word.
_JAPANESE = frozenset({"CJK", "HIRAGANA", "KATAKANA", "HENTAIGANA"})

# First words of names of letters that belong to no script or to several (symbols used as letters).
# fmt: off
_NO_SCRIPT = frozenset({
    "ALEF", "ANGSTROM", "BET", "BLACK-LETTER", "CARON", "DALET", "DOUBLE-STRUCK", "EULER",
    "FEMININE", "GIMEL", "IDEOGRAPHIC", "INFORMATION", "KATAKANA-HIRAGANA", "KELVIN", "MASCULINE",
    "MASU", "MATHEMATICAL", "MICRO", "MODIFIER", "OHM", "PLANCK", "ROMAN", "SCRIPT",
    "SUPERSCRIPT", "TURNED", "VEDIC", "VERTICAL",
})
# fmt: on


def scripts(text: str) -> Counter[str]:
    """How many letters of each script; Han and the Japanese syllabaries count as CJK."""
    found = Counter(_script(character) for character in text)
    del found[""]
    return found


def kept(output: str, accepted: Sequence[str]) -> bool:
    """Whether the output has only scripts that an accepted text has, and the same main one.

    The main script is the one of most letters, of equals each. A text without letters has none; an
    output without letters is kept if an accepted text has none either.
    """
    found = scripts(output)
    allowed = [scripts(text) for text in accepted]
    if not found:
        return not all(allowed)
    known = {script for text in allowed for script in text}
    main = {script for text in allowed for script in _main(text)}
    return found.keys() <= known and bool(_main(found) & main)


def _main(found: Counter[str]) -> set[str]:
    most = max(found.values(), default=0)
    return {script for script, times in found.items() if times == most}


@lru_cache(maxsize=4096)
def _script(character: str) -> str:
    """The script of a letter; empty for anything else."""
    if not unicodedata.category(character).startswith("L"):
        return ""
    name = unicodedata.name(character, "")
    for width in _WIDTHS:
        name = name.removeprefix(width)
    first = name.split(" ", 1)[0]
    if first in _JAPANESE:
        return "CJK"
    return "" if first in _NO_SCRIPT else first
