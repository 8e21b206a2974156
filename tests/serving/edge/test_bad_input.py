"""Callers who mean ill, or do not know better, at a real Envoy: always an answer, never a 5xx."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from serving.discovery import traffic
from serving.edge import control
from tests.serving.edge import harness, upstream

ONE = traffic.whole("grammar", 1)


async def test_oversized_headers_are_refused_and_the_next_caller_is_served(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge(max_headers_kib=8) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            large = await client.post(edge.url, headers={"x-large": "a" * 9_000})
            many = await client.post(edge.url, headers={f"x-{n}": "a" for n in range(150)})
            assert (await client.post(edge.url)).status_code == 200
    assert (large.status_code, many.status_code) == (431, 431)
    assert replica.served == 1


@pytest.mark.parametrize(
    "begun",
    [
        b"POST / HTTP/1.1\r\nhost: edge\r\nx-slow: ",
        b"POST / HTTP/1.1\r\nhost: edge\r\ncontent-length: 50\r\n\r\nab",
    ],
    ids=["headers", "body"],
)
async def test_a_request_that_trickles_in_is_ended(run_edge: harness.RunEdge, begun: bytes) -> None:
    async with run_edge(headers_s=0.5, body_s=0.8) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        since_s = time.monotonic()
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.settings.port)
        writer.write(begun)
        trickle = asyncio.create_task(_trickle(writer))
        async with asyncio.timeout(20):
            head = await reader.readuntil(b"\r\n\r\n")
        trickle.cancel()
        writer.close()
    assert b" 408 " in head
    assert 0.3 < time.monotonic() - since_s < 10
    assert not replica.requests


async def _trickle(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"a")
        await asyncio.sleep(0.1)


async def test_hundreds_of_slow_callers_keep_nobody_else_from_being_served(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge(headers_s=1.0) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        slow = [await asyncio.open_connection("127.0.0.1", edge.settings.port) for _ in range(200)]
        for _, writer in slow:
            writer.write(b"POST / HTTP/1.1\r\nhost: ")
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            answers = [await client.post(edge.url) for _ in range(20)]
        async with asyncio.timeout(20):
            ends = await asyncio.gather(*(reader.read() for reader, _ in slow))
        for _, writer in slow:
            writer.close()
    assert {answer.status_code for answer in answers} == {200}
    assert all(b" 408 " in end for end in ends)


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"POST / HTTP/9.9\r\n\r\n",
        b"POST / HTTP/1.1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: e\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nhost: e\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\nabc",
        b"POST / HTTP/1.1\r\nhost: e\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 40,
    ],
    ids=[
        "nonsense",
        "version",
        "no host",
        "length",
        "two lengths",
        "coding",
        "TLS",
        "HTTP/2 garbage",
    ],
)
async def test_what_is_no_request_is_refused_and_reaches_no_replica(
    run_edge: harness.RunEdge, sent: bytes
) -> None:
    async with run_edge(headers_s=0.5) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        reader, writer = await asyncio.open_connection("127.0.0.1", edge.settings.port)
        writer.write(sent)
        async with asyncio.timeout(20):
            answer = await reader.read()
        writer.close()
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.post(edge.url)).status_code == 200
    assert not answer.startswith(b"HTTP/1.1 2")
    assert b" 50" not in answer[:16]
    assert replica.served == 1
