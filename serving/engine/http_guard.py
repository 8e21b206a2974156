"""uvicorn's HTTP protocol with an end to every request's head and body.

The one idea: what the app's deadline cannot reach is bounded here. The app is called only once the
headers are complete, so headers that dribble or never end, a connection that sends nothing, and a
body that goes on after its refusal would hold a socket and memory for as long as the caller likes.
An answer that its caller does not take would hold the same, and what the engine does for it.
What comes after a chunked body, its trailers, is dropped: uvicorn would take it for headers.
A connection has one request at a time: one sent before the last was answered is not begun, and the
connection closes after that answer. HTTP lets a server do so, and hardly a client sends that way; a
queue would grow without bound, or hide that its caller has left.
A request that came in one piece, as nearly all do, costs two comparisons and no timer.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from http import HTTPStatus
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from serving.engine.errors_http import ApiError, invalid
from serving.engine.exchange import JSON_TYPE

_log = logging.getLogger(__name__)

MOST_HEAD_BYTES = 64 * 1024
"""In pieces that hold no body: request line, headers, extensions of chunks, trailers. Envoy's own
limit of a head is 60 KiB."""
HEAD_S = 10.0
"""From the first byte of a request to the end of its headers; as the edge's own."""
BODY_S = 75.0
"""From there to the end of the body; above the longest deadline, by which the app has answered."""
TAKEN_S = 75.0
"""For a caller to take the 64 KiB that wait to be sent, before it is sent more."""
_NO_LINGER = struct.pack("ii", 1, 0)
"""The kernel lets go of what it was to send too, some megabytes, and tells the caller."""


class _TooEarly(Exception):
    """A request was sent before the last was answered."""


class GuardedHttp(HttpToolsProtocol):  # type: ignore[misc]  # uvicorn's types are not followed
    """One connection. Give as `http=` to `uvicorn.Config`; subclass to set other bounds."""

    most_head_bytes = MOST_HEAD_BYTES
    head_s = HEAD_S
    body_s = BODY_S
    taken_s = TAKEN_S
    parser: httptools.HttpRequestParser

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = False
        self._in_message = False
        self._had_body = False
        self._too_early = False
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection that has sent nothing yet is as idle as one between two requests."""
        super().connection_made(transport)
        self._arm(float(self.timeout_keep_alive))

    def connection_lost(self, exc: Exception | None) -> None:
        """The end, whoever wanted it."""
        self._disarm()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The caller takes less than it is sent."""
        super().pause_writing()
        self._must_be_taken()

    def resume_writing(self) -> None:
        """The caller took nearly all of it."""
        super().resume_writing()
        if not self.transport.is_closing():
            self._taken()

    def on_response_complete(self) -> None:
        """An answer was handed over; a connection that closes waits for it to be taken."""
        super().on_response_complete()
        if self.transport.is_closing():
            self._must_be_taken()

    def data_received(self, data: bytes) -> None:
        """Feeds the parser, then looks at what is still open."""
        if self._too_early:
            return
        was_in_head, was_in_message = self._in_head, self._in_message
        self._had_body = False
        self._feed(data)
        if not self._in_message or self.transport.is_closing():
            return
        self._head_bytes = 0 if self._had_body else self._head_bytes + len(data)
        if self._head_bytes > self.most_head_bytes:
            self._refuse(_too_large(self.most_head_bytes))
        elif self._in_head and not was_in_head:
            self._arm(self.head_s)
        elif not self._in_head and (was_in_head or not was_in_message):
            self._arm(self.body_s)

    def on_message_begin(self) -> None:
        """The parser saw the first byte of a request; raises to stop it."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._too_early = True
            self.cycle.keep_alive = False
            raise _TooEarly
        self._unset_keepalive_if_required()
        self._in_head = self._in_message = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser saw a header, or a trailer; it leaves white space after a value."""
        if self._in_head:
            super().on_header(name, value.rstrip(b" \t"))

    def on_body(self, body: bytes) -> None:
        """The parser saw a part of a body."""
        self._had_body = True
        super().on_body(body)

    def on_headers_complete(self) -> None:
        """The parser saw the last header; a wish for another protocol is declined."""
        if self._upgrades():
            return
        super().on_headers_complete()
        self._in_head = False

    def on_message_complete(self) -> None:
        """The parser saw the last byte of a body."""
        if self._upgrades():
            return
        self._in_message = False
        self._disarm()
        super().on_message_complete()

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as exc:
            plain = self._plain_head()
            self.parser = httptools.HttpRequestParser(self)  # the old one may think it is closed
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
            self._feed(plain + data[exc.args[0] :])
        except httptools.HttpParserError as exc:
            if not self._too_early:
                self._refuse(invalid(None, f"this is no HTTP/1.1 request: {exc}", "bad_http"))

    def _upgrades(self) -> bool:
        """Whether the head that was parsed asks for another protocol."""
        return bool(self.parser.should_upgrade()) and self.parser.get_method() != b"CONNECT"

    def _plain_head(self) -> bytes:
        """The head once more, less its wish, for which the parser would not read the body."""
        line = b"%b %b HTTP/%b" % (
            self.parser.get_method(), self.url, self.parser.get_http_version().encode()
        )  # fmt: skip
        kept = [b"%b: %b" % each for each in self.headers if each[0] != b"upgrade"]
        return b"\r\n".join([line, *kept, b"", b""])

    def _refuse(self, error: ApiError) -> None:
        """Answers, unless the answer has begun, and hangs up."""
        if self._in_head or not self.cycle.response_started:
            body = error.body()
            head = (
                f"HTTP/1.1 {error.status.value} {error.status.phrase}\r\nconnection: close\r\n"
                f"content-type: {JSON_TYPE}\r\ncontent-length: {len(body)}\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self._hang_up()

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self.loop.call_later(seconds, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _must_be_taken(self) -> None:
        if self._untaken is None:
            self._untaken = self.loop.call_later(self.taken_s, self._give_up)

    def _taken(self) -> None:
        if self._untaken is not None:
            self._untaken.cancel()
            self._untaken = None

    def _give_up(self) -> None:
        _log.info("hung up on a caller who does not take its answer")
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self.transport.abort()

    def _late(self) -> None:
        part = "headers" if self._in_head else "body" if self._in_message else "first byte"
        _log.info("hung up on a caller whose %s did not come to an end", part)
        self._hang_up()

    def _hang_up(self) -> None:
        self._disarm()
        if not self.transport.is_closing():
            self.transport.close()


def _too_large(limit_bytes: int) -> ApiError:
    return ApiError(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        "head_too_large",
        f"what surrounds the body is over {limit_bytes} bytes; send fewer or shorter headers",
    )
