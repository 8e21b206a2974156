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

from serving.directory import DirectoryUnavailable
from serving.endpoint import Endpoint, EndpointState
from serving.engine import protocol
from serving.engine.front import BACKLOG, warm_up
from serving.engine.fronts import Fronts
from serving.engine.spec import ReplicaSpec
from serving.engine.state import Phase
from serving.errors import DeploymentFailed

_log = logging.getLogger(__name__)

_POLL_S = 0.05
_WARMUP_TIMEOUT_S = 60.0


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
    """The front ends of one engine behind one port. `start` once, `drain` once."""

    def __init__(
        self, spec: ReplicaSpec, fronts: Fronts, directory: Directory, replica_id: str
    ) -> None:
        self._spec = spec
        self._fronts = fronts
        self._directory = directory
        self._replica_id = replica_id
        self._warmup_token = secrets.token_hex(16)
        self.phase = Phase.STARTING
        self._healthy = True
        self._sock: socket.socket | None = None
        self._port = 0
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def endpoint(self) -> Endpoint:
        """What the directory is told."""
        identity = self._spec.identity
        leaving = self.phase in (Phase.LEAVING, Phase.CLOSED)
        return Endpoint(
            replica_id=self._replica_id,
            model=identity.model,
            version=identity.version,
            digest=identity.digest,
            host=self._spec.host,
            port=self._port,
            state=EndpointState.DRAINING if leaving else EndpointState.READY,
        )

    @property
    def url(self) -> str:
        """Where the replica answers, once it has started."""
        return f"http://{self._spec.host}:{self._port}"

    async def start(self) -> None:
        """Opens the port, warms up and publishes.

        Raises:
            DeploymentFailed: the port is taken, the engine or a front end did not come up, or a
                warm-up request was not answered with 200; the answer is quoted.
        """
        self._sock = self._opened()
        self._port = self._sock.getsockname()[1]
        try:
            await self._fronts.start(self._sock, self._warmup_token)
            await self._warm_up()
        except BaseException:
            await self._close_port()
            raise
        await self._enter(Phase.READY)
        await self._beat()
        self._tasks = [
            asyncio.create_task(self._keep_beating(), name="replica-heartbeat"),
            asyncio.create_task(self._leave_when_broken(), name="replica-watch"),
        ]

    def _opened(self) -> socket.socket:
        address = (self._spec.host, self._spec.port)
        try:
            return socket.create_server(address, backlog=BACKLOG)
        except OSError as exc:
            raise DeploymentFailed(
                f"cannot listen on {address[0]}:{address[1]}: {exc.strerror}; a fixed port "
                "is for one replica to a pod"
            ) from exc

    async def check_health(self) -> None:
        """Returns when the replica can answer; otherwise leaves the directory and raises.

        Raises:
            EngineDead: the engine is gone.
            DeploymentFailed: a front end or the heartbeat has stopped.
        """
        try:
            beating = self._tasks[0] if self._tasks else None
            if beating is None or beating.done():
                raise DeploymentFailed(f"replica {self._replica_id}: the heartbeat has stopped")
            await self._fronts.check()
        except (protocol.EngineDead, DeploymentFailed):
            await self._leave()
            raise
        self._healthy = True

    def load(self) -> dict[str, float]:
        """What scaling decides on."""
        load = self._fronts.load
        return {
            "in_flight": load.in_flight,
            "waiting": load.waiting,
            "queue_age_s": self._fronts.queue_age_s,
        }

    async def drain(self) -> None:
        """Leaves without dropping a request that was sent on good grounds, and stops."""
        if self.phase in (Phase.LEAVING, Phase.CLOSED):
            return
        await self._enter(Phase.LEAVING)
        await self._until_released()
        await self._until_quiet()
        await self._enter(Phase.CLOSED)
        await self._close_port()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            await self._directory.remove(self._replica_id)
        except DirectoryUnavailable as exc:
            _log.warning("not removed from the directory, which will notice: %s", exc)

    async def _enter(self, phase: Phase) -> None:
        self.phase = phase
        await self._fronts.enter(phase)

    async def _warm_up(self) -> None:
        """Sends requests through the port, on as many connections as there are front ends.

        The connections stay open until the last, so that each front end takes one.
        """
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(self._fronts.number):
                client = await stack.enter_async_context(
                    httpx.AsyncClient(base_url=self.url, timeout=_WARMUP_TIMEOUT_S, trust_env=False)
                )
                for _ in range(self._spec.warmup_requests):
                    await warm_up(client, self._warmup_token)

    async def _leave_when_broken(self) -> None:
        """Takes the replica out at once, without waiting for the next check."""
        await self._fronts.broken()
        await self._leave()

    async def _leave(self) -> None:
        self._healthy = False
        with contextlib.suppress(DirectoryUnavailable):
            await self._directory.remove(self._replica_id)

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
            if self._fronts.load.in_flight:
                busy_at_s = now_s
            elif now_s - busy_at_s >= self._spec.quiet_s:
                return
            await asyncio.sleep(_POLL_S)
        _log.warning(
            "%s closes with %d requests in flight after %.0f s",
            self._replica_id, self._fronts.load.in_flight, self._spec.drain_timeout_s,
        )  # fmt: skip

    async def _close_port(self) -> None:
        """Stops the front ends and the engine; what is still in flight is cut off with a 503."""
        await self._fronts.stop()
        if self._sock is not None:
            self._sock.close()
