"""The fixture that runs an edge for a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from serving.edge import config, control
from tests.serving.edge import harness


@pytest.fixture
def run_edge(tmp_path: Path) -> harness.RunEdge:
    """Start an edge for the body of an `async with`; keyword arguments are EdgeSettings."""

    @asynccontextmanager
    async def run(**settings: object) -> AsyncIterator[harness.Edge]:
        given = {"port": harness.free_port(), "drain_s": 1.0, "workers": 1, **settings}
        edge = harness.Edge(tmp_path, config.EdgeSettings(**given))  # type: ignore[arg-type]
        task = asyncio.create_task(edge.service.run())
        try:
            await edge.until(lambda: control.current_status(tmp_path) is not None or task.done())
            yield edge
        finally:
            edge.service.stop()
            await task

    return run
