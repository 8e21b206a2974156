"""What the metrics see of a text.

A difference in Unicode composition or in white space is not a difference that a reader sees, so no
metric sees it either. Tokens are what white space separates: a suite's texts are tokenized already.
"""

from __future__ import annotations

import unicodedata


def normalize(text: str) -> str:
    """Unicode NFC, every run of white space one space, none at the ends."""
    return " ".join(tokens(text))


def tokens(text: str) -> list[str]:
    """The parts between white space, in Unicode NFC."""
    return unicodedata.normalize("NFC", text).split()
