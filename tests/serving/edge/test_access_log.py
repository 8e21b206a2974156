"""The sampled access log of a real Envoy."""

from __future__ import annotations

import json

import httpx

from serving.discovery import traffic
from serving.edge import control
from tests.serving.edge import harness, upstream


async def test_a_share_of_the_requests_is_written_without_their_texts(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge(access_log=0.3) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            for _ in range(300):
                # One id for all: a caller must not choose what is logged.
                sent = {"x-request-id": "same", "authorization": "Bearer secret"}
                await client.post(edge.url, content=b"a private text", headers=sent)
    lines = (edge.home.root / "access.log").read_text().splitlines()
    # Five standard deviations of a binomial share of 0.3 of 300.
    assert abs(len(lines) - 90) < 5 * (300 * 0.3 * 0.7) ** 0.5
    first = json.loads(lines[0])
    assert (first["status"], first["request_id"]) == (200, "same")
    assert "secret" not in lines[0]
    assert "private" not in lines[0]


async def test_no_query_is_written_and_no_more_of_a_line_than_helps_to_read_it(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge(access_log=1.0) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            sent = {"x-request-id": "i" * 9_000}
            long = f"{edge.url}/{'p' * 9_000}?api_key=secret"
            assert (await client.post(long, headers=sent)).status_code == 200
    written = (edge.home.root / "access.log").read_text()
    assert "secret" not in written
    assert len(written) < 1_000
    line = json.loads(written)
    assert line["path"] == "/" + "p" * 255
    assert line["request_id"] == "i" * 128


async def test_without_a_share_there_is_no_log(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, httpx.AsyncClient(trust_env=False, verify=False) as client:
        await client.get(f"{edge.url}/edge/healthz")
    assert not (edge.home.root / "access.log").exists()
