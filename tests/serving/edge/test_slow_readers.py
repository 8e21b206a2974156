"""Callers who ask and do not take their answers, at a real Envoy: nothing is held for them long."""

from __future__ import annotations

import asyncio
import socket
import time

import h2.config
import h2.connection
import h2.events
import httpx
import pytest

from serving.discovery import traffic
from serving.edge import control
from tests.serving.edge import harness, upstream

ONE = traffic.whole("grammar", 1)
LIMITS = {"request_s": 0.6, "body_s": 0.4, "idle_s": 1.0}
PADDING_BYTES = [300_000, 16_000_000]
"""Less than Envoy buffers of an answer, and more than it and the kernel do."""


@pytest.mark.parametrize("padding_bytes", PADDING_BYTES)
async def test_a_connection_whose_answer_is_not_taken_is_ended(
    run_edge: harness.RunEdge, padding_bytes: int
) -> None:
    async with run_edge(**LIMITS) as edge, upstream.Upstream(1) as replica:
        await _serve(edge, replica, padding_bytes)
        asking = _connect(edge.settings.port)
        with asking:
            asking.sendall(b"POST / HTTP/1.1\r\nhost: edge\r\ncontent-length: 0\r\n\r\n")
            async with asyncio.timeout(15):
                await replica.working.wait()
                while await _connections(edge):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert replica.served == 1


@pytest.mark.parametrize("padding_bytes", PADDING_BYTES)
async def test_a_stream_whose_answer_is_not_taken_is_reset(
    run_edge: harness.RunEdge, padding_bytes: int
) -> None:
    async with run_edge(**LIMITS) as edge, upstream.Upstream(1) as replica:
        await _serve(edge, replica, padding_bytes)
        state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        state.initiate_connection()
        state.send_headers(1, _HEADERS, end_stream=True)
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.settings.port)
        writer.write(state.data_to_send())
        seen: list[h2.events.Event] = []
        async with asyncio.timeout(15):
            while not any(isinstance(e, h2.events.StreamReset | _END) for e in seen):
                data = await reader.read(65_536)  # what is read opens no window
                if not data:
                    break
                seen += state.receive_data(data)
        writer.close()
    assert not any(isinstance(e, h2.events.StreamEnded) for e in seen)


async def test_an_answer_that_comes_slowly_is_taken_whole(run_edge: harness.RunEdge) -> None:
    """Not every pause is an end: the longest time is that of the whole exchange."""
    async with run_edge(request_s=8.0) as edge, upstream.Upstream(1) as replica:
        await _serve(edge, replica, 2_000_000)
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.settings.port)
        writer.write(b"POST / HTTP/1.1\r\nhost: edge\r\ncontent-length: 0\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].split()[0])
        got, since_s = 0, time.monotonic()
        while got < length:
            got += len(await reader.read(100_000))
            await asyncio.sleep(0.05)
        writer.close()
    assert got == length
    assert time.monotonic() - since_s > 0.5


_END = h2.events.ConnectionTerminated
_HEADERS = [(":method", "POST"), (":path", "/"), (":scheme", "http"), (":authority", "edge")]


async def _serve(edge: harness.Edge, replica: upstream.Upstream, padding_bytes: int) -> None:
    replica.padding_bytes = padding_bytes
    plan = control.set_model_traffic(edge.root, ONE, epoch=1)
    await edge.serve(replica)
    await control.wait_applied(edge.root, plan, timeout_s=30)


def _connect(port: int) -> socket.socket:
    """With a small window, so that the kernel holds little of an answer."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.connect(("127.0.0.1", port))
    made.setblocking(False)
    return made


async def _connections(edge: harness.Edge) -> int:
    """How many callers' connections Envoy holds; a caller who takes nothing is told of no end."""
    found = control.current_status(edge.root)
    assert found is not None
    async with httpx.AsyncClient(base_url=found.admin_url or "", trust_env=False) as client:
        name = "^http.edge.downstream_cx_active$"
        said = await client.get("/stats", params={"filter": name})
    return int(said.text.rpartition(":")[2])
