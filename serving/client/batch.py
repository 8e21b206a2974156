"""Many texts: in requests of several, some at a time, results in the order of the texts.

A request that fails is looked into where one of its texts may be the reason: halved and sent
again, down to the single text that the endpoint refuses. What a text cannot be the reason for
(nobody there, too full) is left to the retries of the call, of which a batch has more, since it
can wait. A refusal that would meet every other text too, such as a bad key, ends the batch: the
texts not yet sent get that same error.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Sequence,
)
from dataclasses import dataclass
from typing import Any

from serving.client import arguments, errors, types
from serving.client.calls import CorrectionOptions, around, parsed
from serving.client.exchange import Call, Exchange
from serving.client.settings import Session, Wish
from serving.client.steps import Flow

_RETRIES = 8
_MOST_CHARACTERS = 64_000
"""Of all texts of a request: a character is 12 bytes of JSON at most, a body may have 1 MB."""
_WINDOW = 4
"""Requests begun ahead of the oldest one that is not over, per request in flight."""
_FOR_ALL = (errors.NotAllowed, errors.NotFound, errors.VersionNotServed)

Result = types.Correction | errors.ClientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A batch, checked."""

    texts: tuple[str, ...]
    options: CorrectionOptions
    wish: Wish
    concurrency: int
    texts_per_request: int

    def __post_init__(self) -> None:
        arguments.whole("concurrency", self.concurrency, least=1)
        arguments.whole("texts_per_request", self.texts_per_request, least=1)
        arguments.strings("texts", self.texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """News of a batch: how many texts are done, and the results whose turn it is."""

    done: int
    results: list[Result]


class Verdicts:
    """What was learned of the endpoint that holds for every text."""

    def __init__(self) -> None:
        self.for_all: errors.ClientError | None = None


def several(texts: Iterable[str]) -> tuple[str, ...]:
    """Them as a tuple; refuses a single string, whose characters would be taken for texts."""
    if isinstance(texts, str):
        raise ValueError("correct_many takes several texts, found one string; use correct for it")
    arguments.of_type("texts", texts, Iterable)
    return tuple(texts)


def chunks(texts: Sequence[str], most: int) -> list[tuple[str, ...]]:
    """The texts in requests of at most `most` texts and of bounded size; a long one goes alone."""
    found: list[list[str]] = []
    size = 0
    for text in texts:
        size += len(text)
        if not found or len(found[-1]) >= most or size > _MOST_CHARACTERS:
            found.append([])
            size = len(text)
        found[-1].append(text)
    return [tuple(chunk) for chunk in found]


def correct_chunk(
    session: Session, plan: Plan, texts: Sequence[str], verdicts: Verdicts
) -> Flow[list[Result]]:
    """One result for each text, whatever happens; halves the request where that may help."""
    return (yield from _halving(session, plan, texts, verdicts, halvings=1))


def _halving(
    session: Session, plan: Plan, texts: Sequence[str], verdicts: Verdicts, *, halvings: int
) -> Flow[list[Result]]:
    """halvings: how often lateness and faults may be looked into; refusals always are."""
    if verdicts.for_all is not None:
        return [verdicts.for_all] * len(texts)
    try:
        return (yield from _request(session, plan, texts))
    except errors.ClientError as exc:
        if isinstance(exc, _FOR_ALL):
            verdicts.for_all = exc
        is_refused = isinstance(exc, errors.BadRequest)
        is_suspect = isinstance(exc, errors.DeadlineExceeded | errors.ServerFault) and halvings > 0
        if len(texts) == 1 or not (is_refused or is_suspect):
            return [exc] * len(texts)
        left = halvings if is_refused else halvings - 1
    middle = len(texts) // 2
    found = yield from _halving(session, plan, texts[:middle], verdicts, halvings=left)
    found += yield from _halving(session, plan, texts[middle:], verdicts, halvings=left)
    return found


def _request(session: Session, plan: Plan, texts: Sequence[str]) -> Flow[list[Result]]:
    own = session.config.policy
    call = Call(
        method="POST",
        path="/v1/corrections",
        body={"texts": list(texts), **plan.options.fields()},
        until_s=session.until_s(plan.wish),
        version=plan.wish.version,
        policy=dataclasses.replace(own, retries=max(own.retries, _RETRIES) if own.retries else 0),
    )
    done = yield from Exchange(session, call).run()

    def read(data: object) -> list[Result]:
        return list(types.corrections(data, around(session, done), len(texts)))

    return parsed(done, read)


def run(
    session: Session,
    plan: Plan,
    drive: Callable[[Flow[list[Result]]], Coroutine[Any, Any, list[Result]]],
) -> AsyncGenerator[Advance, None]:
    """The batch on an event loop; `drive` makes the calls."""
    verdicts = Verdicts()

    def work(texts: tuple[str, ...]) -> Coroutine[Any, Any, list[Result]]:
        return drive(correct_chunk(session, plan, texts, verdicts))

    return in_order(chunks(plan.texts, plan.texts_per_request), work, plan.concurrency)


async def in_order(
    parts: Sequence[tuple[str, ...]],
    work: Callable[[tuple[str, ...]], Awaitable[list[Result]]],
    concurrency: int,
) -> AsyncGenerator[Advance, None]:
    """Works on the parts, some at a time; tells of each that is over. Closing it cancels the rest.

    A part that takes long holds results back, not work, up to a bound that limits memory.
    """
    running: dict[asyncio.Task[list[Result]], int] = {}
    over: dict[int, list[Result]] = {}
    begun = given = done = 0
    try:
        while given < len(parts):
            while (
                begun < min(len(parts), given + _WINDOW * concurrency)
                and len(running) < concurrency
            ):
                running[asyncio.ensure_future(work(parts[begun]))] = begun
                begun += 1
            ended, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                position = running.pop(task)
                over[position] = task.result()
                done += len(parts[position])
            results: list[Result] = []
            while given in over:
                results += over.pop(given)
                given += 1
            yield Advance(done=done, results=results)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
