"""The language of a text as the caller names it: a well-formed BCP 47 tag.

Well-formed by the grammar of RFC 5646, section 2.1, not looked up: which languages a model knows is
the model's business. Grandfathered tags are left out; all of them have regular ones.
"""

from __future__ import annotations

import re
from typing import Any

from serving.engine import fields
from serving.engine.errors_http import invalid

MOST_CHARS = 64
_TAG = re.compile(
    r"""
    [A-Za-z]{2,3} (-[A-Za-z]{3}){0,3}                    # language, extended language
    (-[A-Za-z]{4})?                                      # script
    (-([A-Za-z]{2}|[0-9]{3}))?                           # region
    (-([A-Za-z0-9]{5,8}|[0-9][A-Za-z0-9]{3}))*           # variants
    (-[A-WY-Za-wy-z0-9](-[A-Za-z0-9]{2,8})+)*            # extensions
    (-[Xx](-[A-Za-z0-9]{1,8})+)?                         # private use
    """,
    re.VERBOSE,
)
PATTERN = re.sub(r"\s+#.*|\s+", "", _TAG.pattern)
"""The same without white space and comments, for the published description."""


def read(body: dict[str, Any]) -> str:
    """The tag in `language`, empty where it is not given.

    Raises:
        ApiError: 400, it is not a well-formed tag.
    """
    tag = fields.string(body, "language", default="")
    if "language" in body and body["language"] is not None and not is_well_formed(tag):
        raise invalid(
            "language", f"language must be a BCP 47 tag such as en or pt-BR, got {tag[:40]!r}"
        )
    return tag


def is_well_formed(tag: str) -> bool:
    """Whether a tag follows the grammar."""
    return len(tag) <= MOST_CHARS and _TAG.fullmatch(tag) is not None
