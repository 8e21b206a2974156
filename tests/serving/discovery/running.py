"""A running discovery over a source that the test holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from serving.discovery import traffic
from serving.discovery.service import Discovery, LoopSettings
from serving.edge import config, resources
from serving.endpoint import Endpoint, EndpointState
from tests.serving.discovery import client
from tests.serving.edge import harness

SETTINGS = config.EdgeSettings()
QUICK = LoopSettings(gap_s=0.0, poll_s=0.01, beat_s=0.05, linger_s=0.2)


def replica(port: int, version: int = 1, zone: str = "z") -> Endpoint:
    return Endpoint(
        replica_id=f"r{port}",
        model="grammar",
        version=version,
        digest="d",
        host="10.0.0.1",
        port=port,
        state=EndpointState.READY,
        zone=zone,
    )


class World:
    """A running discovery over a source that the test holds."""

    def __init__(self, folder: Path) -> None:
        self.source = harness.HeldSource()
        self.source.failing = True
        self.plan = folder / "traffic.json"
        self.discovery = Discovery(
            self.source,
            self.plan,
            lambda snapshot: resources.documents(snapshot, SETTINGS),
            needs_plan=True,
            loops=QUICK,
        )
        self.address = f"unix:{folder}/x.sock"

    def route(self, version: int = 1, epoch: int = 1) -> None:
        plan = traffic.TrafficPlan(epoch=epoch, models=(traffic.whole("grammar", version),))
        traffic.store(self.plan, plan)

    def list(self, *replicas: Endpoint) -> int:
        self.source.failing = False
        return self.source.set(*replicas)

    def client(self) -> client.Client:
        return client.Client(self.address)

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not holds():  # noqa: ASYNC110  what is awaited happens in another task
                await asyncio.sleep(0.005)
