"""A version's promise is judged by what the real edge counted of that very version."""

from __future__ import annotations

import asyncio

import httpx

from pipelines.rollout import Move, Observation, Terms, decide
from pipelines.rollout_policy import RolloutPolicy
from serving.discovery import traffic
from serving.edge import control, interval
from serving.slo import SLO
from tests.serving.edge import harness, upstream

REQUESTS = 60
PROMISE = SLO(latency_ms=200.0)
TERMS = Terms(policy=RolloutPolicy(bake_s=0.0), slo=PROMISE)
HALF = traffic.ModelTraffic(
    model="grammar",
    weights=(traffic.Weight(version=1, percent=50), traffic.Weight(version=2, percent=50)),
)


async def counted(edge: harness.Edge, version: int) -> interval.Interval:
    """All requests of a version, once Envoy's histogram has as many as its counters."""
    async with asyncio.timeout(10):
        while True:
            seen = interval.between(
                None, await control.stats(edge.root, "grammar", version), seconds=1.0
            )
            if seen.measured == seen.requests > 0:
                return seen
            await asyncio.sleep(0.1)


async def ask(edge: harness.Edge) -> None:
    async with httpx.AsyncClient(trust_env=False, verify=False) as http:
        headers = {"x-liftlock-model": "grammar"}
        sent = [
            http.post(f"{edge.url}/v1/corrections", json={"text": "a"}, headers=headers)
            for _ in range(REQUESTS)
        ]
        await asyncio.gather(*sent)


async def test_a_slow_version_is_taken_back_for_latency_and_the_fast_one_beside_it_is_not(
    run_edge: harness.RunEdge,
) -> None:
    async with (
        run_edge() as edge,
        upstream.Upstream(1) as old,
        upstream.Upstream(2, delay_s=0.35) as slow,
    ):
        plan = control.set_model_traffic(edge.root, HALF, epoch=1)
        await edge.serve(old, slow)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        await ask(edge)
        first, second = await counted(edge, 1), await counted(edge, 2)
        assert second.requests == slow.served
        found = decide(
            TERMS,
            step_age_s=1.0,
            observed=Observation(counted=second, ready_replicas=1, beside=first),
        )
        assert found.move is Move.REVERT
        assert found.reason.startswith(
            f"latency: {slow.served} of {slow.served} slower than 200 ms"
        )
        assert "the old version at the same time: latency" in found.reason
        seen = Observation(counted=first, ready_replicas=1)
        assert decide(TERMS, step_age_s=1.0, observed=seen).move is Move.ADVANCE


async def test_a_version_that_answers_500_is_taken_back_for_availability(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as old, upstream.Upstream(2) as bad:
        bad.status = 500
        plan = control.set_model_traffic(edge.root, HALF, epoch=1)
        await edge.serve(old, bad)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        await ask(edge)
        seen = Observation(counted=await counted(edge, 2), ready_replicas=1)
        found = decide(TERMS, step_age_s=0.0, observed=seen)
        assert found.move is Move.REVERT
        assert found.reason.startswith("availability: ")
