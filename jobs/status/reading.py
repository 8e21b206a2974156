"""Several sources at once, and none of them waited for: whoever is late is named instead.

A thread per source. A thread that hangs cannot be ended, so the next look waits for that one
instead of starting another; it holds nothing and ends with the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from jobs.errors import JobError
from pipelines.errors import PipelineError
from registry.errors import RegistryError
from serving.errors import ServingError

LIMIT_S = 2.0
"""How long a source may take; a person waits for the answer."""
FORESEEN = (JobError, PipelineError, RegistryError, ServingError, OSError)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """In the place of a value that could not be had."""

    reason: str


Known: TypeAlias = T | Unread | None
"""A value, why it could not be had, or None where there is nothing to have."""


def had(value: Known[T]) -> T | None:
    """The value, where it could be had."""
    return None if isinstance(value, Unread) else value


class Pending(Generic[T]):
    """A call that runs on a thread of its own."""

    def __init__(self, call: Callable[[], T], name: str) -> None:
        self._call = call
        self._done = threading.Event()
        self._value: T | None = None
        self._error: BaseException | None = None
        self.started_s = time.monotonic()
        threading.Thread(target=self._run, name=f"status-{name}", daemon=True).start()

    @property
    def is_done(self) -> bool:
        """Whether it has answered or failed."""
        return self._done.is_set()

    def get(self, limit_s: float = LIMIT_S) -> T | Unread:
        """Its value, or why there is none `limit_s` after it was started.

        What nobody foresaw is raised, so that it is not mistaken for a source that is away.
        """
        left_s = self.started_s + limit_s - time.monotonic()
        if not self._done.wait(max(0.0, left_s)):
            age_s = time.monotonic() - self.started_s
            return Unread(reason=f"no answer for {age_s:.1f} s")
        if isinstance(self._error, FORESEEN):
            return Unread(reason=str(self._error))
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def _run(self) -> None:
        try:
            self._value = self._call()
        except BaseException as exc:  # handed to whoever asks
            self._error = exc
        finally:
            self._done.set()


class Reader:
    """Starts calls by name; one that still hangs is not started again."""

    def __init__(self, *, limit_s: float = LIMIT_S) -> None:
        self.limit_s = limit_s
        self._known: dict[str, Pending[Any]] = {}

    def begin(self, name: str, call: Callable[[], T]) -> Pending[T]:
        """The call under way."""
        known = self._known.get(name)
        if known is None or known.is_done:
            known = self._known[name] = Pending(call, name)
        return known

    def read(self, name: str, call: Callable[[], T]) -> T | Unread:
        """The call's value, waited for."""
        return self.begin(name, call).get(self.limit_s)
