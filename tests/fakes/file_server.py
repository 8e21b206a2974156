"""A small HTTP server for files, which answers well, badly, slowly or not to the end."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Behavior:
    """How one request is answered; the defaults answer well."""

    status: int = 200
    retry_after: str | None = None
    break_after: int | None = None
    """Bytes of the body after which the connection ends."""
    ignore_range: bool = False
    wrong_start: bool = False
    pause_s: float = 0.0
    """Silence before the body."""


@dataclass(slots=True, kw_only=True)
class FileServer:
    """Files by path. `script` holds how the next requests are answered, the first first."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    script: list[Behavior] = field(default_factory=list)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """Path and Range header of each request."""


@contextlib.contextmanager
def serving() -> Iterator[FileServer]:
    """A server on a free port of this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    served = FileServer(url=f"http://127.0.0.1:{server.server_address[1]}")
    server.served = served  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        served: FileServer = self.server.served  # type: ignore[attr-defined]
        asked = self.headers.get("Range")
        served.asked.append((self.path, asked))
        how = served.script.pop(0) if served.script else Behavior()
        data = served.files.get(self.path)
        if data is None or how.status != 200:
            self._answer(404 if data is None else how.status, b"", how)
            return
        start = int(asked[6:-1]) if asked and not how.ignore_range else 0
        if start and start >= len(data):
            self._answer(416, b"", how)
            return
        shown = start + 1 if how.wrong_start else start
        content_range = f"bytes {shown}-{len(data) - 1}/{len(data)}" if start else None
        self._answer(206 if start else 200, data[start:], how, content_range)

    def _answer(
        self, status: int, body: bytes, how: Behavior, content_range: str | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if content_range:
            self.send_header("Content-Range", content_range)
        if how.retry_after:
            self.send_header("Retry-After", how.retry_after)
        self.end_headers()
        time.sleep(how.pause_s)
        with contextlib.suppress(OSError):  # the client may have left
            self.wfile.write(body if how.break_after is None else body[: how.break_after])
        if how.break_after is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""
