"""An edge under test: the real service and the real Envoy, a source that the test holds."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from serving import endpoint
from serving.discovery import errors, observation, sources
from serving.discovery import service as discovery_service
from serving.edge import config, home, service
from tests.serving.edge import upstream

LOOPS = service.LoopSettings(
    status_s=0.2,
    sample_s=0.2,
    discovery=discovery_service.LoopSettings(beat_s=0.2, linger_s=1.0),
)


class HeldSource:
    """A source that lists what the test says, or fails."""

    def __init__(self) -> None:
        self.generation = 0
        self.endpoints: tuple[endpoint.Endpoint, ...] = ()
        self.failing = False
        self.acked: list[tuple[str, int]] = []
        self.closed = False
        self.news = asyncio.Event()

    def set(self, *endpoints: endpoint.Endpoint) -> int:
        self.generation += 1
        self.endpoints = endpoints
        self.news.set()
        return self.generation

    async def changed(self, generation: int) -> None:
        if self.failing:
            raise errors.SourceFailed("the source is away")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(sources.WAIT_S):
                while self.generation == generation:
                    self.news.clear()
                    await self.news.wait()

    async def list(self) -> observation.Listing:
        if self.failing:
            raise errors.SourceFailed("the source is away")
        return observation.Listing(generation=self.generation, endpoints=self.endpoints)

    async def ack(self, edge_id: str, generation: int) -> None:
        self.acked.append((edge_id, generation))

    async def close(self) -> None:
        self.closed = True


class Edge:
    """A running edge and what belongs to it."""

    def __init__(self, root: Path, settings: config.EdgeSettings) -> None:
        self.root = root
        self.settings = settings
        self.home = home.EdgeHome.of(root)
        self.source = HeldSource()
        self.service = service.EdgeService(
            settings, self.home, self.source, edge_id="edge-under-test", loops=LOOPS
        )

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.settings.port}"

    async def until(self, holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
        async with asyncio.timeout(timeout_s):
            while not holds():  # noqa: ASYNC110  files and processes tell nobody
                await asyncio.sleep(0.02)

    async def acked(self, generation: int) -> None:
        await self.until(lambda: ("edge-under-test", generation) in self.source.acked)

    async def serve(self, *replicas: upstream.Upstream) -> int:
        """List these replicas and wait until Envoy has them."""
        generation = self.source.set(*(replica.endpoint() for replica in replicas))
        await self.acked(generation)
        return generation


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


RunEdge = Callable[..., AbstractAsyncContextManager[Edge]]
