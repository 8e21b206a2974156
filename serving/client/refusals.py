"""What is said to the caller when there is no good answer: which error, in which words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from serving.client import errors, rate_limit, retry, types
from serving.client.settings import Config

_NO_REASON = "the endpoint gave no reason"
_MOST_CHARACTERS = 1000
"""Of what the endpoint says, in a message."""
NOT_SERVED = "version_not_served"
_BY_TYPE: dict[str, type[errors.ClientError]] = {
    "timeout_error": errors.DeadlineExceeded,
    "rate_limit_error": errors.Overloaded,
    "unavailable_error": errors.Overloaded,
    "invalid_request_error": errors.BadRequest,
}

_KEY = (errors.NotAllowed, "Pass an API key that is good for this (api_key=)")
_LATE = (errors.DeadlineExceeded, "Allow more with timeout_s, or send less")
_FULL = (errors.Overloaded, "Send more slowly, or try again later")
_BY_STATUS: dict[int, tuple[type[errors.ClientError], str]] = {
    401: _KEY,
    403: _KEY,
    404: (errors.NotFound, "Check base_url and model"),
    408: _LATE,
    429: _FULL,
    503: _FULL,
    504: _LATE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """What was done before giving up."""

    addresses: tuple[str, ...]
    attempts: int
    request_id: str
    version: int | None
    unix_s: float


def error(outcome: retry.Reply | retry.Failure, tried: Tried, config: Config) -> errors.ClientError:
    """The error for an outcome after which nothing more is tried."""
    many = tried.attempts > 1
    how_often = f"after {tried.attempts} attempts" if many else "at the first attempt"
    if isinstance(outcome, retry.Reply):
        return _refusal(outcome, tried, how_often)
    where = ", ".join(tried.addresses)
    if outcome.kind is retry.FailureKind.TIMEOUT:
        return errors.DeadlineExceeded(
            f"no answer from {where} in time {how_often} ({outcome.reason}). Allow more "
            f"with timeout_s (now {config.timeout_s:g}) and deadline_s (now "
            f"{config.deadline_s:g}), or send a shorter text",
            request_id=tried.request_id,
        )
    if outcome.kind is retry.FailureKind.UNREADABLE:
        return errors.ServerFault(
            f"the answer of {tried.addresses[-1]} cannot be read ({outcome.reason}). "
            f"Is the address that of a liftlock endpoint?",
            request_id=tried.request_id,
        )
    return errors.ConnectionFailed(
        f"no answer from {where} {how_often} ({outcome.reason}). {_unreached(outcome.reason)}",
        request_id=tried.request_id,
    )


def _unreached(reason: str) -> str:
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return "Trust a certificate of your own with tls= or SSL_CERT_FILE"
    return (
        "Is the endpoint running there, and is http or https right? "
        "`liftlock status` says where it is"
    )


def check_pin(headers: Mapping[str, str], version: int | None, request_id: str) -> None:
    """Raises VersionNotServed where an endpoint that knows no pins answered by another version."""
    answered = types.version(headers)
    if version is not None and answered is not None and answered != version:
        refused = errors.VersionNotServed(
            f"version {version} was asked for and version {answered} answered. "
            f"Pin a version that serves, or none",
            request_id=request_id,
            code=NOT_SERVED,
        )
        refused.served = (answered,)
        raise refused


def in_stream(data: Mapping[str, Any], request_id: str) -> errors.ClientError:
    """The error that ended a stream; it has no status, since that was sent long before."""
    said = _said(data)
    kind = _BY_TYPE.get(str(said.get("type")), errors.ServerFault)
    code = said.get("code")
    return kind(
        f"the endpoint ended the stream: {_message(said) or _NO_REASON}. "
        f"What came before is incomplete; ask again",
        request_id=request_id,
        code=str(code) if code is not None else None,
    )


def _refusal(reply: retry.Reply, tried: Tried, how_often: str) -> errors.ClientError:
    said = _said(_json(reply.body))
    code = str(said["code"]) if said.get("code") is not None else None
    kind, advice = _kind(reply.status, code)
    message = _message(said) or reply.body[:200].decode(errors="replace") or _NO_REASON
    found = kind(
        f"{message} (status {reply.status}, {how_often}). {advice}",
        request_id=tried.request_id,
        status=reply.status,
        code=code,
        rate_limit=rate_limit.read(reply.headers, tried.unix_s),
    )
    if isinstance(found, errors.VersionNotServed):
        found.served = _served(said, reply.headers)
    return found


def _kind(status: int, code: str | None) -> tuple[type[errors.ClientError], str]:
    if status in (409, 412) and code == NOT_SERVED:
        return errors.VersionNotServed, "Pin a version that serves, or none"
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if 300 <= status < 400:
        return errors.ServerFault, "Nothing is sent on to where it points: ask that address itself"
    if 400 <= status < 500:
        return errors.BadRequest, "Change the request"
    return errors.ServerFault, "Look for the request in the endpoint's logs"


def _served(said: Mapping[str, Any], headers: Mapping[str, str]) -> tuple[int, ...]:
    """The versions that serve: those the error lists, else the one that refused."""
    listed = said.get("served")
    if isinstance(listed, list) and all(type(item) is int for item in listed):
        return tuple(listed)
    answered = types.version(headers)
    return (answered,) if answered is not None else ()


def _said(data: object) -> Mapping[str, Any]:
    found = data.get("error") if isinstance(data, dict) else None
    return found if isinstance(found, dict) else {}


def _message(said: Mapping[str, Any]) -> str:
    found = said.get("message")
    return found[:_MOST_CHARACTERS] if isinstance(found, str) else ""


def _json(body: bytes) -> object:
    try:
        return json.loads(body)
    except (RecursionError, ValueError):
        return None
