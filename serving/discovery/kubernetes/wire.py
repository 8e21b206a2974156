"""What an API server says, taken apart: pages of a list, lines of a watch, refusals.

Nothing is believed unread. Text that is not the JSON asked for is a failed request and never an
empty list; what a refusal means for the caller (ask again, or list anew) is decided here alone.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import orjson

from serving.discovery import errors
from serving.discovery.kubernetes import fields

_SHOWN_BYTES = 60


class EventKind(enum.StrEnum):
    """What a line of a watch says of its object. ERROR never gets this far: it is raised."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    """Nothing happened up to this version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of a watch. `version` is None where the object has none."""

    kind: EventKind
    body: dict[str, Any]
    version: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A part of a list, or all of it where `more` is empty."""

    items: tuple[Any, ...]
    version: str
    more: str = ""
    """What to ask for the next part with."""


class Lines:
    """Cuts a stream of bytes into lines. What follows the last line end is kept for later."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in this chunk; raises SourceFailed for one above the limit."""
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._hold(part)
            line = b"".join(self._held)
            self._held, self._held_bytes = [], 0
            if line.strip():
                yield line
        self._hold(rest)

    def _hold(self, part: bytes) -> None:
        self._held_bytes += len(part)
        if self._held_bytes > self._limit_bytes:
            raise errors.SourceFailed(
                f"the API server sent a line above {self._limit_bytes} bytes; no Service or "
                "EndpointSlice is so large. Is the address that of an API server?"
            )
        if part:
            self._held.append(part)


def event(line: bytes) -> Event:
    """A line of a watch. Raises Interrupted or SourceFailed for what the server refuses, and
    SourceFailed for what is no event."""
    said = _object(line, "a watch event")
    kind, body = said.get("type"), said.get("object")
    if not isinstance(body, dict):
        raise errors.SourceFailed(
            f"the API server sent an event without an object: {fields.shown(said)}"
        )
    if kind == "ERROR":
        code = body.get("code")
        raise refusal(
            code if isinstance(code, int) else 0, "watch", fields.shown(body.get("message"))
        )
    try:
        return Event(kind=EventKind(str(kind)), body=body, version=version_of(body))
    except ValueError as exc:
        raise errors.SourceFailed(
            f"the API server sent an unknown event {fields.shown(kind)}"
        ) from exc


def page(data: bytes, kind: str) -> Page:
    """An answer to a list of `kind` (such as ServiceList); raises SourceFailed."""
    said = _object(data, f"the {kind} asked for")
    items, version = said.get("items"), version_of(said)
    # "items" is null in an empty list of some servers; in anything else it is not there at all.
    is_list = "items" in said and (items is None or isinstance(items, list))
    if not is_list or version is None or said.get("kind", kind) != kind:
        found = f"{fields.shown(said.get('kind'))} with the fields {', '.join(sorted(said)[:9])}"
        raise errors.SourceFailed(
            f"the API server did not send the {kind} asked for but {found}; what was known before "
            "stays"
        )
    more = said["metadata"].get("continue")
    return Page(
        items=tuple(items or ()), version=version, more=more if isinstance(more, str) else ""
    )


def refusal(code: int, doing: str, text: str, *, retry_after_s: float = 0.0) -> errors.SourceFailed:
    """The error for a status code other than 200, saying what to do about it."""
    said = f"the API server refused to {doing} ({code}): {text}"
    if code == HTTPStatus.TOO_MANY_REQUESTS or code >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return errors.Interrupted(said, retry_after_s=retry_after_s)
    if code == HTTPStatus.GONE:
        return errors.SourceFailed(f"{said}. The version is too old; listing anew")
    if code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return errors.SourceFailed(
            f"{said}. The account needs the verbs list and watch on services and on "
            "endpointslices of discovery.k8s.io"
        )
    return errors.SourceFailed(said)


def version_of(body: Mapping[str, Any]) -> str | None:
    """The resourceVersion of an object or a list; None where there is none."""
    metadata = body.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) and version else None


def _object(data: bytes, wanted: str) -> dict[str, Any]:
    try:
        said = orjson.loads(data)
    except orjson.JSONDecodeError as exc:
        raise errors.SourceFailed(
            f"the API server did not send {wanted} but {fields.shown(data[:_SHOWN_BYTES])}: {exc}. "
            "Is the address that of an API server, without a login page or a proxy before it?"
        ) from exc
    if not isinstance(said, dict):
        raise errors.SourceFailed(f"the API server did not send {wanted} but {fields.shown(said)}")
    return said
