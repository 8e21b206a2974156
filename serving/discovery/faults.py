"""What is wrong now, part by part, while the loops go on."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator

from serving import errors

_log = logging.getLogger(__name__)


class Faults:
    """The present fault of each part. A part that works has none."""

    def __init__(self, count: Callable[[str], None] = lambda part: None) -> None:
        self._count = count
        self._known: dict[str, str] = {}

    def __contains__(self, part: str) -> bool:
        return part in self._known

    def texts(self) -> tuple[str, ...]:
        """Every fault, with the name of its part."""
        return tuple(f"{part}: {text}" for part, text in sorted(self._known.items()))

    @contextlib.contextmanager
    def reporting(self, part: str) -> Iterator[None]:
        """Keep a fault of the body while it lasts; it does not leave the body."""
        try:
            yield
        except Exception as exc:  # supervisor: a service with a fault serves better than none
            known = isinstance(exc, errors.ServingError | OSError)
            text = str(exc) if known else f"{type(exc).__name__}: {exc}"
            if self._known.get(part) != text:
                _log.warning("fault in %s: %s", part, text, exc_info=not known)
            self._count(part)
            self._known[part] = text
        else:
            self._known.pop(part, None)
