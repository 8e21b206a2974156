"""A front end: the HTTP server of one process, on a listening socket it shares with others.

The one idea is how connections are spread. An event loop left alone takes every connection that
waits, so the first to wake would have them all. Here each takes one at a time, and leaves it for a
few milliseconds to a front end that has fewer open.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

import httpx
import uvicorn

from serving.engine import protocol
from serving.engine.app import WARMUP_HEADER, ReplicaApp
from serving.engine.counts import NOT_ACCEPTING, Counts, Field
from serving.engine.http_guard import GuardedHttp
from serving.engine.spec import ReplicaSpec
from serving.engine.state import ReplicaState
from serving.engine.watched import WatchedEngine
from serving.errors import DeploymentFailed

_log = logging.getLogger(__name__)

BACKLOG = 2_048
WARMUP_TEXT = "She go to school every days."
_KEEP_ALIVE_S = 3_900
"""Idle connections outlive the edge's (one hour), so that it is never us who closes one just as a
request is being sent on it."""
_CUT_OFF_S = 1
"""How long the HTTP server lets requests run on once the port is closed; by then drained."""
_DEFER_S = 0.001
_DEFERS = 5
"""How often a connection is left to a front end with fewer; it may be busy, or gone."""
_LEAST_SHARE, _MOST_SHARE = 4, 64
"""Connections taken at once where others have as many, and where they have far more or none are."""
_NOTE_S = 0.25
_MAKE_ROOM_S = 0.1
_MOST_CONNECTIONS = 10_000
"""Of one front end: some ten kilobytes each, idle or not. An edge keeps some hundred."""


class FrontEnd:
    """One app over one engine on a socket. `open` once, `close` once."""

    def __init__(
        self,
        spec: ReplicaSpec,
        engine: protocol.Engine,
        sock: socket.socket,
        *,
        warmup_token: str,
        counts: Counts | None = None,
    ) -> None:
        self._counts = Counts.alone() if counts is None else counts
        self.state = ReplicaState(
            spec.identity, spec.limits, warmup_token=warmup_token,
            slots=spec.engine.max_num_seqs, counts=self._counts,
        )  # fmt: skip
        self.engine = WatchedEngine(engine, self.state)
        self._warmup_token = warmup_token
        self._app = ReplicaApp(self.engine, self.state, spec.manifest)
        self._sock = sock
        self._tasks: list[asyncio.Task[None]] = []

    def open(self) -> None:
        """Starts to answer."""
        config = uvicorn.Config(
            self._app,
            http=GuardedHttp,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,  # nothing here asks for the caller's address
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_CUT_OFF_S,
            backlog=BACKLOG,
        )
        self._http = _SharedPort(config, self._counts)
        serving = self._http.serve(sockets=[self._sock])
        self._tasks = [
            asyncio.create_task(serving, name="front-end-http"),
            asyncio.create_task(self._note(), name="front-end-queue-age"),
        ]

    async def warm_up(self, requests: int) -> None:
        """Answers requests of its own, past the port: the first are several times slower.

        Raises:
            DeploymentFailed: one was not answered with 200; the answer is quoted.
        """
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url="http://front-end") as client:
            for _ in range(requests):
                await warm_up(client, self._warmup_token)

    async def check(self) -> None:
        """Returns when it can answer.

        Raises:
            EngineDead: the engine is gone.
            DeploymentFailed: the HTTP server has stopped.
        """
        for task in self._tasks:
            if task.done():
                raise DeploymentFailed(f"{task.get_name()} has stopped")
        await self.engine.check_health()

    async def close(self) -> None:
        """Stops the HTTP server; requests still in flight, if any, are cut off with a 503."""
        if not self._tasks:
            return
        serving, noting = self._tasks
        noting.cancel()
        self._http.should_exit = True
        await asyncio.gather(serving, noting, return_exceptions=True)

    async def _note(self) -> None:
        while True:
            self.state.note_queue_age()
            await asyncio.sleep(_NOTE_S)


async def warm_up(client: httpx.AsyncClient, token: str) -> None:
    """Sends one request that is answered before the replica is ready.

    Raises:
        DeploymentFailed: it was not answered with 200.
    """
    headers = {WARMUP_HEADER: token, "x-request-id": "warm-up"}
    try:
        answer = await client.post("/v1/corrections", json={"text": WARMUP_TEXT}, headers=headers)
    except httpx.HTTPError as exc:
        raise DeploymentFailed(f"warm-up at {client.base_url} got no answer: {exc!r}") from exc
    if answer.status_code != httpx.codes.OK:
        raise DeploymentFailed(
            f"warm-up at {client.base_url} got {answer.status_code}: {answer.text[:500]}"
        )


class _SharedPort(uvicorn.Server):  # type: ignore[misc]  # uvicorn is not typed for mypy here
    """Uvicorn that takes connections by itself and leaves signals to whoever owns the process."""

    def __init__(self, config: uvicorn.Config, counts: Counts) -> None:
        super().__init__(config)
        self._counts = counts
        self._opening = 0
        self._accepting: asyncio.Task[None] | None = None

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Installs nothing."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept on the one socket that is given."""
        await super().startup(sockets=[])
        for sock in sockets or ():
            sock.setblocking(False)
            self._accepting = asyncio.create_task(self._accept(sock), name="front-end-accept")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stops accepting, then ends as uvicorn does."""
        if self._accepting is not None:
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        self._counts.put(Field.CONNECTIONS, NOT_ACCEPTING)
        await super().shutdown(sockets)

    async def _accept(self, sock: socket.socket) -> None:
        while True:
            self._count()
            await _readable(sock)
            await self._defer()
            if len(self.server_state.connections) < _MOST_CONNECTIONS:
                await self._take(sock)
            else:
                await self._make_room(f"there are {_MOST_CONNECTIONS}")

    def _count(self) -> None:
        self._counts.put(Field.CONNECTIONS, len(self.server_state.connections) + self._opening)

    async def _defer(self) -> None:
        """Gives front ends with fewer connections the chance to take the one that waits."""
        for _ in range(_DEFERS):
            self._count()
            if self._counts.get(Field.CONNECTIONS) <= min(self._counts.column(Field.CONNECTIONS)):
                return
            await asyncio.sleep(_DEFER_S)

    async def _take(self, sock: socket.socket) -> None:
        """Takes what waits, as far as our share goes: one each time round a busy loop would leave
        the last of some hundred new connections waiting for seconds."""
        taken: list[socket.socket] = []
        try:
            for _ in range(self._share()):
                taken.append(sock.accept()[0])
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            pass  # that was the last, another front end was quicker, or the caller gave up
        except OSError as exc:  # out of file descriptors
            await self._make_room(str(exc))
        self._opening += len(taken)
        self._count()
        connect = asyncio.get_running_loop().connect_accepted_socket
        try:
            await asyncio.gather(
                *(connect(self._protocol, each) for each in taken), return_exceptions=True
            )
        finally:
            self._opening -= len(taken)

    async def _make_room(self, why: str) -> None:
        """Hangs up on connections that never asked anything, else on those that do not now."""
        _log.error("cannot take a connection, so idle ones are hung up on: %s", why)
        held = list(self.server_state.connections)
        for connection in [each for each in held if each.cycle is None] or held:
            connection.shutdown()
        await asyncio.sleep(_MAKE_ROOM_S)

    def _share(self) -> int:
        """How many connections may be taken at once without running ahead of other front ends."""
        held = sorted(self._counts.column(Field.CONNECTIONS))
        others = held[1] if len(held) > 1 else NOT_ACCEPTING
        ahead = others - self._counts.get(Field.CONNECTIONS)
        return int(min(max(_LEAST_SHARE, ahead), _MOST_SHARE))

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made


async def _readable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(sock.fileno(), ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(sock.fileno())
