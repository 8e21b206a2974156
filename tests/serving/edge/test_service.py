"""The edge with a real Envoy: traffic moves and replicas come and go without a lost request."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path

import httpx
import pytest

from serving import endpoint, errors
from serving.discovery import traffic
from serving.edge import admin, control, history, home
from tests.serving.edge import harness, load, upstream

ONE = traffic.whole("grammar", 1)


def split(*weights: tuple[int, int]) -> traffic.ModelTraffic:
    return traffic.ModelTraffic(
        model="grammar",
        weights=tuple(traffic.Weight(version=v, percent=p) for v, p in weights),
    )


async def test_traffic_moves_from_old_to_new_under_load_without_a_failure(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as old, upstream.Upstream(2) as new:
        plan = control.set_model_traffic(edge.root, split((1, 100), (2, 0)), epoch=1)
        await edge.serve(old, new)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with load.Load(edge.url) as callers:
            for percent in (10, 50, 100):
                step = split((1, 100 - percent), (2, percent))
                plan = control.set_model_traffic(edge.root, step, epoch=1)
                await control.wait_applied(edge.root, plan, timeout_s=30)
                await asyncio.sleep(0.2)
            await edge.serve(new)
            await asyncio.sleep(0.2)
            served_by_old = old.served
            await asyncio.sleep(0.2)
        assert callers.failures == []
        assert callers.versions[1] > 0
        assert callers.versions[2] > 0
        assert old.served == served_by_old
        counted = await control.stats(edge.root, "grammar", 2)
        assert counted.ok == new.served
        assert counted.server_errors == 0


async def test_weights_split_the_requests(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as old, upstream.Upstream(2) as new:
        plan = control.set_model_traffic(edge.root, split((1, 80), (2, 20)), epoch=1)
        await edge.serve(old, new)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        async with load.Load(edge.url) as callers:
            await edge.until(lambda: callers.versions.total() >= 400)
        total = callers.versions.total()
        # Five standard deviations of a binomial share of 20 percent.
        assert abs(callers.versions[2] / total - 0.2) < 5 * (0.2 * 0.8 / total) ** 0.5


async def test_a_leaving_replica_finishes_what_it_holds(run_edge: harness.RunEdge) -> None:
    async with (
        run_edge() as edge,
        upstream.Upstream(1) as slow,
        upstream.Upstream(1) as quick,
        httpx.AsyncClient(trust_env=False, verify=False) as client,
    ):
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(slow)
        slow.gate.clear()
        held = [asyncio.create_task(client.post(edge.url)) for _ in range(4)]
        await edge.until(lambda: slow.in_flight == 4)
        leaving = slow.endpoint(endpoint.EndpointState.DRAINING)
        await edge.acked(edge.source.set(leaving, quick.endpoint()))
        assert slow.in_flight == 4
        assert (await client.post(edge.url)).json()["port"] == quick.port
        await edge.acked(edge.source.set(quick.endpoint()))
        slow.gate.set()
        assert [r.status_code for r in await asyncio.gather(*held)] == [200] * 4


async def test_a_version_that_lost_all_replicas_finishes_what_it_holds(
    run_edge: harness.RunEdge,
) -> None:
    async with (
        run_edge() as edge,
        upstream.Upstream(1) as old,
        upstream.Upstream(2) as new,
        httpx.AsyncClient(trust_env=False, verify=False) as client,
    ):
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(old, new)
        old.gate.clear()
        held = asyncio.create_task(client.post(edge.url))
        await edge.until(lambda: old.in_flight == 1)
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 2), epoch=1)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        await edge.serve(new)
        await control.wait_endpoints(edge.root, "grammar", 1, count=0, timeout_s=30)
        assert old.in_flight == 1
        old.gate.set()
        assert (await held).status_code == 200


async def test_envoy_killed_is_started_again_and_serves(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        before = control.current_status(edge.root)
        assert before is not None
        assert before.envoy_pid is not None
        os.kill(before.envoy_pid, signal.SIGKILL)

        def back() -> bool:
            now = control.current_status(edge.root)
            return now is not None and now.envoy_starts == 2 and now.last_error is None

        await edge.until(back)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.post(edge.url)).status_code == 200
        generation = edge.source.set(replica.endpoint())
        await edge.acked(generation)


async def test_an_envoy_that_cannot_be_started_is_tried_again_until_it_can(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        before = control.current_status(edge.root)
        assert before is not None
        assert before.envoy_pid is not None
        edge.home.log.unlink()
        edge.home.log.mkdir()  # as on a disk that has become read-only: the log does not open
        os.kill(before.envoy_pid, signal.SIGKILL)

        def said() -> str:
            now = control.current_status(edge.root)
            return (now.last_error if now is not None else None) or ""

        await edge.until(lambda: "Envoy did not start" in said())
        assert edge.home.log.name in said()
        edge.home.log.rmdir()
        await edge.until(lambda: not said())
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.post(edge.url)).status_code == 200


async def test_a_cluster_is_removed_once_nobody_needs_it(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as old, upstream.Upstream(2) as new:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(old, new)
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 2), epoch=1)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        await edge.serve(new)

        def known() -> list[int]:
            now = control.current_status(edge.root)
            return [v.version for v in now.versions] if now is not None else []

        assert known() == [1, 2]
        await edge.until(lambda: known() == [2])
        now = control.current_status(edge.root)
        assert now is not None
        assert now.admin_url is not None
        async with admin.AdminClient(now.admin_url) as asked:
            assert set(await asked.endpoints()) == {"grammar@v2"}
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.post(edge.url)).status_code == 200


async def test_a_failing_source_leaves_the_last_good_listing(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        edge.source.endpoints = ()
        edge.source.failing = True

        def reported() -> bool:
            now = control.current_status(edge.root)
            return now is not None and "the source is away" in (now.last_error or "")

        await edge.until(reported)
        now = control.current_status(edge.root)
        assert now is not None
        assert now.source_age_s is not None
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.post(edge.url)).status_code == 200
            edge.source.failing = False
            await edge.acked(edge.source.set())
            assert (await client.post(edge.url)).status_code == 503


async def test_a_slow_replica_gets_fewer_requests(run_edge: harness.RunEdge) -> None:
    async with (
        run_edge() as edge,
        upstream.Upstream(1) as slow,
        upstream.Upstream(1) as quick,
        upstream.Upstream(1) as quick_too,
    ):
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(slow, quick, quick_too)
        slow.gate.clear()
        async with load.Load(edge.url, callers=12) as callers:
            while callers.ports.total() < 600:
                enough = quick.served + quick_too.served + 40
                await edge.until(
                    lambda enough=enough: (
                        quick.served + quick_too.served >= enough or slow.in_flight == 12
                    )
                )
                slow.gate.set()  # it answers what it holds, while the others answered forty
                slow.gate.clear()
                await asyncio.sleep(0)
            slow.gate.set()
        assert callers.failures == []
        # Blind choice gives each a third. Envoy's two choices may be the same replica, so a ninth
        # goes to the slow one however slow it is; 600 requests tell the two apart by six sigma.
        assert 1 / 9 / 2 < callers.ports[slow.port] / callers.ports.total() < 0.22


async def test_a_failing_replica_is_ejected_even_when_there_are_only_two(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as good, upstream.Upstream(1) as bad:
        bad.status = 500
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(good, bad)
        async with load.Load(edge.url, callers=2) as callers:
            await edge.until(lambda: good.served >= 100)
        counted = await control.stats(edge.root, "grammar", 1)
        assert counted.ejections_active == 1
        assert bad.served == len(callers.failures) < 15


async def test_a_dead_replica_costs_no_request(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as good:
        async with upstream.Upstream(1) as dying:
            control.set_model_traffic(edge.root, ONE, epoch=1)
            await edge.serve(good, dying)
        async with load.Load(edge.url, callers=32) as callers:
            await edge.until(lambda: good.served >= 500)
        assert callers.failures == []
        assert (await control.stats(edge.root, "grammar", 1)).retries > 0


async def test_a_plan_of_an_older_owner_changes_nothing(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as old, upstream.Upstream(2) as new:
        plan = control.set_model_traffic(edge.root, traffic.whole("grammar", 2), epoch=5)
        await edge.serve(old, new)
        await control.wait_applied(edge.root, plan, timeout_s=30)
        stale = traffic.TrafficPlan(epoch=4, models=(ONE,))
        traffic.store(edge.home.traffic, stale)  # around the check of set_model_traffic

        def refused() -> bool:
            now = control.current_status(edge.root)
            return now is not None and "epoch 4" in (now.last_error or "")

        await edge.until(refused)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            assert (await client.post(edge.url)).json()["version"] == 2


async def test_requests_in_flight_finish_when_the_edge_stops(run_edge: harness.RunEdge) -> None:
    async with upstream.Upstream(1, delay_s=0.5) as replica:
        async with httpx.AsyncClient(trust_env=False, verify=False) as client, run_edge() as edge:
            control.set_model_traffic(edge.root, ONE, epoch=1)
            await edge.serve(replica)
            held = asyncio.create_task(client.post(edge.url))
            await edge.until(lambda: replica.in_flight == 1)
        assert (await held).status_code == 200
        assert edge.source.closed
        assert control.current_status(edge.root) is None


async def test_a_second_edge_of_the_same_home_is_refused(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge:
        second = harness.Edge(edge.root, edge.settings)
        with pytest.raises(errors.EdgeError, match=f"process {os.getpid()}"):
            await second.service.run()


async def test_a_second_edge_on_the_same_port_is_refused(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge:
        running = control.current_status(edge.root)
        assert running is not None
        other = harness.Edge(edge.root / "other", edge.settings)
        with pytest.raises(errors.PortTaken, match=f"process {running.envoy_pid}"):
            await other.service.run()


async def test_a_restarted_service_takes_over_the_running_envoy(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        before = control.current_status(edge.root)
        assert before is not None
        heir = harness.Edge(edge.root, edge.settings)
        await heir.service._envoy.start()
        assert heir.service._envoy.pid == before.envoy_pid


async def test_wait_applied_says_what_is_missing(run_edge: harness.RunEdge) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as replica:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        await edge.serve(replica)
        plan = control.set_model_traffic(edge.root, split((1, 50), (2, 50)), epoch=1)
        with pytest.raises(errors.EdgeError, match="version 2: weight 0, 0 replicas"):
            await control.wait_applied(edge.root, plan, timeout_s=0.5)


def test_the_home_of_an_edge_is_private(tmp_path: Path) -> None:
    edge = home.EdgeHome.of(tmp_path)
    edge.create()
    assert edge.root.stat().st_mode & 0o077 == 0


async def test_draining_replicas_and_what_was_counted_are_published(
    run_edge: harness.RunEdge,
) -> None:
    async with run_edge() as edge, upstream.Upstream(1) as leaving, upstream.Upstream(1) as stays:
        control.set_model_traffic(edge.root, ONE, epoch=1)
        gone = leaving.endpoint(endpoint.EndpointState.DRAINING)
        await edge.acked(edge.source.set(gone, stays.endpoint()))

        def draining() -> int | None:
            found = control.current_status(edge.root)
            version = found.version("grammar", 1) if found is not None else None
            return version.draining if version is not None else None

        await edge.until(lambda: draining() == 1)
        async with httpx.AsyncClient(trust_env=False, verify=False) as client:
            for _ in range(7):
                await client.post(edge.url)

        def counted() -> tuple[int, int]:
            known = history.load(edge.home.counts).of("grammar", now_s=time.monotonic())
            seen = known.over(300) if known is not None else None
            return (seen.requests, seen.measured) if seen is not None else (0, 0)

        await edge.until(lambda: counted() == (7, 7))
