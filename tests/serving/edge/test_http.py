"""What a caller of the edge sees: models, headers, limits and errors, with a real Envoy."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from serving.discovery import traffic
from serving.edge import control
from tests.serving.edge import harness, upstream

ONE = traffic.whole("grammar", 1)


async def test_without_a_plan_the_edge_says_why_it_serves_nothing(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        await edge.serve(replica)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            response = await client.post(edge.url)
            assert (await client.get(f"{edge.url}/edge/healthz")).status_code == 200
    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert "traffic plan" in response.json()["error"]["message"]


async def test_several_models_live_behind_one_edge(run_edge: harness.RunEdge) -> None:
    async with (
        run_edge() as edge,
        upstream.Upstream(1) as first,
        upstream.Upstream(7, model="spelling") as second,
    ):
        control.set_model_traffic(edge.root, ONE, epoch=1)
        plan = control.set_model_traffic(edge.root, traffic.whole("spelling", 7), epoch=1)
        await edge.serve(first, second)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            default = await client.post(edge.url)
            named = await client.post(edge.url, headers={"x-liftlock-model": "spelling"})
            unknown = await client.post(edge.url, headers={"x-liftlock-model": "other"})
    assert default.headers["x-liftlock-model"] == "grammar"
    assert named.headers["x-liftlock-model"] == "spelling"
    assert unknown.status_code == 404
    assert "grammar, spelling" in unknown.json()["error"]["message"]


async def test_a_pinned_request_meets_its_version_while_two_share_the_traffic(
    run_edge: harness.RunEdge,
) -> None:
    half = tuple(traffic.Weight(version=version, percent=50) for version in (1, 2))
    shared = traffic.ModelTraffic(model="grammar", weights=half)
    async with run_edge() as edge, upstream.Upstream(1) as old, upstream.Upstream(2) as new:
        plan = control.set_model_traffic(edge.root, shared, epoch=1)
        await edge.serve(old, new)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        seen: dict[str, set[str]] = {}
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            for pin in ("1", "2", "3"):
                headers = {"x-liftlock-version-pin": pin}
                answers = [await client.post(edge.url, headers=headers) for _ in range(20)]
                seen[pin] = {answer.headers["x-liftlock-version"] for answer in answers}
    assert seen["1"] == {"1"}
    assert seen["2"] == {"2"}
    assert seen["3"] == {"1", "2"}  # left to the replicas, which refuse it


async def test_headers_pass_through_and_envoys_own_do_not(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, upstream.Upstream(1, delay_s=0.05) as replica:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        sent = {
            "x-request-id": "my-own-id",
            "x-request-timeout-ms": "900",
            "x-envoy-upstream-rq-timeout-ms": "1",  # must not be a caller's to set
        }
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            response = await client.post(edge.url, headers=sent)
            anonymous = await client.post(edge.url)
    assert response.status_code == 200
    assert response.headers.get_list("x-request-id") == ["my-own-id"]
    assert response.headers["server"] == "replica"
    assert not [name for name in response.headers if name.startswith("x-envoy")]
    assert replica.requests[0][1]["x-request-timeout-ms"] == "900"
    assert len(anonymous.headers["x-request-id"]) > 16


@pytest.mark.parametrize(("size", "status"), [(1000, 200), (5000, 413)], ids=["fits", "too large"])
async def test_bodies_are_limited(run_edge: harness.RunEdge, size: int, status: int) -> None:
    async with run_edge(max_body_bytes=4096) as edge, upstream.Upstream(1) as replica:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            response = await client.post(edge.url, content=b"x" * size)
    assert response.status_code == status
    assert len(replica.requests) == (1 if status == 200 else 0)


async def test_a_request_cut_off_by_its_replica_is_not_said_to_be_untouched(
    run_edge: harness.RunEdge,
) -> None:
    """503 would tell callers that it may be sent again whatever it does."""
    async with run_edge() as edge:
        async with upstream.Upstream(1) as replica:
            control.set_model_traffic(edge.root, ONE, epoch=1)
            await edge.serve(replica)
            replica.gate.clear()
            async with httpx.AsyncClient(trust_env=False, verify=False) as client:
                asked = asyncio.create_task(client.post(edge.url))
                await asyncio.wait_for(replica.working.wait(), 10)
                replica.hang_up()
                answer = await asked
        assert answer.status_code == 502
        assert answer.json()["error"]["code"] == "replica_broke_off"
        assert "retry-after" not in answer.headers
