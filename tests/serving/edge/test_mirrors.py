"""Copies of requests: what Envoy is told, and that nobody notices them at a real one."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable

import httpx
import pytest

from serving.discovery import snapshot as discovery
from serving.discovery import traffic
from serving.edge import admin, config, control, mirrors, resources
from serving.keys.scopes import PREFIXES, Scope
from serving.slo import promql
from serving.slo.promise import Sli
from tests.serving.edge import harness, load, upstream
from tests.serving.edge.test_resources import snapshot_of

ONE = traffic.whole("grammar", 1)
TWO = discovery.ClusterKey(model="grammar", version=2)
ASK = "/v1/corrections"


def routes_of(snapshot: discovery.Snapshot) -> list[dict[str, object]]:
    table = resources.routes(snapshot, config.EdgeSettings())
    return list(table["virtual_hosts"][0]["routes"])


def test_only_routes_that_ask_a_model_copy_and_stand_before_those_that_do_not() -> None:
    plain = [route["name"] for route in routes_of(snapshot_of("a", "b"))]
    found = routes_of(snapshot_of("a", "b", mirrored={3: 0.5}))
    copying = [r["name"] for r in found if "request_mirror_policies" in str(r)]
    assert copying == ["a-copying", "b-copying", "default-copying"]
    names = [r["name"] for r in found]
    assert [name for name in names if name not in copying] == plain
    for name in copying:
        assert names.index(name) == names.index(str(name).removesuffix("-copying")) - 1


def test_paths_that_tell_something_are_not_copied() -> None:
    (route,) = (
        r for r in routes_of(snapshot_of("a", mirrored={3: 1.0})) if r["name"] == "a-copying"
    )
    pattern = route["match"]["safe_regex"]["regex"]  # type: ignore[index]
    copied = {prefix for prefix in PREFIXES if re.fullmatch(pattern, prefix)}
    assert {PREFIXES[prefix] for prefix in copied} == {Scope.CALL}
    looked_at = {"/v1/models", "/healthz", "/readyz", "/openapi.json"}
    assert {p for p, scope in PREFIXES.items() if scope is Scope.CALL} - copied == looked_at


@pytest.mark.parametrize(
    ("fraction", "millionths"), [(0.0001, 100), (1 / 3, 333_300), (0.99999, 1_000_000), (1, 1e6)]
)
def test_fractions_are_drawn_apart_from_the_version(fraction: float, millionths: int) -> None:
    """By the same number modulo a million as the version is modulo 100, so in hundreds of it."""
    found = routes_of(snapshot_of("a", mirrored={3: fraction}))
    (policy,) = next(r for r in found if r["name"] == "a-copying")["route"][  # type: ignore[index]
        "request_mirror_policies"
    ]
    drawn = policy["runtime_fraction"]["default_value"]
    assert drawn == {"numerator": millionths, "denominator": "MILLION"}
    assert mirrors.fraction_of(policy) == mirrors.rounded(fraction)


def test_a_mirror_is_a_cluster_of_its_own_that_no_count_of_versions_takes_in() -> None:
    settings = config.EdgeSettings(max_mirrored=7)
    documents = resources.documents(snapshot_of("grammar", mirrored={2: 0.5}), settings)
    found = {cluster["name"]: cluster for cluster in documents.clusters}
    mirror, version = found[TWO.mirror_name], found[TWO.name]
    assert mirror["circuit_breakers"] != version["circuit_breakers"]
    (limits,) = mirror["circuit_breakers"]["thresholds"]
    assert set(limits.values()) == {7, 0}
    assert limits["max_retries"] == 0
    addresses = {a["cluster_name"]: a["endpoints"] for a in documents.assignments}
    assert addresses[TWO.mirror_name] == addresses[TWO.name]
    for expression in (*(promql.requests("grammar", sli) for sli in Sli), promql.edge_faults()):
        for pattern in re.findall(r'envoy_cluster_name=~"([^"]+)"', expression):
            assert re.fullmatch(pattern, TWO.name)
            assert not re.fullmatch(pattern, TWO.mirror_name)


async def mirrored(edge: harness.Edge, fraction: float, *replicas: upstream.Upstream) -> None:
    """Have version 1 answer and version 2 get copies."""
    plan = control.set_model_traffic(edge.root, ONE, epoch=1)
    await edge.serve(*replicas)
    await control.wait_applied(edge.root, plan)
    await copied(edge, {2: fraction})


async def copied(edge: harness.Edge, fractions: dict[int, float]) -> None:
    plan = control.set_model_mirrors(edge.root, "grammar", fractions, epoch=1)
    model = plan.model("grammar")
    assert model is not None
    await control.wait_mirrored(edge.root, model)


async def counts(edge: harness.Edge) -> tuple[admin.ClusterStats, admin.ClusterStats]:
    """The counters of version 1 and of the copies; version 2 itself must have none."""
    found = control.current_status(edge.root)
    assert found is not None
    assert found.admin_url is not None
    async with admin.AdminClient(found.admin_url) as client:
        totals = await client.totals()
        assert totals.keys() <= {"grammar@v1", "grammar@v2"}
        assert totals["grammar@v2"].completed == 0
        return totals["grammar@v1"], await client.stats(TWO.mirror_name)


async def settled(edge: harness.Edge, mirror: upstream.Upstream) -> int:
    """How many copies there were, once the last is answered; Envoy counts as many as arrived."""
    async with asyncio.timeout(10):
        while True:
            _, copies = await counts(edge)
            if copies.active == 0 and copies.completed == mirror.served:
                return mirror.served
            await asyncio.sleep(0.02)


async def test_a_fraction_of_the_requests_is_copied_until_the_mirror_is_taken_away(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as one, upstream.Upstream(2) as two:
        await mirrored(edge, 0.25, one, two)
        told = {"x-liftlock-mirror": "from a caller", "x-request-timeout-ms": "9000"}
        async with load.Load(edge.url, path=ASK, headers=told) as callers:
            await edge.until(lambda: callers.versions.total() >= 800)
        assert set(callers.versions) == {1}
        assert callers.failures == []
        total, was_copied = callers.versions[1], await settled(edge, two)
        # Five standard deviations of a binomial share.
        assert abs(was_copied / total - 0.25) < 5 * (0.25 * 0.75 / total) ** 0.5
        ours, _ = await counts(edge)
        assert (ours.completed, ours.server_errors) == (one.served, 0)
        status = control.current_status(edge.root)
        assert status is not None
        assert {v.version: v.mirrored for v in status.versions} == {1: 0.0, 2: 0.25}

        assert not any("x-liftlock-mirror" in headers for _, headers, _ in one.requests)
        ids = [{h["x-request-id"] for _, h, _ in r.requests} for r in (one, two)]
        assert len(ids[0] & ids[1]) > 1  # of the last hundred of each
        for line, headers, body in two.requests:
            assert (line.split()[1], body) == (ASK, b'{"text": "a"}')
            assert headers["x-liftlock-mirror"] == "true"
            assert headers["host"] == "edge"
            assert headers["x-request-timeout-ms"] == "9000"
            assert "grpc-timeout" not in headers

        await copied(edge, {})
        async with load.Load(edge.url, path=ASK) as callers:
            await edge.until(lambda: callers.versions.total() >= 100)
        assert two.served == was_copied


async def test_nobody_is_troubled_by_a_mirror_that_fails_hangs_or_goes(
    run_edge: harness.RunEdge,
) -> None:
    async with (
        run_edge(max_mirrored=3, request_s=0.4) as edge,
        upstream.Upstream(1) as one,
        upstream.Upstream(2) as two,
        httpx.AsyncClient(trust_env=False, verify=False, timeout=5.0) as client,
    ):
        await mirrored(edge, 1.0, one, two)

        async def asked(number: int) -> None:
            began_s = time.monotonic()
            for _ in range(number):
                answer = await client.post(f"{edge.url}{ASK}")
                assert (answer.status_code, answer.headers["x-liftlock-version"]) == (200, "1")
            assert time.monotonic() - began_s < 2.0

        two.status = 500
        await asked(20)
        await edge.until(lambda: two.served == 20)
        two.gate.clear()
        await asked(20)
        await edge.until(lambda: two.in_flight == 3)  # and the others were not sent
        assert two.most_in_flight == 3
        async with asyncio.timeout(5):
            while (await counts(edge))[1].active:  # noqa: ASYNC110  given up at last
                await asyncio.sleep(0.02)
        await asked(20)
        two.hang_up()
        await edge.serve(one)  # the mirrored version has no replica any more
        await asked(20)
        ours, copies = await counts(edge)
        assert (ours.completed, ours.ok, ours.timeouts, ours.ejections_active) == (80, 80, 0, 0)
        assert copies.server_errors >= 20
        assert copies.retries == 0
        two.gate.set()


async def test_what_is_not_asked_of_the_model_at_large_is_not_copied(
    run_edge: harness.RunEdge,
) -> None:
    async with (
        run_edge() as edge,
        upstream.Upstream(1) as one,
        upstream.Upstream(2) as two,
        upstream.Upstream(7, model="spelling") as other,
        httpx.AsyncClient(trust_env=False, verify=False) as client,
    ):
        control.set_model_traffic(edge.root, traffic.whole("spelling", 7), epoch=1)
        await mirrored(edge, 1.0, one, two, other)

        def post(path: str, **headers: str) -> Awaitable[httpx.Response]:
            given = {f"x-liftlock-{name}": value for name, value in headers.items()}
            return client.post(f"{edge.url}{path}", headers={"x-liftlock-model": "grammar"} | given)

        answers = await asyncio.gather(
            post("/v1/feedback"),
            post("/v1/approvals"),
            post(ASK, **{"version-pin": "1"}),
            post(ASK, model="spelling"),
        )
        assert {answer.status_code for answer in answers} == {200}
        await post(f"{ASK}?a=b")
        await edge.until(lambda: two.served == 1)
        assert [line.split()[1] for line, _, _ in two.requests] == [f"{ASK}?a=b"]
