"""A call from request to result, without any I/O: what sync and async clients share.

The one idea: a call is a generator. It yields `Send` and `Wait`, is sent back what came of them,
and returns its result or raises. Whoever drives it decides how bytes and time pass.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib import parse

from serving.client import errors, retry, types

T = TypeVar("T")

_OK = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Make one attempt, in `timeout_s` at most; send back a Reply or a Failure."""

    method: str
    path: str
    headers: Mapping[str, str]
    content: bytes
    timeout_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """Let time pass; send back None."""

    delay_s: float


Flow = Generator[Send | Wait, retry.Reply | retry.Failure | None, T]


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What every call of a client shares."""

    base_url: str
    timeout_s: float
    deadline_s: float
    policy: retry.RetryPolicy
    api_key: str | None
    model: str | None

    def __post_init__(self) -> None:
        parts = parse.urlsplit(self.base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError(f"base_url must be like http://host:port, found {self.base_url!r}")
        for name in ("api_key", "model"):
            if not (getattr(self, name) or "").isascii():
                raise ValueError(f"{name} must be ASCII, since it travels in a header")
        for name in ("timeout_s", "deadline_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, found {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chance:
    """Time and randomness, so that tests can hold them still."""

    monotonic_s: Callable[[], float]
    unix_s: Callable[[], float]
    rng: random.Random


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, whichever way and however often it is sent."""

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    idempotent: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchanged:
    """The last answer to a call, and the id it went by."""

    reply: retry.Reply
    request_id: str


def correct(config: Config, chance: Chance, text: str) -> Flow[types.Correction]:
    """The call behind `Client.correct`."""
    call = Call(method="POST", path="/v1/corrections", body={"text": text})
    done = yield from exchange(config, chance, call)
    return _parsed(done, lambda data: types.correction(data, done.request_id))


def complete(
    config: Config, chance: Chance, prompt: str, options: Mapping[str, Any]
) -> Flow[types.Completion]:
    """The call behind `Client.complete`; asks for the model's name when the client has none."""
    model = config.model
    if model is None:
        known = yield from models(config, chance)
        model = known[0].id if known else ""
    given = {name: value for name, value in options.items() if value is not None}
    call = Call(
        method="POST",
        path="/v1/completions",
        body={"model": model, "prompt": prompt, **given},
        idempotent=options.get("temperature") == 0,
    )
    done = yield from exchange(config, chance, call)
    return _parsed(done, lambda data: types.completion(data, done.reply.headers, done.request_id))


def models(config: Config, chance: Chance) -> Flow[tuple[types.Model, ...]]:
    """The call behind `Client.models`."""
    done = yield from exchange(config, chance, Call(method="GET", path="/v1/models"))
    return _parsed(done, types.models)


def health(config: Config, chance: Chance) -> Flow[types.Health]:
    """The call behind `Client.health`: an unhappy answer is a result, no answer is an error."""
    try:
        yield from exchange(config, chance, Call(method="GET", path="/healthz"))
    except errors.ClientError as exc:
        if exc.status is None:
            raise
        return types.Health(ok=False, detail=str(exc))
    return types.Health(ok=True, detail="ok")


def exchange(config: Config, chance: Chance, call: Call) -> Flow[Exchanged]:
    """Send until there is a good answer, no sense in trying again, or no time left."""
    request_id = uuid.UUID(int=chance.rng.getrandbits(128), version=4).hex
    content = json.dumps(call.body).encode() if call.body is not None else b""
    deadline_s = chance.monotonic_s() + config.deadline_s
    attempt = 0
    while True:
        remaining_s = max(deadline_s - chance.monotonic_s(), 0.001)
        attempt_s = min(config.timeout_s, remaining_s)
        outcome = yield Send(
            method=call.method,
            path=call.path,
            headers=_headers(config, request_id, attempt_s),
            content=content,
            timeout_s=attempt_s,
        )
        attempt += 1
        if outcome is None:
            raise TypeError("the driver of a call must answer Send with a Reply or a Failure")
        if isinstance(outcome, retry.Reply) and outcome.status == _OK:
            return Exchanged(reply=outcome, request_id=request_id)
        situation = retry.Situation(
            attempt=attempt,
            idempotent=call.idempotent,
            remaining_s=deadline_s - chance.monotonic_s(),
            unix_s=chance.unix_s(),
        )
        pause_s = retry.pause_s(config.policy, outcome, situation, chance.rng)
        if pause_s is None:
            raise _error(config, outcome, request_id, attempt)
        yield Wait(delay_s=pause_s)


def _headers(config: Config, request_id: str, attempt_s: float) -> dict[str, str]:
    headers = {
        "content-type": "application/json",
        "accept": "application/json",
        "x-request-id": request_id,
        "x-request-timeout-ms": str(max(1, int(attempt_s * 1000))),
    }
    if config.api_key is not None:
        headers["authorization"] = f"Bearer {config.api_key}"
    if config.model is not None:
        headers["x-liftlock-model"] = config.model
    return headers


def _parsed(done: Exchanged, read: Callable[[Mapping[str, Any]], T]) -> T:
    try:
        return read(json.loads(done.reply.body))
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
        raise errors.ServerFault(
            f"the endpoint's answer is not what this client understands "
            f"({type(exc).__name__}: {exc}), it begins with {done.reply.body[:80]!r}. "
            f"Is the address that of a liftlock endpoint?",
            request_id=done.request_id,
            status=done.reply.status,
        ) from exc


def _error(
    config: Config, outcome: retry.Reply | retry.Failure, request_id: str, attempt: int
) -> errors.ClientError:
    tried = f"after {attempt} attempts" if attempt > 1 else "at the first attempt"
    if isinstance(outcome, retry.Reply):
        return _refusal(outcome, request_id, tried)
    if outcome.kind is retry.FailureKind.TIMEOUT:
        return errors.DeadlineExceeded(
            f"no answer from {config.base_url} in time {tried} ({outcome.reason}). Allow more "
            f"with timeout_s (now {config.timeout_s:g}) and deadline_s (now "
            f"{config.deadline_s:g}), or send a shorter text",
            request_id=request_id,
        )
    return errors.ConnectionFailed(
        f"no answer from {config.base_url} {tried} ({outcome.reason}). "
        f"Is the endpoint running there? `liftlock status` says where it is",
        request_id=request_id,
    )


def _refusal(reply: retry.Reply, request_id: str, tried: str) -> errors.ClientError:
    said = f"{_message(reply)} (status {reply.status}, {tried})"
    kind: type[errors.ClientError]
    match reply.status:
        case 401 | 403:
            kind, advice = errors.NotAllowed, "Pass an API key that is good for this (api_key=)"
        case 404:
            kind, advice = errors.NotFound, "Check base_url and model"
        case 408 | 504:
            kind, advice = errors.DeadlineExceeded, "Allow more with timeout_s, or send less"
        case 429 | 503:
            kind, advice = errors.Overloaded, "Send more slowly, or try again later"
        case status if 400 <= status < 500:
            kind, advice = errors.BadRequest, "Change the request"
        case _:
            kind, advice = errors.ServerFault, "Look for the request in the endpoint's logs"
    return kind(f"{said}. {advice}", request_id=request_id, status=reply.status)


def _message(reply: retry.Reply) -> str:
    """What the endpoint says, or the beginning of what it sent instead."""
    try:
        return str(json.loads(reply.body)["error"]["message"])
    except (KeyError, TypeError, ValueError):
        return reply.body[:200].decode(errors="replace") or "the endpoint gave no reason"
