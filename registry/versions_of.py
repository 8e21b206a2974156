"""Versions of installed packages, without importing them; part of what identifies a result."""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Iterable


def package_versions(names: Iterable[str]) -> dict[str, str | None]:
    """Installed versions by distribution name; None for one that is not installed."""
    return {name: _version(name) for name in names}


@functools.cache  # reading one takes milliseconds, and a process does not change its packages
def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
