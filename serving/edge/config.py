"""The edge's settings: what it listens on, how long it waits, how much it takes.

Defaults are for a fleet of about 170 replicas at 1,200 requests/s behind 8 to 12 edges, and work
on a laptop. Slow start and unequal endpoint weights are left out on purpose: they make Envoy's
least-request leave the choice between two.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

_LEAST_HEAP_MIB = 32
_MAX_PORT = 65_535
_MAX_RATE_RPS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """When the edge may send a request to a second replica.

    Only while no replica can have begun it: the connection failed, HTTP/2 refused the stream, or
    the connection broke before the request was written. The SDK retries the rest where it may.
    """

    retries: int = 2
    """Second and third replica; more would only spread an outage."""
    budget_percent: float = 50.0
    """Retries at most this share of the requests in flight. High, because a dead replica looks
    idle: for a moment it attracts most requests, and none of them has cost a replica anything."""
    budget_floor: int = 256
    """Retries at once that are allowed however few requests are in flight."""
    backoff_ms: int = 5
    """Base of the jittered pause before a retry; short, since another replica is chosen."""

    def __post_init__(self) -> None:
        _require(0 <= self.retries <= 5, "retries", self.retries, "0 to 5")
        _require(0 < self.budget_percent <= 100, "budget_percent", self.budget_percent, "0 to 100")
        _require(self.budget_floor >= 1, "budget_floor", self.budget_floor, "at least 1")
        _require(self.backoff_ms >= 1, "backoff_ms", self.backoff_ms, "at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class EjectionSettings:
    """When a failing replica is left out for a while. Least-request needs this: a replica that
    fails fast looks idle and attracts requests."""

    failures: int = 5
    """Answers of 5xx, or failures to connect, in a row."""
    base_s: float = 5.0
    """First ejection; the n-th lasts n times as long."""
    max_s: float = 60.0
    """Longest ejection."""
    max_percent: int = 20
    """Share of a version's replicas ejected at most (one is always allowed): beyond it the fault
    is not the replicas'."""

    def __post_init__(self) -> None:
        _require(self.failures >= 1, "failures", self.failures, "at least 1")
        _require(0 < self.base_s <= self.max_s, "base_s", self.base_s, f"0 to {self.max_s}")
        _require(0 <= self.max_percent <= 100, "max_percent", self.max_percent, "0 to 100")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySettings:
    """Whether callers must show an API key."""

    required: bool = False
    """Off, since nobody else reaches a laptop's loopback address; on for everything else."""
    folder: Path | None = None
    """Where keys.json and jwks.json are; None is the folder `keys` of the home."""
    cached: int = 10_000
    """Keys that each Envoy thread remembers as verified, which saves a signature check of about
    0.1 ms a request."""

    def __post_init__(self) -> None:
        _require(self.cached >= 1, "keys.cached", self.cached, "at least 1")
        if self.folder is not None:
            _require(self.folder.is_absolute(), "keys.folder", self.folder, "an absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """The listener's certificate. Replacing either file by a rename is taken without a restart."""

    certificate: Path
    """PEM: the edge's certificate, then those between it and a root."""
    key: Path
    """PEM, without a pass phrase."""

    def __post_init__(self) -> None:
        for name in ("certificate", "key"):
            path = getattr(self, name)
            _require(path.is_absolute(), f"tls.{name}", path, "an absolute path")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuota:
    """How much of one model all callers together may ask for."""

    model: str
    """As in the traffic plan."""
    rate_rps: int
    """Requests a second, all edges together; more get 429."""

    def __post_init__(self) -> None:
        bounds = f"1 to {_MAX_RATE_RPS}"
        _require(bool(self.model), "quotas.model", repr(self.model), "a model's name")
        _require(1 <= self.rate_rps <= _MAX_RATE_RPS, "quotas.rate_rps", self.rate_rps, bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeSettings:
    """One edge: what it listens on, how long it waits, how much it takes."""

    listen_host: str = "127.0.0.1"
    """IP address to listen on; the laptop's default is not reachable from outside."""
    port: int = 8000
    """Port the callers use."""
    admin_port: int = 0
    """Port of Envoy's admin interface, always on 127.0.0.1; 0 lets the system choose."""
    workers: int = 2
    """Envoy threads; one takes about 7,000 small requests/s per core."""
    request_s: float = 60.0
    """Longest request, from the last byte in to the last byte out; the deadline header is for
    shorter ones."""
    headers_s: float = 5.0
    """Longest time for a caller to send the headers, and before them for the handshake of TLS; ends
    slow-loris connections."""
    body_s: float = 15.0
    """Longest time for a caller to send the whole request."""
    idle_s: float = 300.0
    """A caller's connection without a request is closed after this."""
    connect_s: float = 1.0
    """Longest time to connect to a replica; within one network a millisecond is usual."""
    replica_idle_s: float = 4.0
    """An idle connection to a replica is closed after this: before the replica does (uvicorn: 5 s),
    since a request written to a closing connection fails and cannot be retried safely."""
    max_body_bytes: int = 1024 * 1024
    """Larger requests get 413. Bodies are buffered up to it, so a replica sees whole requests."""
    max_headers_kib: int = 32
    """Larger headers get 431."""
    max_connections: int = 20_000
    """Callers' connections; above it new ones are closed."""
    max_heap_mib: int = 2_048
    """Memory that Envoy may take; near it new requests are refused (503), so that bodies which
    callers send at leisure fill no machine. Leave room to what the process may have in all."""
    max_inflight: int = 100_000
    """Requests in flight per version: high, since admission is the replicas' business."""
    max_mirrored: int = 256
    """Copies in flight per mirrored version; while there are as many, no more are made."""
    drain_s: float = 5.0
    """Time for requests in flight when the edge stops."""
    access_log: float = 0.0
    """Share of requests, 0 to 1, with a line of JSON in access.log; costs CPU and disk."""
    edges: int = 1
    """How many edges share the load. Each enforces this part of every rate, since they share no
    counts."""
    keys: KeySettings = field(default_factory=KeySettings)
    """Who may ask."""
    tls: TlsSettings | None = None
    """None is plain HTTP, for loopback or behind something that ends TLS."""
    quotas: tuple[ModelQuota, ...] = ()
    """Models with a limit; the others have none."""
    retry: RetrySettings = field(default_factory=RetrySettings)
    """When a second replica may be tried."""
    ejection: EjectionSettings = field(default_factory=EjectionSettings)
    """When a replica is left out."""

    def __post_init__(self) -> None:
        ipaddress.ip_address(self.listen_host)
        _require(0 < self.port <= _MAX_PORT, "port", self.port, f"1 to {_MAX_PORT}")
        _require(0 <= self.admin_port <= _MAX_PORT, "admin_port", self.admin_port, "0 to 65535")
        _require(self.admin_port != self.port, "admin_port", self.admin_port, "not the port")
        for name in ("request_s", "headers_s", "body_s", "idle_s", "connect_s", "replica_idle_s"):
            _require(getattr(self, name) > 0, name, getattr(self, name), "above 0")
        for name in ("workers", "max_body_bytes", "max_headers_kib", "max_connections"):
            _require(getattr(self, name) >= 1, name, getattr(self, name), "at least 1")
        least = f"at least {_LEAST_HEAP_MIB}"
        _require(self.max_heap_mib >= _LEAST_HEAP_MIB, "max_heap_mib", self.max_heap_mib, least)
        _require(self.max_inflight >= 1, "max_inflight", self.max_inflight, "at least 1")
        _require(self.max_mirrored >= 1, "max_mirrored", self.max_mirrored, "at least 1")
        _require(self.drain_s >= 0, "drain_s", self.drain_s, "at least 0")
        _require(0 <= self.access_log <= 1, "access_log", self.access_log, "a share, 0 to 1")
        _require(1 <= self.edges <= 1_000, "edges", self.edges, "1 to 1000")
        named = [quota.model for quota in self.quotas]
        _require(len(set(named)) == len(named), "quotas", named, "one per model")

    @property
    def longest_s(self) -> float:
        """Longest time from the first byte in to the last byte out, whatever a caller asks for."""
        return self.body_s + self.request_s


def _require(holds: bool, name: str, value: object, bound: str) -> None:
    if not holds:
        raise ValueError(f"{name} must be {bound}, found {value}")
