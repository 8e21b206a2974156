"""Fixtures of discovery's tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.serving.discovery.running import World


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    found = World(tmp_path)
    await found.discovery.listen(found.address)
    running = asyncio.create_task(found.discovery.run())
    yield found
    running.cancel()
    with suppress(asyncio.CancelledError):
        await running
    await found.discovery.close()
    assert found.source.closed
