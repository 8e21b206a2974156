"""What every OpenAI-shaped body is checked for before anything is done with it.

The one idea: a field is honored or refused by name, never ignored. Fields that cannot change the
output pass, as do unsupported ones at a value that means "off".
"""

from __future__ import annotations

import reprlib
from collections.abc import Awaitable, Callable, Collection, Mapping
from http import HTTPStatus
from typing import Any

from serving.engine import fields
from serving.engine.errors_http import ApiError, invalid
from serving.engine.exchange import Answer, Call
from serving.engine.protocol import Engine, RequestRejected
from serving.engine.state import Identity

VERSION_PIN_HEADER = "x-liftlock-version-pin"
_MOST_VERSION = 2**31 - 1
_MOST_DIGITS = 10
_MOST_REPORTED = 250_000
"""Log probabilities of one answer: 20 MB, and half a second of the event loop."""

Handler = Callable[[Call], Awaitable[Answer]]


def refuse_unsupported(
    body: Mapping[str, Any],
    *,
    honored: Collection[str],
    off: Mapping[str, tuple[object, ...]],
    prefix: str = "",
) -> None:
    """Refuses every field that is neither honored nor at a value at which it does nothing.

    Raises:
        ApiError: 400 `unknown_field` or `unsupported_field`, naming the field after `prefix`.
    """
    for name, value in body.items():
        if name in honored:
            continue
        if name not in off:
            raise invalid(
                f"{prefix}{name}", f"unknown field {name!r}; check its spelling", "unknown_field"
            )
        if not any(value == each and type(value) is type(each) for each in off[name]):
            raise invalid(
                f"{prefix}{name}",
                f"{name}={reprlib.repr(value)} is not supported here; leave it out",
                "unsupported_field",
            )


def check_model(body: dict[str, Any], served: str, *, required: bool) -> None:
    """Refuses a request meant for another model: 404, or 400 where the field must be there."""
    if body.get("model") is None and not required:
        return
    model = fields.string(body, "model", default=None)
    if model != served:
        raise ApiError(
            HTTPStatus.NOT_FOUND, "model_not_found",
            f"this endpoint serves {served!r}, not {model!r}", param="model",
        )  # fmt: skip


def check_version(body: dict[str, Any], served: int) -> None:
    """Refuses a body whose `version` is not the one served: 412."""
    pinned = fields.optional_integer(body, "version", low=1, high=_MOST_VERSION)
    if pinned is not None and pinned != served:
        raise _not_served(pinned, served, "version")


def token_ids(engine: Engine, text: str, param: str) -> tuple[int, ...]:
    """The token ids of a text that came in `param`, or in what the manifest made of it.

    Raises:
        ApiError: 400 `context_length_exceeded`, it cannot fit the model.
    """
    try:
        return engine.encode(text)
    except RequestRejected as exc:
        raise invalid(param, str(exc), "context_length_exceeded") from exc


def check_length(
    prompt: int, max_tokens: int, longest: int, *, param: str = "prompt", room: str | None = None
) -> None:
    """Refuses what cannot fit the context; all three in tokens.

    `param` names the prompt's field, `room` the field that `max_tokens` came from.
    """
    if prompt >= longest:
        raise invalid(
            param,
            f"the prompt has {prompt} tokens, the model's context holds {longest}; shorten it",
            "context_length_exceeded",
        )
    if prompt + max_tokens > longest:
        raise invalid(
            room or param,
            f"{prompt} prompt tokens and {max_tokens} to generate are over the model's context of "
            f"{longest} tokens; at most {longest - prompt} can be generated",
            "context_length_exceeded",
        )


def check_reported(sequences: int, max_tokens: int, logprobs: int | None, *, param: str) -> None:
    """Refuses more log probabilities than one answer may have; `param` is the field to lower."""
    reported = 0 if logprobs is None else sequences * max_tokens * (logprobs + 1)
    if reported > _MOST_REPORTED:
        raise invalid(
            param,
            f"{sequences} completions of up to {max_tokens} tokens with {logprobs} alternatives "
            f"and the token itself are {reported} log probabilities, over the limit of "
            f"{_MOST_REPORTED}; ask for fewer tokens, completions or alternatives",
            "out_of_range",
        )


class Pinned:
    """A handler behind the version pin of the request's header."""

    def __init__(self, handler: Handler, identity: Identity) -> None:
        self._handler = handler
        self._served = identity.version

    async def __call__(self, call: Call) -> Answer:
        """The handler's answer, or 412 before its body is looked at.

        Raises:
            ApiError: 400 where the header is no version, 412 where another version is served.
        """
        given = call.headers.get(VERSION_PIN_HEADER)
        if given is not None:
            if not (given.isascii() and given.isdecimal() and len(given) <= _MOST_DIGITS):
                raise invalid(
                    VERSION_PIN_HEADER,
                    f"{VERSION_PIN_HEADER} must be a version number, got {given[:40]!r}",
                )
            if int(given) != self._served:
                raise _not_served(int(given), self._served, VERSION_PIN_HEADER)
        return await self._handler(call)


def _not_served(pinned: int, served: int, param: str) -> ApiError:
    return ApiError(
        HTTPStatus.PRECONDITION_FAILED,
        "version_not_served",
        f"version {pinned} was asked for, this replica serves version {served}; ask without a "
        f"version to take what serves",
        param=param,
    )
