"""The objects of one resource as the API server last told them: lists and events in, objects out.

The one idea: versions only go up. An event that is not newer than what came before it is not
taken, and the server's word is not sorted out but asked for anew, by a list. A list that is older
than what is known already comes from a server that lags, and is refused a few times; one that
stays so is the truth (a cluster restored from a backup) and is believed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from serving.discovery import errors
from serving.discovery.kubernetes import objects, versions, wire

T = TypeVar("T")

_REWINDS_REFUSED = 3
"""How many lists in a row that are older than what is known are not believed."""


class Mirror(Generic[T]):
    """What is known of one resource. `read` makes a value of an object, or raises ValueError."""

    def __init__(self, read: Callable[[Mapping[str, Any]], T]) -> None:
        self._read = read
        self._rewinds = 0
        self._versions: dict[objects.Key, str | None] = {}
        self.objects: dict[objects.Key, T] = {}
        self.refused: dict[objects.Key, str] = {}
        """Objects that cannot be used, and why."""
        self.version: str | None = None
        """Up to where it is known, and from where a watch goes on; None before the first list."""

    def replace(self, page: wire.Page) -> None:
        """Take a complete list in place of all that was known.

        Raises SourceFailed for one from the past; nothing is changed then.
        """
        if versions.is_older(page.version, self.version) and self._rewinds < _REWINDS_REFUSED:
            self._rewinds += 1
            raise errors.SourceFailed(
                f"the API server listed version {page.version} although {self.version} was seen "
                "before; it lags, and is asked again"
            )
        fresh = Mirror(self._read)
        for position, body in enumerate(page.items):
            fresh._take_listed(position, body)
        self._rewinds, self.version = 0, page.version
        self._versions, self.objects, self.refused = fresh._versions, fresh.objects, fresh.refused

    def _take_listed(self, position: int, body: Any) -> None:
        """One item of a list. Of two with one name the newer one counts."""
        unnamed = objects.Key(namespace="", name=f"item {position} of the list")
        if not isinstance(body, dict):
            self.refused[unnamed] = "it is not an object"
            return
        try:
            key = objects.key_of(body)
        except ValueError as exc:
            self.refused[unnamed] = str(exc)
            return
        if not versions.is_older(wire.version_of(body), self._versions.get(key)):
            self._put(key, body)

    def take(self, event: wire.Event) -> None:
        """Take one event of a watch.

        Raises SourceFailed where the server contradicts itself; nothing is changed then, and only
        a new list can tell what is true.
        """
        if event.kind is wire.EventKind.BOOKMARK:
            if event.version is None or versions.is_older(event.version, self.version):
                raise self._contradiction(event, "a bookmark")
        else:
            try:
                key = objects.key_of(event.body)
            except ValueError as exc:
                raise self._contradiction(event, f"an object ({exc})") from exc
            is_late = versions.is_older(event.version, self._versions.get(key))
            if is_late or not versions.is_newer(event.version, self.version):
                raise self._contradiction(event, str(key))
            self._change(event, key)
        self.version = event.version or self.version

    def _change(self, event: wire.Event, key: objects.Key) -> None:
        if event.kind is wire.EventKind.DELETED:
            for known in (self.objects, self.refused, self._versions):
                known.pop(key, None)
        else:
            self._put(key, event.body)

    def _put(self, key: objects.Key, body: Mapping[str, Any]) -> None:
        """An object that became unusable is not served as it was: it is not so any more."""
        self._versions[key] = wire.version_of(body)
        try:
            self.objects[key] = self._read(body)
            self.refused.pop(key, None)
        except ValueError as exc:
            self.objects.pop(key, None)
            self.refused[key] = str(exc)

    def _contradiction(self, event: wire.Event, what: str) -> errors.SourceFailed:
        return errors.SourceFailed(
            f"the API server sent {event.kind} of {what} at version {event.version} after version "
            f"{self.version}; listing anew"
        )
