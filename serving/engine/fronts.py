"""The front ends of a replica, seen from the replica: start them, tell them, replace a dead one.

The one idea: the replica holds what must outlive a front end (the listening socket, the counts,
the engine's seats) and passes it down by inheritance; a front end holds only its own connections.
So one that dies takes no more than those with it, and the next one goes on at its place.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
import tempfile
from typing import Protocol

from serving.engine import admission, handle, link, protocol
from serving.engine.core import EngineCore
from serving.engine.counts import Counts, Field, create
from serving.engine.link import Hello
from serving.engine.spec import ReplicaSpec
from serving.engine.state import Phase, load_of, queue_age_s
from serving.errors import DeploymentFailed

_log = logging.getLogger(__name__)

_PAUSE_S = 1.0
"""Between two starts at one place, so that one that dies at once does not use up all seats."""


class Fronts(Protocol):
    """What answers for a replica on its port."""

    async def start(self, sock: socket.socket, warmup_token: str) -> None:
        """Starts to answer on a listening socket; nothing but warm-up requests yet."""
        ...

    async def enter(self, phase: Phase) -> None:
        """Moves all on to a phase."""
        ...

    async def check(self) -> None:
        """Returns when all can answer; raises EngineDead or DeploymentFailed."""
        ...

    async def broken(self) -> None:
        """Returns as soon as the replica must be replaced."""
        ...

    @property
    def number(self) -> int:
        """How many there are."""
        ...

    @property
    def load(self) -> admission.Load:
        """What all hold together."""
        ...

    @property
    def queue_age_s(self) -> float:
        """How long the oldest waiting sequence of any has waited."""
        ...

    async def stop(self) -> None:
        """Closes them, then the engine."""
        ...


class FrontProcesses:
    """N processes on one engine core. Belongs to one event loop."""

    def __init__(self, spec: ReplicaSpec, core: EngineCore) -> None:
        self._spec = spec
        self._core = core
        self._phase = Phase.STARTING
        self._handles: list[handle.Handle] = []
        self._counts_fd = create(spec.front_ends)
        self._rows = [Counts.shared(self._counts_fd, n) for n in range(spec.front_ends)]
        self.metrics_dir = tempfile.mkdtemp(prefix="liftlock-metrics-")
        self._broken = asyncio.Event()
        self._why: Exception | None = None
        self._watches: list[int] = []
        self._replacing: set[asyncio.Task[None]] = set()
        self._stopped = False

    @property
    def number(self) -> int:
        """See `Fronts`."""
        return self._spec.front_ends

    @property
    def load(self) -> admission.Load:
        """See `Fronts`."""
        return load_of(self._rows[0], self._spec.engine.max_num_seqs)

    @property
    def queue_age_s(self) -> float:
        """See `Fronts`."""
        return queue_age_s(self._rows[0])

    @property
    def connections(self) -> list[int]:
        """Open connections, by place; a huge number where none are accepted."""
        return [int(each) for each in self._rows[0].column(Field.CONNECTIONS)]

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the processes, by place."""
        return tuple(each.pid for each in self._handles)

    async def start(self, sock: socket.socket, warmup_token: str) -> None:
        """See `Fronts`.

        Raises:
            DeploymentFailed: the engine did not load, or a front end did not come up.
        """
        self._sock, self._warmup_token = sock, warmup_token
        for index in range(self.number):
            self._handles.append(self._started(index))
        loading = asyncio.to_thread(self._core.wait_until_loaded)
        await asyncio.gather(loading, *(each.until_ready() for each in self._handles))
        self._watches.append(link.when_ended(self._core.pid, self._core_ended))
        for each in self._handles:
            self._watch(each)

    async def enter(self, phase: Phase) -> None:
        """See `Fronts`. One that is being replaced is told when it is back."""
        self._phase = phase
        await asyncio.gather(*(each.tell(phase) for each in self._handles))

    async def check(self) -> None:
        """See `Fronts`."""
        if self._why is not None:
            raise self._why
        await asyncio.gather(*(each.check() for each in self._handles))

    async def broken(self) -> None:
        """See `Fronts`."""
        await self._broken.wait()

    async def stop(self) -> None:
        """See `Fronts`. Once; after a `start` that failed too."""
        if self._stopped:
            return
        self._stopped = True
        for task in self._replacing:
            task.cancel()
        await asyncio.gather(*self._replacing, return_exceptions=True)
        await asyncio.gather(*(each.close() for each in self._handles))
        await asyncio.to_thread(self._core.shutdown)
        for fd in self._watches:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)
        shutil.rmtree(self.metrics_dir, ignore_errors=True)
        os.close(self._counts_fd)

    def _started(self, index: int) -> handle.Handle:
        seat = self._core.seat()
        if seat is None:
            raise DeploymentFailed(
                f"front end {index} has ended and the engine has no seat left for another"
            )
        self._rows[index].clear()
        made = handle.start(
            Hello(
                spec=self._spec,
                index=index,
                seat=seat,
                warmup_token=self._warmup_token,
                core_pid=self._core.pid,
                listener_fd=self._sock.fileno(),
                counts_fd=self._counts_fd,
                metrics_dir=self.metrics_dir,
                phase=self._phase,
            )
        )
        self._core.given(seat)
        return made

    def _watch(self, front: handle.Handle) -> None:
        self._watches.append(link.when_ended(front.pid, lambda: self._front_ended(front)))

    def _core_ended(self) -> None:
        if not self._stopped:
            self._break(protocol.EngineDead("the engine process ended"))

    def _break(self, why: Exception) -> None:
        _log.error("the replica must be replaced: %s", why)
        self._why = self._why or why
        self._broken.set()

    def _front_ended(self, front: handle.Handle) -> None:
        if self._stopped:
            return
        self._rows[front.index].clear()
        _log.error("front end %d ended with %d", front.index, front.ended())
        if self._why is None:
            task = asyncio.create_task(self._replace(front.index), name="replace-front-end")
            self._replacing.add(task)
            task.add_done_callback(self._replacing.discard)

    async def _replace(self, index: int) -> None:
        await asyncio.sleep(_PAUSE_S)
        try:
            front = self._handles[index] = self._started(index)
            await front.until_ready()
        except DeploymentFailed as exc:
            self._break(exc)
            return
        self._watch(front)
        await front.tell(self._phase)
        _log.info("front end %d is back as process %d", index, front.pid)
