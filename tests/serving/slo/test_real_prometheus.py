"""A real Prometheus scrapes a real Envoy, with the generated rules: names and numbers are true."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from serving.discovery import traffic
from serving.edge import config, control
from serving.slo import SLO, Sli, dashboard, prometheus, promql, rules
from tests.serving.edge import harness, upstream
from tests.serving.slo import prom

EVERY_S = 0.25
PROMISE = SLO(availability=0.9, latency_quantile=0.9, latency_ms=1000.0)


@contextlib.asynccontextmanager
async def edge_with(replica: upstream.Upstream, root: Path) -> AsyncIterator[harness.Edge]:
    """A real Envoy that sends to one replica."""
    settings = config.EdgeSettings(port=harness.free_port(), workers=1, drain_s=0.1)
    edge = harness.Edge(root, settings)
    task = asyncio.create_task(edge.service.run())
    try:
        await edge.until(lambda: control.current_status(root) is not None or task.done())
        plan = control.set_model_traffic(root, traffic.whole("grammar", 1), epoch=1)
        await edge.serve(replica)
        await control.wait_applied(root, plan, timeout_s=30)
        yield edge
    finally:
        edge.service.stop()
        await task


@contextlib.asynccontextmanager
async def prometheus_of(folder: Path, target: str) -> AsyncIterator[str]:
    """A Prometheus with the generated rules and one edge, both looked at often; its address."""
    binary = prom.program("prometheus")
    for name, text in rules.files({"grammar": PROMISE}, every_s=EVERY_S).items():
        (folder / name).write_text(text)
    every = promql.duration(EVERY_S)
    scrape = {
        "job_name": promql.EDGE_JOB, "metrics_path": "/stats/prometheus",
        "static_configs": [{"targets": [target]}],
    }  # fmt: skip
    settings = {
        "global": {"scrape_interval": every, "scrape_timeout": every},
        "rule_files": ["*.rules.yml"],
        "scrape_configs": [scrape],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    address = f"127.0.0.1:{harness.free_port()}"
    with (folder / "prometheus.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            binary, f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}",
            stdout=log, stderr=log,
        )  # fmt: skip
    try:
        yield f"http://{address}"
    finally:
        process.terminate()
        await process.wait()


class Asked:
    """What a Prometheus says."""

    def __init__(self, url: str, client: httpx.AsyncClient) -> None:
        self._url, self._client = url, client

    async def get(self, path: str, **params: str) -> Any:
        try:
            found = await self._client.get(f"{self._url}/api/v1/{path}", params=params)
        except httpx.TransportError:  # not up yet
            return None
        return found.json() if found.status_code == 200 else None

    async def value(self, expr: str) -> float | None:
        found = await self.get("query", query=expr)
        result = found["data"]["result"] if found is not None else []
        return float(result[0]["value"][1]) if result else None

    async def until(self, expr: str) -> None:
        async with asyncio.timeout(60):
            while await self.value(expr) is None:  # noqa: ASYNC110  it tells nobody
                await asyncio.sleep(0.1)


async def test_promises_are_watched_over_a_real_envoy_by_a_real_prometheus(tmp_path: Path) -> None:
    prom.program("prometheus")
    (tmp_path / "edge").mkdir()
    (tmp_path / "prom").mkdir()
    async with (
        upstream.Upstream(1) as replica,
        edge_with(replica, tmp_path / "edge") as edge,
        httpx.AsyncClient(trust_env=False, verify=False) as client,
    ):
        found = control.current_status(edge.root)
        assert found is not None
        assert found.admin_url is not None
        async with prometheus_of(tmp_path / "prom", found.admin_url.partition("//")[2]) as url:
            asked = Asked(url, client)
            await asked.until(promql.series(promql.REQUESTS, "grammar", sli="availability"))
            # A counter appears with its first fault, which a rate cannot see; see slo/alerts.py.
            replica.status = 500
            assert (await client.post(edge.url)).status_code == 500
            await asked.until(
                promql.envoy("upstream_rq_xx", "grammar", ',envoy_response_code_class="5"')
            )
            await _send(client, edge.url, replica)
            burning = promql.series(promql.BURN, "grammar", sli="availability", window="5m")
            await asked.until(f"{burning} > 0")
            # Envoy merges its histograms less often than it counts; until then it is 0/0.
            waited = promql.series(promql.BURN, "grammar", sli="latency", window="5m")
            await asked.until(f"{waited} >= 0")
            availability, latency = await asyncio.to_thread(
                prometheus.standings, url, "grammar", PROMISE
            )
            assert [s.sli for s in (availability, latency)] == list(Sli)
            fast = availability.over(300.0)
            assert fast is not None
            assert fast.rate is not None
            # Half of them failed, of which a tenth may; scrapes see the halves at other moments.
            assert 1.0 < fast.rate <= 10.0
            assert availability.budget_left is not None
            slow = latency.over(300.0)
            assert slow is not None
            assert slow.rate == pytest.approx(0.0, abs=1e-9)
            own = await asked.value(f"sum({promql.EDGE_FAULTS})")
            # Half of all answers are faults, each a version's. Over so few scrapes a rate is
            # extended by up to half of one, other than for a counter that is a scrape younger.
            assert own == pytest.approx(0.0, abs=0.15)
            await _every_rule_is_well(asked)
            await _every_panel_can_be_drawn(asked)


async def _send(client: httpx.AsyncClient, url: str, replica: upstream.Upstream) -> None:
    """Requests, half of them failing, until several scrapes have seen both kinds."""
    for _ in range(8):
        for status in (200, 500):
            replica.status = status
            for _ in range(3):
                assert (await client.post(url)).status_code == status
        await asyncio.sleep(EVERY_S / 2)


async def _every_rule_is_well(asked: Asked) -> None:
    groups = (await asked.get("rules"))["data"]["groups"]
    listed = [rule for group in groups for rule in group["rules"]]
    wanted = [
        rule
        for text in rules.files({"grammar": PROMISE}).values()
        for group in yaml.safe_load(text)["groups"]
        for rule in group["rules"]
    ]
    assert len(listed) == len(wanted)
    assert {(rule["health"], rule.get("lastError", "")) for rule in listed} <= {
        ("ok", ""), ("unknown", ""),
    }  # fmt: skip


async def _every_panel_can_be_drawn(asked: Asked) -> None:
    """Each query is one; those about the edge have an answer. None asks for what Envoy has not."""
    shown = json.loads(dashboard.as_text(PROMISE, "grammar"))
    for panel in shown["panels"]:
        for target in panel["targets"]:
            expr = target["expr"]
            found = await asked.get("query", query=expr)
            assert found is not None, expr
            elsewhere = promql.QUEUE_AGE in expr or promql.DISCOVERY_AGE in expr
            assert elsewhere or found["data"]["result"], expr
