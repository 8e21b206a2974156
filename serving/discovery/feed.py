"""Discovery over plain HTTP: JSON for the SDK and for status, metrics, and the two probes.

GET /v1/edges, /v1/snapshot, /metrics, /healthz (the process answers) and /readyz (an edge that asks
is told something).
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from serving.discovery import errors, view
from serving.discovery.service import Discovery

_BACKLOG = 128


def app(discovery: Discovery) -> Starlette:
    """The routes, over a running discovery."""

    def json_of(
        make: Callable[[view.View], dict[str, object]],
    ) -> Callable[[Request], Response]:
        return lambda request: JSONResponse(make(look(discovery)))

    async def metrics(request: Request) -> Response:
        _measure(discovery)
        return Response(discovery.metrics.text(), media_type="text/plain; version=0.0.4")

    async def alive(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def ready(request: Request) -> Response:
        if discovery.catalog is not None:
            return PlainTextResponse("ok\n")
        reasons = "; ".join(discovery.faults.texts()) or "the source has not answered yet"
        return PlainTextResponse(f"nothing to tell an edge yet: {reasons}\n", status_code=503)

    async def edges(request: Request) -> Response:
        return json_of(view.edges)(request)

    async def snapshot(request: Request) -> Response:
        return json_of(view.snapshot)(request)

    return Starlette(
        routes=[
            Route("/v1/edges", edges),
            Route("/v1/snapshot", snapshot),
            Route("/metrics", metrics),
            Route("/healthz", alive),
            Route("/readyz", ready),
        ]
    )


def look(discovery: Discovery) -> view.View:
    """What is known now."""
    observed = discovery.observation
    return view.View(
        catalog=discovery.catalog,
        endpoints=observed.endpoints,
        edges=discovery.server.edges(),
        age_s=observed.age_s(time.monotonic()),
        faults=discovery.faults.texts(),
    )


def _measure(discovery: Discovery) -> None:
    """Set the gauges; counters count by themselves."""
    now, metrics = look(discovery), discovery.metrics
    metrics.edges.set(len(now.edges))
    metrics.behind.set(sum(map(now.behind, now.edges)))
    metrics.source_age_s.set(now.age_s if now.age_s is not None else float("nan"))
    metrics.endpoints.clear()
    for replica in now.endpoints:
        labels = (replica.model, str(replica.version), replica.state.value)
        metrics.endpoints.labels(*labels).inc()
    if now.catalog is not None and now.catalog.snapshot.epoch is not None:
        metrics.epoch.set(now.catalog.snapshot.epoch)


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; raises AddressTaken."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as exc:
        raise errors.AddressTaken(
            f"the feed cannot listen on {host}:{port}: {exc.strerror or exc}. Stop the program "
            "that does, or choose another address"
        ) from exc


class _Server(uvicorn.Server):  # type: ignore[misc]  # uvicorn's types are not followed
    """Leaves signals to whoever owns the process."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Installs nothing."""
        yield


async def serve(discovery: Discovery, sock: socket.socket) -> None:
    """Answer on a listening socket until canceled."""
    config = uvicorn.Config(
        app(discovery),
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=1,
    )
    await _Server(config).serve(sockets=[sock])
