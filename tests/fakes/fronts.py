"""The front end of a replica in this process, so that a test can steer its engine."""

from __future__ import annotations

import asyncio
import socket

from serving.engine.admission import Load
from serving.engine.front import FrontEnd
from serving.engine.protocol import Engine
from serving.engine.spec import ReplicaSpec
from serving.engine.state import Phase


class LocalFronts:
    """`Fronts` without processes; `breaks` is set where a core would have died."""

    number = 1

    def __init__(self, spec: ReplicaSpec, engine: Engine) -> None:
        self._spec = spec
        self._engine = engine
        self.breaks = asyncio.Event()
        self.front: FrontEnd | None = None

    async def start(self, sock: socket.socket, warmup_token: str) -> None:
        self.front = FrontEnd(self._spec, self._engine, sock, warmup_token=warmup_token)
        self.front.open()

    async def enter(self, phase: Phase) -> None:
        assert self.front is not None
        self.front.state.phase = phase

    async def check(self) -> None:
        assert self.front is not None
        await self.front.check()

    async def broken(self) -> None:
        await self.breaks.wait()

    @property
    def load(self) -> Load:
        assert self.front is not None
        return self.front.state.load

    @property
    def queue_age_s(self) -> float:
        assert self.front is not None
        return self.front.state.queue_age_s()

    async def stop(self) -> None:
        if self.front is not None:
            await self.front.close()
        self._engine.shutdown()
