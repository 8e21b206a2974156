"""An HTTP proxy in front of a real MLflow that loses requests or answers, request by request."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

Plan = Callable[[int, str, str], str | int]


class Proxy:
    """`plan` gets each request's number, method and path and says one of:

    fine, away (the connection is closed, nothing is forwarded), lost (forwarded, then closed), or
    a status that is answered instead of forwarding.
    """

    def __init__(self, upstream: str) -> None:
        self.upstream = urlsplit(upstream)
        self.requests: list[tuple[str, str]] = []
        self.plan: Plan = lambda number, method, path: "fine"
        self.body = b"<html>not MLflow</html>"
        self._lock = threading.Lock()

    def from_now(self, plan: Plan) -> None:
        """Sets the plan, counting requests from 0."""
        first = len(self.requests)
        self.plan = lambda number, method, path: plan(number - first, method, path)

    def decide(self, method: str, path: str) -> str | int:
        with self._lock:
            number = len(self.requests)
            self.requests.append((method, path))
            return self.plan(number, method, path)


@contextlib.contextmanager
def proxied(upstream: str) -> Iterator[tuple[str, Proxy]]:
    """The proxy's address, and the proxy."""
    proxy = Proxy(upstream)

    class Handler(_Handler):
        pass

    Handler.proxy = proxy
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), name="proxy")
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", proxy
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(http.server.BaseHTTPRequestHandler):
    proxy: Proxy

    def log_message(self, *args: object) -> None:
        """Quiet."""

    def _through(self) -> None:
        decided = self.proxy.decide(self.command, self.path)
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        self.close_connection = True
        if decided == "away":
            self._cut()
            return
        if isinstance(decided, int):
            self._answer(decided, self.proxy.body, "text/html")
            return
        status, content, kind = self._forward(body)
        if decided == "lost":
            self._cut()
        else:
            assert decided == "fine", decided
            self._answer(status, content, kind)

    def _cut(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _forward(self, body: bytes) -> tuple[int, bytes, str]:
        up = self.proxy.upstream
        connection = http.client.HTTPConnection(str(up.hostname), up.port, timeout=60)
        try:
            skipped = ("host", "connection", "content-length")
            headers = {k: v for k, v in self.headers.items() if k.lower() not in skipped}
            connection.request(self.command, self.path, body=body, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.read(), answer.getheader("Content-Type") or ""
        finally:
            connection.close()

    def _answer(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _through
