"""Callers who fill an edge's memory, at a real Envoy: it refuses for a while and lives on."""

from __future__ import annotations

import asyncio

import httpx
import psutil

from serving.discovery import traffic
from serving.edge import control
from tests.serving.edge import harness, upstream

ONE = traffic.whole("grammar", 1)
BODY = b"a" * 900_000
BEGUN = b"POST / HTTP/1.1\r\nhost: edge\r\ncontent-length: 1000000\r\n\r\n" + BODY


async def test_bodies_that_never_end_are_refused_before_memory_is(
    run_edge: harness.RunEdge,
) -> None:
    async with (
        run_edge(max_heap_mib=64, body_s=60.0) as edge,
        upstream.Upstream(1) as replica,
        httpx.AsyncClient(base_url=edge.url, trust_env=False) as client,
    ):
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        found = await control.wait_applied(edge.root, plan, timeout_s=30)
        slow = []
        async with asyncio.timeout(60):
            while (answer := await client.post("/")).status_code == httpx.codes.OK:
                slow.append(await _fill(edge.settings.port))
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "overload"
        assert found.envoy_pid is not None
        assert psutil.Process(found.envoy_pid).memory_info().rss < 400 * 2**20
        for writer in slow:
            writer.transport.abort()
        async with asyncio.timeout(30):
            while (await client.post("/")).status_code != httpx.codes.OK:  # noqa: ASYNC110
                await asyncio.sleep(0.1)


async def _fill(port: int) -> asyncio.StreamWriter:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(BEGUN)
    await writer.drain()
    return writer
