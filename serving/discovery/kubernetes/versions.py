"""Which of two resource versions is the newer one.

Versions of one resource are comparable as whole numbers of any length since Kubernetes 1.35
(KEP-5504), and are in every release that stores its objects in etcd. Anything else cannot be
compared, and nothing is concluded from it.
"""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[1-9][0-9]*", re.ASCII)


def is_older(version: str | None, than: str | None) -> bool:
    """Whether `version` is certainly older; False where they cannot be compared."""
    one, other = _order(version), _order(than)
    return one is not None and other is not None and one < other


def is_newer(version: str | None, than: str | None) -> bool:
    """Whether `version` is newer, or cannot be compared."""
    one, other = _order(version), _order(than)
    return one is None or other is None or one > other


def _order(version: str | None) -> tuple[int, str] | None:
    """A number without leading zeros, by length and digits: int() takes quadratic time."""
    if version is None or not _NUMBER.fullmatch(version):
        return None
    return len(version), version
