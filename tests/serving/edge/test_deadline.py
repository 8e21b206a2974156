"""The deadline header at a real Envoy: a late answer is an error in time, and nobody's fault."""

from __future__ import annotations

import time

import httpx
import pytest

from serving.discovery import traffic
from serving.edge import control
from tests.serving.edge import harness, upstream

ONE = traffic.whole("grammar", 1)


async def test_a_replica_that_hangs_past_the_deadline_is_answered_for(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        replica.gate.clear()
        since_s = time.monotonic()
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
            late = await client.post(edge.url, headers={"x-request-timeout-ms": "300"})
        took_s = time.monotonic() - since_s
        replica.gate.set()
    assert late.status_code == 504
    assert late.json()["error"]["code"] == "deadline_exceeded"
    assert late.json()["error"]["type"] == "timeout_error"
    assert 0.3 <= took_s < 5.0


async def test_hopeless_deadlines_eject_no_replica_and_count_as_no_fault(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1, delay_s=0.2) as replica:
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            hopeless = {"x-request-timeout-ms": "1"}
            late = [await client.post(edge.url, headers=hopeless) for _ in range(20)]
            fine = await client.post(edge.url)
        counted = await control.stats(edge.root, "grammar", 1)
    assert {answer.status_code for answer in late} == {504}
    assert fine.status_code == 200
    assert (counted.ejections_active, counted.server_errors) == (0, 0)


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ("900", 200),
        ("0", 504),
        ("-5", 200),
        ("abc", 200),
        ("1e3", 200),
        ("9" * 30, 200),
        ("100000000", 200),
        ("m50", 200),
        ("", 200),
    ],
)
async def test_what_is_no_deadline_counts_as_none_and_is_left_to_the_replica(
    run_edge: harness.RunEdge, said: str, status: int
) -> None:
    async with (
        run_edge() as edge,
        upstream.Upstream(1, delay_s=0.3) as replica,
    ):
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            sent = {"x-request-timeout-ms": said, "grpc-timeout": "1m"}
            answer = await client.post(edge.url, headers=sent)
    assert answer.status_code == status
    for _, seen, _ in replica.requests:  # with no time at all it may get none
        assert seen["x-request-timeout-ms"] == said
        assert "grpc-timeout" not in seen
    assert replica.requests or status != 200


async def test_no_deadline_outlasts_the_edges_own(run_edge: harness.RunEdge) -> None:
    async with run_edge(request_s=0.4, body_s=0.2) as edge, upstream.Upstream(1) as replica:
        plan = control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        replica.gate.clear()
        async with httpx.AsyncClient(trust_env=False, verify=False, timeout=30) as client:
            since_s = time.monotonic()
            for said in ("86400000", "nonsense"):
                late = await client.post(edge.url, headers={"x-request-timeout-ms": said})
                assert late.status_code == 504
                assert late.json()["error"]["code"] == "deadline_exceeded"
            assert time.monotonic() - since_s < 10
        replica.gate.set()
