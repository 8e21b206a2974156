"""Requests as bytes on a socket, for callers that no client library would be."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable

HANG_S = 10.0
BODY = b'{"text": "He go."}'
CHUNKED = b"POST /v1/corrections HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
WHOLE = b"%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)


def dial(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=HANG_S)


def head(length: int, *more: bytes, path: bytes = b"/v1/corrections") -> bytes:
    lines = [b"POST " + path + b" HTTP/1.1", b"host: a", b"content-length: %d" % length, *more]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def answer(sock: socket.socket) -> tuple[int, bytes]:
    """The status and all that comes until nothing more does."""
    received = b""
    while b"\r\n\r\n" not in received or b"}" not in received.partition(b"\r\n\r\n")[2]:
        piece = sock.recv(65_536)
        if not piece:
            break
        received += piece
    return int(received.split(b" ", 2)[1]), received


def wait_until(true: Callable[[], bool]) -> None:
    ends_s = time.monotonic() + HANG_S / 2
    while not true():
        assert time.monotonic() < ends_s
        time.sleep(0.01)


def hung_up(sock: socket.socket) -> bytes:
    """All that comes until the server closes."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65_536):
            received += piece
    return received


def code(received: bytes) -> str:
    """The error code of an answer."""
    found: str = json.loads(received.partition(b"\r\n\r\n")[2])["error"]["code"]
    return found
