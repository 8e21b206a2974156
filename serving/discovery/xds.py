"""The gRPC server that tells Envoys what to do: one stream each, any number of Envoys.

Thin: serving.discovery.stream decides what is sent, this module moves the bytes. Of the protocol's
services it has one, delta ADS; gRPC answers UNIMPLEMENTED for the others. A client that breaks the
protocol is told so by a gRPC status, and only its own stream ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from registry.wording import one_line
from serving.discovery import errors, protos
from serving.discovery.catalog import Catalog, Kind
from serving.discovery.metrics import Metrics
from serving.discovery.stream import Stream
from serving.discovery.subscription import Request, Response

_log = logging.getLogger(__name__)

SERVICE = "envoy.service.discovery.v3.AggregatedDiscoveryService"
METHOD = "DeltaAggregatedResources"
_MOST_ID_CHARACTERS = 256
_MOST_NODE_BYTES = 16_384
"""Of what an Envoy says of itself beside its id, which is kept and told to whoever asks."""
_MOST_REASON_CHARACTERS = 1_000
_OPTIONS = (
    # Two servers on one port would share the Envoys between them.
    ("grpc.so_reuseport", 0),
    # An Envoy whose machine is gone says no goodbye and must not hold up draining replicas.
    ("grpc.keepalive_time_ms", 5_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    # Envoy asks every 5 s whether we live, with or without a stream; gRPC would cut it off at the
    # fourth time. Of a name here that it does not know gRPC says nothing.
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """One connected Envoy, as it is known here."""

    edge_id: str
    url: str
    """Where callers reach it; empty when it does not say."""
    zone: str
    shown: Catalog | None
    """The latest catalog that it acknowledged in full; None before the first."""
    refusals: tuple[str, ...]
    """What it refuses now, with its reason."""


@dataclass(slots=True, kw_only=True)
class _Connection:
    stream: Stream
    wake: asyncio.Event
    edge_id: str = ""
    url: str = ""
    zone: str = ""


class XdsServer:
    """Tells every connected Envoy the published catalog. Before the first is published an Envoy is
    told nothing and keeps what it has; one that has nothing gets `starting`, if there is such."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.starting: Catalog | None = None
        """For an Envoy that has nothing, until the first catalog is published."""
        self._catalog: Catalog | None = None
        self._connections: dict[int, _Connection] = {}
        self._numbers = itertools.count(1)
        self._server: Any = None
        self.progress = asyncio.Event()
        """Set whenever an Envoy comes, goes, acknowledges or refuses; whoever waits clears it."""
        self.welcome: Callable[[Iterable[str]], None] = lambda clusters: None
        """Told which clusters an Envoy already has, before it is told anything."""

    async def start(self, address: str) -> int:
        """Listen on HOST:PORT or unix:PATH; returns the port. Raises AddressTaken."""
        import grpc

        protos.discovery()
        self._server = grpc.aio.server(options=_OPTIONS)
        handler = grpc.stream_stream_rpc_method_handler(self._serve)
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(SERVICE, {METHOD: handler}),)
        )
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as exc:
            raise errors.AddressTaken(
                f"discovery cannot listen on {address}: {exc}. Stop the program that does, or "
                "choose another address"
            ) from exc
        await self._server.start()
        return int(port)

    async def stop(self) -> None:
        """End every stream and stop listening; Envoys keep what they have. Safe to call twice."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(None)

    def publish(self, catalog: Catalog) -> None:
        """Tell every Envoy from now on."""
        self._catalog = catalog
        for connection in self._connections.values():
            connection.wake.set()

    def edges(self) -> tuple[Edge, ...]:
        """The Envoys that are connected and have said who they are, in order of arrival."""
        known = [c for c in self._connections.values() if c.edge_id]
        return tuple(
            Edge(
                edge_id=c.edge_id,
                url=c.url,
                zone=c.zone,
                shown=c.stream.shown,
                refusals=tuple(f"{k.name.lower()}: {why}" for k, why in c.stream.refusals.items()),
            )
            for c in known
        )

    async def _serve(self, _requests: object, context: Any) -> None:
        """One stream, from its first request to its end."""
        number = next(self._numbers)
        connection = _Connection(stream=Stream(), wake=asyncio.Event())
        self._connections[number] = connection
        refusal: errors.RequestRefused | None = None
        try:
            async with asyncio.TaskGroup() as group:
                writing = group.create_task(self._write(connection, context), name="xds-write")
                try:
                    await self._read(connection, context)
                except errors.RequestRefused as exc:
                    refusal = exc
                writing.cancel()
        finally:
            del self._connections[number]
            self.progress.set()
            _log.info("edge %s left", connection.edge_id or "that did not say who it is")
        if refusal is not None:
            await self._refuse(context, connection, refusal)

    async def _refuse(
        self, context: Any, connection: _Connection, refusal: errors.RequestRefused
    ) -> None:
        import grpc

        self._metrics.malformed.inc()
        _log.warning("request of %s refused: %s", connection.edge_id or context.peer(), refusal)
        await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(refusal))

    async def _read(self, connection: _Connection, context: Any) -> None:
        import grpc

        while (data := await context.read()) is not grpc.aio.EOF:
            request = self._parsed(data, connection)
            before = connection.stream.ready
            connection.stream.receive(request)
            if connection.stream.ready and not before:
                self.welcome(connection.stream.has())
            self._count(request, connection)
            connection.wake.set()
            self.progress.set()

    def _parsed(self, data: bytes, connection: _Connection) -> Request:
        from google.protobuf import message

        try:
            found = protos.discovery().DeltaDiscoveryRequest.FromString(data)
        except message.DecodeError as exc:
            raise errors.RequestRefused(f"a request of {len(data)} bytes is none: {exc}") from exc
        if not connection.edge_id:
            _introduce(connection, found.node)
        return Request(
            type_url=found.type_url,
            subscribe=tuple(found.resource_names_subscribe),
            unsubscribe=tuple(found.resource_names_unsubscribe),
            has=dict(found.initial_resource_versions),
            nonce=found.response_nonce,
            refusal=_reason(found) if found.HasField("error_detail") else None,
        )

    def _count(self, request: Request, connection: _Connection) -> None:
        if not request.nonce:
            return
        kind = _label(request.type_url)
        if request.refusal is None:
            self._metrics.acks.labels(kind).inc()
            return
        self._metrics.nacks.labels(kind).inc()
        _log.warning("edge %s refuses %s: %s", connection.edge_id, kind, request.refusal)

    async def _write(self, connection: _Connection, context: Any) -> None:
        stream = connection.stream
        while True:
            catalog = self._catalog or (self.starting if stream.fresh else None)
            now_s = time.monotonic()
            if catalog is not None and stream.ready:
                before = stream.shown
                for response in stream.responses(catalog, now_s):
                    await context.write(_encoded(response))
                    self._metrics.responses.labels(_label(response.type_url)).inc()
                if stream.shown is not before:
                    self.progress.set()
            due_s = stream.recheck_at_s(now_s)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(due_s - now_s if due_s is not None else None):
                    await connection.wake.wait()
            connection.wake.clear()


def _reason(found: Any) -> str:
    """Why Envoy refuses: for the log, the status and the feed, so on one line that ends."""
    return one_line(found.error_detail.message[:_MOST_REASON_CHARACTERS])


def _introduce(connection: _Connection, node: Any) -> None:
    """Who this is; the first request must say so, later ones need not."""
    if not node.id or len(node.id) > _MOST_ID_CHARACTERS or not node.id.isprintable():
        raise errors.RequestRefused(
            f"the first request of a stream must have a node with an id of 1 to "
            f"{_MOST_ID_CHARACTERS} printable characters, found {node.id[:40]!r}"
        )
    size = node.metadata.ByteSize() + node.locality.ByteSize()
    if size > _MOST_NODE_BYTES:
        raise errors.RequestRefused(
            f"node {node.id!r} has {size} bytes of metadata and locality; at most "
            f"{_MOST_NODE_BYTES}"
        )
    connection.edge_id = node.id
    connection.url = node.metadata.fields["liftlock.url"].string_value
    connection.zone = node.locality.zone
    _log.info("edge %s came", node.id)


def _label(type_url: str) -> str:
    """A kind's name for counting; what is not ours is one kind, since clients choose its name."""
    kind = Kind.of(type_url)
    return "unknown" if kind is None else kind.name.lower()


def _encoded(response: Response) -> bytes:
    rest = protos.discovery().DeltaDiscoveryResponse(
        type_url=response.type_url, nonce=response.nonce, removed_resources=response.removed
    )
    return b"".join([*(r.part for r in response.resources), rest.SerializeToString()])
