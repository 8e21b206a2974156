"""The life of a replica's port: open, warm, publish, heartbeat, drain, close. Knows no Ray.

The one idea is the order. Published only after it has answered real requests through its own port;
on the way out the directory is told first, then the edges let go, then what is in flight ends, and
only then does the port close. So a request that was sent on good grounds is answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import socket
import time
from typing import Protocol

import httpx
import uvicorn

from serving.directory import DirectoryUnavailable
from serving.endpoint import Endpoint, EndpointState
from serving.engine import protocol
from serving.engine.app import WARMUP_HEADER, ReplicaApp
from serving.engine.spec import ReplicaSpec
from serving.engine.state import Phase, ReplicaState
from serving.errors import DeploymentFailed

_log = logging.getLogger(__name__)

_POLL_S = 0.05
_KEEP_ALIVE_S = 3_900
"""Idle connections outlive the edge's (one hour), so that it is never us who closes one just as a
request is being sent on it."""
_CUT_OFF_S = 1
"""How long the HTTP server lets requests run on once the port is closed; by then drained."""
_WARMUP_TEXT = "She go to school every days."
_WARMUP_TIMEOUT_S = 60.0
_BACKLOG = 2_048


class Directory(Protocol):
    """What a replica tells the directory; each call may raise DirectoryUnavailable."""

    async def publish(self, endpoint: Endpoint) -> None:
        """One heartbeat."""

    async def mark_draining(self, replica_id: str) -> None:
        """Asks the edges to send nothing new."""

    async def released(self, replica_id: str) -> bool:
        """Whether the edges have let go."""

    async def remove(self, replica_id: str) -> None:
        """Takes the replica off the list."""


class ReplicaServer:
    """One engine behind one port. `start` once, `drain` once."""

    def __init__(
        self, spec: ReplicaSpec, engine: protocol.Engine, directory: Directory, replica_id: str
    ) -> None:
        self._spec = spec
        self._engine = engine
        self._directory = directory
        self._replica_id = replica_id
        self._warmup_token = secrets.token_hex(16)
        self.state = ReplicaState(spec.identity, spec.limits, warmup_token=self._warmup_token)
        self._app = ReplicaApp(engine, self.state, spec.manifest)
        self._healthy = True
        self._port = 0
        self._serving: asyncio.Task[None] | None = None
        self._beating: asyncio.Task[None] | None = None

    @property
    def endpoint(self) -> Endpoint:
        """What the directory is told."""
        identity = self._spec.identity
        return Endpoint(
            replica_id=self._replica_id,
            model=identity.model,
            version=identity.version,
            digest=identity.digest,
            host=self._spec.host,
            port=self._port,
            state=EndpointState.DRAINING if self.state.draining else EndpointState.READY,
        )

    async def start(self) -> None:
        """Opens the port, warms up and publishes.

        Raises:
            DeploymentFailed: a warm-up request was not answered with 200; the answer is quoted.
        """
        self._sock = _listen(self._spec.host)
        self._port = self._sock.getsockname()[1]
        config = uvicorn.Config(
            self._app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_CUT_OFF_S,
            backlog=_BACKLOG,
        )
        self._uvicorn = uvicorn.Server(config)
        # Signals belong to whoever owns the process.
        self._uvicorn.capture_signals = contextlib.nullcontext
        serving = self._uvicorn.serve(sockets=[self._sock])
        self._serving = asyncio.create_task(serving, name="replica-http")
        try:
            await self._warm_up()
        except BaseException:
            await self._close_port()
            raise
        self.state.phase = Phase.READY
        await self._beat()
        self._beating = asyncio.create_task(self._keep_beating(), name="replica-heartbeat")

    async def check_health(self) -> None:
        """Returns when the replica can answer; otherwise leaves the directory and raises.

        Raises:
            EngineDead: the engine is gone.
            DeploymentFailed: the HTTP server or the heartbeat has stopped.
        """
        try:
            for task in (self._serving, self._beating):
                if task is None or task.done():
                    name = "a task that never started" if task is None else task.get_name()
                    raise DeploymentFailed(f"replica {self._replica_id}: {name} has stopped")
            await self._engine.check_health()
        except (protocol.EngineDead, DeploymentFailed):
            self._healthy = False
            with contextlib.suppress(DirectoryUnavailable):
                await self._directory.remove(self._replica_id)
            raise
        self._healthy = True

    def load(self) -> dict[str, float]:
        """What scaling decides on."""
        return {"in_flight": self.state.in_flight, "waiting": self._engine.waiting}

    async def drain(self) -> None:
        """Leaves without dropping a request that was sent on good grounds, and stops."""
        if self.state.draining:
            return
        self.state.phase = Phase.LEAVING
        await self._until_released()
        await self._until_quiet()
        self.state.phase = Phase.CLOSED
        await self._close_port()
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        await asyncio.to_thread(self._engine.shutdown)
        try:
            await self._directory.remove(self._replica_id)
        except DirectoryUnavailable as exc:
            _log.warning("not removed from the directory, which will notice: %s", exc)

    async def _warm_up(self) -> None:
        url = f"http://{self._spec.host}:{self._port}/v1/corrections"
        headers = {WARMUP_HEADER: self._warmup_token, "x-request-id": "warm-up"}
        async with httpx.AsyncClient(timeout=_WARMUP_TIMEOUT_S, trust_env=False) as client:
            for _ in range(self._spec.warmup_requests):
                try:
                    answer = await client.post(url, json={"text": _WARMUP_TEXT}, headers=headers)
                except httpx.HTTPError as exc:
                    raise DeploymentFailed(f"warm-up at {url} got no answer: {exc!r}") from exc
                if answer.status_code != httpx.codes.OK:
                    raise DeploymentFailed(
                        f"warm-up at {url} got {answer.status_code}: {answer.text[:500]}"
                    )

    async def _keep_beating(self) -> None:
        while True:
            await asyncio.sleep(self._spec.heartbeat_s)
            if self._healthy:
                await self._beat()

    async def _beat(self) -> None:
        try:
            await self._directory.publish(self.endpoint)
        except DirectoryUnavailable as exc:
            _log.warning("heartbeat of %s was not taken: %s", self._replica_id, exc)

    async def _until_released(self) -> None:
        """Waits until no edge sends here any more; bounded, since an edge may be gone for good."""
        give_up_s = time.monotonic() + self._spec.release_timeout_s
        marked = False
        while time.monotonic() < give_up_s:
            try:
                if not marked:
                    await self._directory.mark_draining(self._replica_id)
                    marked = True
                if await self._directory.released(self._replica_id):
                    return
            except DirectoryUnavailable as exc:
                _log.warning("directory away while draining %s: %s", self._replica_id, exc)
            await asyncio.sleep(_POLL_S)
        _log.warning("%s drains without word from every edge", self._replica_id)

    async def _until_quiet(self) -> None:
        """Waits until nothing has been in flight for `quiet_s`; bounded by `drain_timeout_s`."""
        now_s = time.monotonic()
        give_up_s, busy_at_s = now_s + self._spec.drain_timeout_s, now_s
        while (now_s := time.monotonic()) < give_up_s:
            if self.state.in_flight:
                busy_at_s = now_s
            elif now_s - busy_at_s >= self._spec.quiet_s:
                return
            await asyncio.sleep(_POLL_S)
        _log.warning(
            "%s closes with %d requests in flight after %.0f s",
            self._replica_id, self.state.in_flight, self._spec.drain_timeout_s,
        )  # fmt: skip

    async def _close_port(self) -> None:
        """Stops the HTTP server; requests still in flight, if any, are cut off with a 503."""
        if self._serving is None:
            return
        self._uvicorn.should_exit = True
        await asyncio.gather(self._serving, return_exceptions=True)
        self._sock.close()


def _listen(host: str) -> socket.socket:
    """A listening socket on a free port."""
    return socket.create_server((host, 0), backlog=_BACKLOG)
