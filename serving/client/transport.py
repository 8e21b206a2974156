"""What both drivers share of httpx: how its clients are made, and its answers as ours.

HTTP/2 is offered over https, by ALPN, where the `h2` package is installed (`pip install h2`). What
may be left early never uses it: httpcore sends no RST_STREAM, so over HTTP/2 a server would go on
with work that nobody waits for, where over HTTP/1.1 the closed connection tells it. Nor does a
body of more than one frame: when a refusal comes before all of it is sent, httpcore waits for room
that is not given, or fails because it may not go on. Nor does a thread that waits: threads would
wait for each other's limits, and the first that ends would break them all.
"""

from __future__ import annotations

import functools
import importlib.util
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from http import cookiejar
from typing import Any

import httpx

from serving.client import retry
from serving.client.steps import Send

CLOSED = "this client was closed while a call was on its way"
_CONNECT_S = 5.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_MOST_HTTP2_BYTES = 16_384
"""What every HTTP/2 server takes in one frame (RFC 9113, 6.5.2)."""
_LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=5.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wiring:
    """How to connect to these addresses."""

    addresses: Sequence[str]
    tls: ssl.SSLContext | None
    grows: bool = False
    """Whether others may come, of which nothing is known yet."""

    @property
    def offers_http2(self) -> bool:
        """Whether there is something to offer: ALPN is a part of TLS."""
        return self._secure and importlib.util.find_spec("h2") is not None

    def settings(self, *, http2: bool) -> dict[str, Any]:
        """Arguments for httpx's clients, sync and async."""
        hosts = {httpx.URL(address).host for address in self.addresses}
        # A proxy from the environment cannot reach this machine's own loopback.
        near = {host for host in hosts if host in _LOOPBACK} if not self.grows else {*_LOOPBACK}
        mounts = {f"all://{f'[{host}]' if ':' in host else host}": None for host in near}
        return {
            "http1": True,
            "http2": http2,
            "limits": _LIMITS,
            "trust_env": self.grows or hosts != near,
            "mounts": mounts,
            # None are kept: by the rules for them they would be sent to every port of a host.
            "cookies": cookiejar.CookieJar(cookiejar.DefaultCookiePolicy(allowed_domains=())),
            # Nothing is loaded for plain HTTP alone (no redirect is followed).
            "verify": (self.tls or _certificates(http2)) if self._secure else False,
        }

    @property
    def _secure(self) -> bool:
        return self.grows or any(is_secure(address) for address in self.addresses)


def is_secure(address: str) -> bool:
    """Whether it is asked over TLS, however that is written."""
    return httpx.URL(address).scheme == "https"


@functools.cache
def _certificates(http2: bool) -> ssl.SSLContext:
    """Those of SSL_CERT_FILE, SSL_CERT_DIR or certifi, wherever an address is.

    Loading them takes 40 ms, which the first client of a program has to spare and a later call has
    not; one context for each protocol, since httpcore sets what it offers there.
    """
    del http2
    return httpx.create_ssl_context()


def suits_http2(step: Send) -> bool:
    """Whether it is not left early, and its answer, or a refusal, certain to be read."""
    return not step.opens and len(step.content) <= _MOST_HTTP2_BYTES


def request(http: httpx.Client | httpx.AsyncClient, step: Send) -> httpx.Request:
    """What a client of httpx's sends for one attempt."""
    return http.build_request(
        step.method,
        step.address + step.path,
        headers=dict(step.headers),
        content=step.content,
        timeout=timeout(step),
    )


def timeout(step: Send) -> httpx.Timeout:
    """httpx's limits for one attempt; they bound each wait, not their sum."""
    return httpx.Timeout(step.timeout_s, connect=min(_CONNECT_S, step.timeout_s))


def reply(response: httpx.Response, body: bytes) -> retry.Reply:
    """An answer, complete."""
    return retry.Reply(status=response.status_code, headers=headers(response), body=body)


def check_stream(response: httpx.Response) -> None:
    """Raises httpx.DecodingError where a good answer is no stream of events."""
    kind = response.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "text/event-stream":
        raise httpx.DecodingError(f"its content type is {kind!r:.80} and not text/event-stream")


def headers(response: httpx.Response) -> dict[str, str]:
    """By lower-case name; repeated ones are joined."""
    return {name.lower(): value for name, value in response.headers.items()}


def failure(exc: httpx.RequestError) -> retry.Failure:
    """httpx tells apart what matters here: whether a request can have left, and was answered."""
    match exc:
        case httpx.ConnectError() | httpx.ConnectTimeout():
            kind = retry.FailureKind.NOT_SENT
        case httpx.TimeoutException():
            kind = retry.FailureKind.TIMEOUT
        case httpx.DecodingError():
            kind = retry.FailureKind.UNREADABLE
        case _:
            kind = retry.FailureKind.BROKEN
    return retry.Failure(kind=kind, reason=f"{type(exc).__name__}: {exc}".rstrip(": "))


def too_slow(step: Send) -> retry.Failure:
    """An attempt that went on for longer than it may."""
    reason = f"more than {step.timeout_s:.3g} s"
    return retry.Failure(kind=retry.FailureKind.TIMEOUT, reason=reason)


def no_event() -> retry.Failure:
    """A stream that ended before it began."""
    return retry.Failure(
        kind=retry.FailureKind.BROKEN, reason="the stream ended before its first event"
    )
