"""The end of an attempt, held at every wait for a socket of a client that waits.

httpx bounds each wait and not their sum, so that whoever sends a byte now and then is waited for
without end. Its clients have no public way to bound the sum: the network backend below, in the
place of the one in httpcore's pool, does. Looking a name up is the one wait that is not bounded,
since the system's resolver cannot be interrupted.
"""

from __future__ import annotations

import contextlib
import contextvars
import math
import os
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from typing import Any

import httpcore
import httpx

_SLICE_BYTES = 4096
"""Sent at once: what a socket that can be written to takes as a whole."""

_until_s = contextvars.ContextVar("until_s", default=math.inf)


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """What is sent and read in the block, by this thread, ends after that time as timed out."""
    token = _until_s.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _until_s.reset(token)


def hold(client: httpx.Client) -> None:
    """Has a client, which made no connection yet, keep to `within`."""
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            transport._pool._network_backend = _Backend()


def _left_s(timeout_s: float | None, late: type[httpcore.TimeoutException]) -> float:
    left_s = _until_s.get() - time.monotonic()
    if left_s <= 0:
        raise late("it took longer than it may in all")
    return min(left_s, math.inf if timeout_s is None else timeout_s)


class _Stream(httpcore.NetworkStream):
    """A connection, each wait of which ends with the attempt."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream
        self._pid = os.getpid()

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left_s(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for start in range(0, len(buffer), _SLICE_BYTES):
            left_s = _left_s(timeout, httpcore.WriteTimeout)
            self._stream.write(buffer[start : start + _SLICE_BYTES], left_s)

    def close(self) -> None:
        """Closes it, and wakes a thread that waits for it, which closing alone does not."""
        if self._pid == os.getpid():  # one shut down by a forked process would end its parent's
            with contextlib.suppress(OSError):
                # Not a TLS socket's own way: it first becomes a plain one, on which another thread
                # that is sending would send its API key in clear.
                socket.socket.shutdown(self.get_extra_info("socket"), socket.SHUT_RDWR)
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left_s = _left_s(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left_s))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Tries the addresses of a name in turn, each for its share of the time there is."""
        failed: Exception = httpcore.ConnectError(f"{host} has no address")
        addresses = _resolved(host, port)
        for done, address in enumerate(addresses):
            left_s = _left_s(timeout, httpcore.ConnectTimeout) / (len(addresses) - done)
            try:
                connected = super().connect_tcp(
                    address, port, left_s, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as exc:
                failed = exc
            else:
                return _Stream(connected)
        raise failed


def _resolved(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as exc:
        raise httpcore.ConnectError(str(exc)) from exc
    return [str(address[0]) for *_, address in found]
