"""What the endpoint answers, as values.

Parsing takes unknown fields in stride, so that a newer endpoint does not break an older client,
and raises KeyError, TypeError or ValueError for missing or wrong ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving.client.rate_limit import RateLimit


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One change: `text[start:end]`, which is `original`, became `replacement`."""

    start: int
    end: int
    original: str
    replacement: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """A corrected text. Printing it gives the text."""

    corrected: str
    edits: tuple[Edit, ...]
    """In the order of the text, with offsets into the text that was sent: in characters, or in
    UTF-16 units where that was asked for."""
    model: str
    version: int
    finish_reason: str
    """"stop" when the model was done, "length" when it ran out of room and the end is cut."""
    request_id: str
    rate_limit: RateLimit | None = None
    """What the endpoint said about rates; None where it said nothing."""

    def __str__(self) -> str:
        return self.corrected


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeStats:
    """What a client did with one of its addresses."""

    address: str
    picks: int
    """Attempts sent there so far, those included that did not reach it."""
    in_flight: int
    """Attempts of this client that are not over."""
    is_left_out: bool
    """Whether it failed and gets nothing for a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a client sent where, so far."""

    picks: int
    """Attempts at all addresses together; a call that is repeated or hedged has several."""
    edges: tuple[EdgeStats, ...]
    """Those that it knows now, in the order in which it was given them."""
    list_age_s: float | None = None
    """Seconds since discovery told the addresses; None where it did not."""
    list_fault: str | None = None
    """Why discovery's list could not be read the last time; None where it could."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """A completed prompt. Printing it gives the text."""

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    model: str
    version: int | None
    """None when the answer does not say."""
    request_id: str
    rate_limit: RateLimit | None = None
    """What the endpoint said about rates; None where it said nothing."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of a completion that is streamed. Printing it gives the text."""

    text: str
    finish_reason: str | None
    """None until the last one."""

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model that answers at the endpoint."""

    id: str
    version: int | None
    """None when the endpoint does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether a replica behind the endpoint is well, and what it says otherwise."""

    ok: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What an answer says outside its body."""

    headers: Mapping[str, str]
    request_id: str
    rate_limit: RateLimit | None = None


def correction(data: Mapping[str, Any], around: Around) -> Correction:
    """The answer of /v1/corrections to one text."""
    edits = tuple(
        Edit(
            start=int(item["start"]),
            end=int(item["end"]),
            original=str(item["original"]),
            replacement=str(item["replacement"]),
        )
        for item in data["edits"]
    )
    return Correction(
        corrected=str(data["corrected"]),
        edits=edits,
        model=str(data["model"]),
        version=int(data["version"]),
        finish_reason=str(data["finish_reason"]),
        request_id=str(data.get("request_id", around.request_id)),
        rate_limit=around.rate_limit,
    )


def corrections(data: Mapping[str, Any], around: Around, number: int) -> tuple[Correction, ...]:
    """The answer of /v1/corrections to that many texts: each has the identity of them all."""
    results = data["results"]
    if len(results) != number:
        raise ValueError(f"{number} texts were sent, {len(results)} results came back")
    shared = {name: value for name, value in data.items() if name != "results"}
    return tuple(correction({**shared, **item}, around) for item in results)


def completion(data: Mapping[str, Any], around: Around) -> Completion:
    """The answer of /v1/completions; the version travels in a header."""
    choice, usage = data["choices"][0], data.get("usage") or {}
    return Completion(
        text=str(choice["text"]),
        finish_reason=str(choice["finish_reason"]),
        prompt_tokens=int(usage.get("prompt_tokens", 0)),
        completion_tokens=int(usage.get("completion_tokens", 0)),
        model=str(data["model"]),
        version=version(around.headers),
        request_id=around.request_id,
        rate_limit=around.rate_limit,
    )


def version(headers: Mapping[str, str]) -> int | None:
    """The version that answered; None when the answer does not say."""
    value = headers.get("x-liftlock-version")
    return int(value) if value is not None else None


def models(data: Mapping[str, Any]) -> tuple[Model, ...]:
    """The answer of /v1/models."""
    return tuple(
        Model(
            id=str(item["id"]),
            version=int(item["version"]) if item.get("version") is not None else None,
        )
        for item in data["data"]
    )
