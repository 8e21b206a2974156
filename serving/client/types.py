"""What the endpoint answers, as values.

Parsing takes unknown fields in stride, so that a newer endpoint does not break an older client,
and raises ValueError for missing or wrong ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from serving.client.rate_limit import RateLimit

T = TypeVar("T")


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


def field(data: object, name: str, kind: type[T]) -> T:
    """A field of an object of an answer, exactly of that type: true is no number.

    Raises:
        ValueError: it is of another one or missing, or `data` is no object.
    """
    value = data.get(name) if isinstance(data, dict) else data
    if not isinstance(data, dict) or type(value) is not kind:
        raise ValueError(f"{name!r} must be of type {kind.__name__}, found {value!r:.80}")
    return value


def given(data: object, name: str, kind: type[T]) -> T | None:
    """The same, where it need not be there."""
    is_missing = isinstance(data, dict) and data.get(name) is None
    return None if is_missing else field(data, name, kind)


def correction(data: object, around: Around) -> Correction:
    """The answer of /v1/corrections to one text."""
    edits = tuple(
        Edit(
            start=field(item, "start", int),
            end=field(item, "end", int),
            original=field(item, "original", str),
            replacement=field(item, "replacement", str),
        )
        for item in field(data, "edits", list)
    )
    return Correction(
        corrected=field(data, "corrected", str),
        edits=edits,
        model=field(data, "model", str),
        version=field(data, "version", int),
        finish_reason=field(data, "finish_reason", str),
        request_id=given(data, "request_id", str) or around.request_id,
        rate_limit=around.rate_limit,
    )


def corrections(data: object, around: Around, number: int) -> tuple[Correction, ...]:
    """The answer of /v1/corrections to that many texts: each has the identity of them all."""
    results = field(data, "results", list)
    if len(results) != number:
        raise ValueError(f"{number} texts were sent, {len(results)} results came back")
    shared = {name: field(data, name, kind) for name, kind in (("model", str), ("version", int))}
    return tuple(
        correction({**shared, **item} if isinstance(item, dict) else item, around)
        for item in results
    )


def completion(data: object, around: Around) -> Completion:
    """The answer of /v1/completions; the version travels in a header."""
    choice = next(iter(field(data, "choices", list)), None)
    prompt_tokens, completion_tokens = usage(data)
    return Completion(
        text=field(choice, "text", str),
        finish_reason=field(choice, "finish_reason", str),
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        model=field(data, "model", str),
        version=version(around.headers),
        request_id=around.request_id,
        rate_limit=around.rate_limit,
    )


def usage(data: object) -> tuple[int, int]:
    """The tokens of the prompt and those of the completion."""
    counts = field(data, "usage", dict)
    return field(counts, "prompt_tokens", int), field(counts, "completion_tokens", int)


def version(headers: Mapping[str, str]) -> int | None:
    """The version that answered; None when the answer does not say."""
    value = headers.get("x-liftlock-version", "")
    return int(value) if value.isascii() and value.isdecimal() and len(value) <= 18 else None


def models(data: object) -> tuple[Model, ...]:
    """The answer of /v1/models."""
    return tuple(
        Model(
            id=field(item, "id", str),
            version=given(item, "version", int),
        )
        for item in field(data, "data", list)
    )


def health(data: object) -> Health:
    """The answer of /healthz, which a page of somebody else's is not."""
    return Health(ok=True, detail=field(data, "status", str))
