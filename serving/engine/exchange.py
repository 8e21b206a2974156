"""One HTTP exchange over ASGI: a whole body in, one answer or one stream out.

The one idea: body limit, identity headers, disconnects and failures after the first byte are
handled here once, so a handler is a plain coroutine from `Call` to `Answer` that may raise
`ApiError`. There is no framework between: on small requests it would cost more than the handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    MutableMapping,
)
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from serving.engine import orca, trace
from serving.engine.errors_http import ApiError, invalid

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = tuple[tuple[str, str], ...]

JSON_TYPE = "application/json"
EVENT_STREAM_TYPE = "text/event-stream"
_MOST_DIGITS = 18
"""Of a content length; Python refuses to read numbers of thousands of digits."""
_PLAIN = ("", "identity", "chunked")
"""Codings that leave a body as it is."""
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")


class CallerLeft(Exception):
    """The caller closed the connection before the answer was complete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request as a handler sees it."""

    request_id: str
    body: bytes
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case; what came several times is joined by commas."""

    def json_object(self) -> dict[str, Any]:
        """The body as a JSON object.

        Raises:
            ApiError: 400, not UTF-8, not JSON or not an object.
        """
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError as exc:
            raise invalid(None, f"the body is not valid JSON in UTF-8: {exc}", "bad_json") from exc
        if not isinstance(value, dict):
            raise invalid(
                None, f"the body must be a JSON object, found {json_type(value)}", "bad_json"
            )
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A handler's answer: `body`, or `stream` where that is given."""

    body: bytes = b""
    stream: AsyncGenerator[bytes, None] | None = None
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = JSON_TYPE
    headers: Headers = ()

    @classmethod
    def json(cls, value: object, *, status: HTTPStatus = HTTPStatus.OK) -> Answer:
        """A JSON answer."""
        return cls(body=orjson.dumps(value), status=status)


def json_type(value: object) -> str:
    """How JSON calls the type of a decoded value."""
    names = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return names.get(type(value), "null" if value is None else "a number")


class Exchange:
    """One request and its answer; remembers how far the answer went."""

    def __init__(
        self,
        scope: Message,
        receive: Receive,
        send: Send,
        fixed: Headers,
        in_flight: Callable[[], int],
    ) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        received = [
            (name.decode("latin-1").lower(), value.decode("latin-1"))
            for name, value in scope["headers"]
        ]
        self.headers = _joined(received)
        self.request_id = _request_id(self.headers.get("x-request-id"))
        self.trace = trace.read(received) if trace.PARENT in self.headers else None
        self.status = 0
        passed_on = self.trace.headers() if self.trace else ()
        self._fixed = (*fixed, ("x-request-id", self.request_id), *passed_on)
        self._in_flight = in_flight
        self._counted = 0
        self._receive = receive
        self._send = send
        self._streaming = False
        self._complete = False
        self._left = False

    @property
    def tag(self) -> str:
        """What a log line about this request ends with, so that it can be found."""
        found = f"request_id={self.request_id}"
        return f"{found} trace_id={self.trace.trace_id}" if self.trace else found

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """While the block runs this very request is among those in flight."""
        self._counted = 1
        try:
            yield
        finally:
            self._counted = 0

    def call(self, body: bytes) -> Call:
        """The request as a handler sees it."""
        return Call(request_id=self.request_id, body=body, path=self.path, headers=self.headers)

    async def body(self, limit_bytes: int) -> bytes:
        """The whole request body.

        Raises:
            ApiError: 413, it is longer than the limit; 415, it is compressed.
            CallerLeft: the connection closed before its end.
        """
        for name in ("content-encoding", "transfer-encoding"):
            if (given := self.headers.get(name, "")).lower() not in _PLAIN:
                raise _compressed(name, given)
        declared = self.headers.get("content-length", "0")
        if declared.isdecimal() and (len(declared) > _MOST_DIGITS or int(declared) > limit_bytes):
            raise _too_large(limit_bytes)
        chunks: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise CallerLeft
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            if size > limit_bytes:
                raise _too_large(limit_bytes)
            if not message.get("more_body", False):
                return b"".join(chunks)

    async def unless_caller_leaves(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` to its end; cancels it when the caller leaves. Call after `body`.

        Raises:
            CallerLeft: the caller left first.
        """
        task = asyncio.current_task()
        assert task is not None, "an exchange is answered by a task"
        others = task.cancelling()
        watch = asyncio.ensure_future(self._watch(task))
        try:
            await work
        except asyncio.CancelledError:
            if self._left and task.uncancel() <= others:
                raise CallerLeft from None
            raise
        finally:
            watch.cancel()

    async def _watch(self, task: asyncio.Task[Any]) -> None:
        await self._receive()  # after the body nothing but a disconnect can come
        if not self._complete:
            self._left = True
            task.cancel()

    async def answer(self, answer: Answer) -> None:
        """Sends an answer. A stream starts with its first piece, so an early error has a status."""
        if answer.stream is None:
            await self._start(answer.status, answer.content_type, answer.headers, len(answer.body))
            await self._body(answer.body, more=False)
            return
        async with contextlib.aclosing(answer.stream) as stream:
            piece = await anext(stream, b"")
            self._streaming = True
            extra = (*answer.headers, ("cache-control", "no-cache"))
            await self._start(answer.status, answer.content_type, extra)
            await self._body(piece, more=True)
            async for piece in stream:
                await self._body(piece, more=True)
            await self._body(b"", more=False)

    async def refuse(self, error: ApiError) -> None:
        """Sends an error; inside a stream as its last event, since the status is long gone."""
        body = error.body()
        if self._streaming:
            await self._body(b"data: " + body + b"\n\n", more=False)
        elif not self.status:
            await self._start(error.status, JSON_TYPE, error.headers, len(body))
            await self._body(body, more=False)

    async def _start(
        self, status: HTTPStatus, content_type: str, extra: Headers, length: int | None = None
    ) -> None:
        self.status = int(status)
        load = (orca.HEADER, orca.text(self._in_flight() - self._counted))
        headers = [*self._fixed, load, ("content-type", content_type), *extra]
        if length is not None:
            headers.append(("content-length", str(length)))
        await self._send(
            {
                "type": "http.response.start",
                "status": self.status,
                "headers": [(n.encode("latin-1"), v.encode("latin-1")) for n, v in headers],
            }
        )

    async def _body(self, body: bytes, *, more: bool) -> None:
        self._complete = not more
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def _joined(received: list[tuple[str, str]]) -> dict[str, str]:
    """By name. One that came several times is a list (RFC 9110, 5.3): taken for no single value,
    as the last of two deadlines would be."""
    found: dict[str, list[str]] = {}
    for name, value in received:
        found.setdefault(name, []).append(value)
    return {name: ", ".join(values) for name, values in found.items()}


def _request_id(given: str | None) -> str:
    """The caller's id where it is safe to echo, else a new one."""
    return given if given is not None and _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex


def _compressed(name: str, given: str) -> ApiError:
    return ApiError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        f"bodies are read as they come; send this one without {name} {given[:40]!r}",
        param=name,
    )


def _too_large(limit_bytes: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        "body_too_large",
        f"the body is over {limit_bytes} bytes; send the text in parts",
    )
