"""The calls behind the clients' methods: body in, value out, without any I/O."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from serving.client import arguments, errors, rate_limit, types
from serving.client.exchange import Call, Exchange, Exchanged
from serving.client.settings import Session, Wish
from serving.client.steps import Flow, T


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionOptions:
    """Fields of the body; what is None is not sent."""

    language: str | None = None
    offsets: str | None = None

    def __post_init__(self) -> None:
        for name, value in self.fields().items():
            arguments.of_type(name, value, str)

    def fields(self) -> dict[str, str]:
        """Those that were given."""
        given = {"language": self.language, "offsets": self.offsets}
        return {name: value for name, value in given.items() if value is not None}


def correct(
    session: Session, text: str, options: CorrectionOptions, wish: Wish
) -> Flow[types.Correction]:
    """The call behind `Client.correct`."""
    arguments.of_type("text", text, str)
    call = Call(
        method="POST",
        path="/v1/corrections",
        body={"text": text, **options.fields()},
        hedged=True,
        until_s=session.until_s(wish),
        version=wish.version,
    )
    done = yield from Exchange(session, call).run()
    return parsed(done, lambda data: types.correction(data, around(session, done)))


def completion_options(
    max_tokens: int | None,
    temperature: float | None,
    stop: Sequence[str] | None,
    seed: int | None,
) -> dict[str, Any]:
    """Fields of the body of a completion; None is not sent."""
    for name, value in (("max_tokens", max_tokens), ("seed", seed)):
        if value is not None:
            arguments.of_type(name, value, int)
    if temperature is not None:
        arguments.of_type("temperature", temperature, int, float)
        if not math.isfinite(temperature):
            raise ValueError(f"temperature must be finite, found {temperature}")
    return {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "stop": list(arguments.strings("stop", stop)) if stop is not None else None,
        "seed": seed,
    }


def complete(
    session: Session, prompt: str, options: Mapping[str, Any], wish: Wish
) -> Flow[types.Completion]:
    """The call behind `Client.complete`; asks for the model's name when the client has none."""
    done = yield from _completions(session, prompt, options, wish)
    return parsed(done, lambda data: types.completion(data, around(session, done)))


def open_completion(
    session: Session, prompt: str, options: Mapping[str, Any], wish: Wish
) -> Flow[Exchanged]:
    """The call behind `Client.complete_stream`, up to its first event."""
    streamed = {**options, "stream": True, "stream_options": {"include_usage": True}}
    return (yield from _completions(session, prompt, streamed, wish))


def _completions(
    session: Session, prompt: str, options: Mapping[str, Any], wish: Wish
) -> Flow[Exchanged]:
    arguments.of_type("prompt", prompt, str)
    until_s = session.until_s(wish)
    model = session.config.model
    if model is None:
        known = yield from _models(session, until_s)
        model = known[0].id if known else ""
    given = {name: value for name, value in options.items() if value is not None}
    is_greedy, opens = options.get("temperature") == 0, bool(options.get("stream"))
    call = Call(
        method="POST",
        path="/v1/completions",
        body={"model": model, "prompt": prompt, **given},
        idempotent=is_greedy,
        opens=opens,
        hedged=is_greedy and not opens,
        until_s=until_s,
        version=wish.version,
    )
    return (yield from Exchange(session, call).run())


def models(session: Session) -> Flow[tuple[types.Model, ...]]:
    """The call behind `Client.models`."""
    return (yield from _models(session, session.until_s(Wish())))


def _models(session: Session, until_s: float) -> Flow[tuple[types.Model, ...]]:
    call = Call(method="GET", path="/v1/models", until_s=until_s, pinned=False)
    done = yield from Exchange(session, call).run()
    return parsed(done, types.models)


def health(session: Session) -> Flow[types.Health]:
    """The call behind `Client.health`: an unhappy answer is a result, no answer is an error."""
    try:
        call = Call(method="GET", path="/healthz", until_s=session.until_s(Wish()), pinned=False)
        done = yield from Exchange(session, call).run()
        return parsed(done, types.health)
    except errors.ClientError as exc:
        if exc.status is None:
            raise
        return types.Health(ok=False, detail=str(exc))


def around(session: Session, done: Exchanged) -> types.Around:
    """What an answer says outside its body."""
    return types.Around(
        headers=done.reply.headers,
        request_id=done.request_id,
        rate_limit=rate_limit.read(done.reply.headers, session.chance.unix_s()),
    )


def parsed(done: Exchanged, read: Callable[[object], T]) -> T:
    """The value of a good answer.

    Raises:
        ServerFault: it is not what this client understands.
    """
    try:
        return read(json.loads(done.reply.body))
    except (RecursionError, ValueError) as exc:
        raise errors.ServerFault(
            f"the endpoint's answer is not what this client understands "
            f"({type(exc).__name__}: {exc}), it begins with {done.reply.body[:80]!r}. "
            f"Is the address that of a liftlock endpoint?",
            request_id=done.request_id,
            status=done.reply.status,
        ) from exc
