"""The generated rules: Prometheus takes them, and they compute what the code computes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from pipelines import config as configs
from serving.discovery import __main__ as discovery
from serving.edge import write_bootstrap
from serving.edge.admin import LatencyBucket
from serving.edge.interval import Interval
from serving.slo import SLO, Sli, burn, dashboard, promql, rules
from tests.serving.slo import prom
from tests.serving.slo.test_alerts_fire import counting, faults, traffic

RUNBOOKS = prom.ROOT / "docs" / "runbooks"
EXAMPLE = configs.load(prom.ROOT / "examples" / "promotion.yaml")
PROMISES = {
    "grammar": SLO(),
    "grammar-de": SLO(latency_quantile=0.5, latency_ms=0.3, window_days=1, availability=0.9),
    "m": SLO(latency_quantile=0.9, latency_ms=250.0, window_days=7, availability=0.95),
}


def told(files: dict[str, str]) -> list[dict[str, object]]:
    loaded = [yaml.safe_load(text) for text in files.values()]
    return [r for f in loaded for g in f["groups"] for r in g["rules"] if "alert" in r]


def test_prometheus_takes_the_rules_of_any_promise(tmp_path: Path) -> None:
    for name, text in rules.files(PROMISES).items():
        (tmp_path / name).write_text(text)
    prom.check("rules", *sorted(tmp_path.iterdir()))


def test_every_alert_has_a_page_and_every_page_an_alert() -> None:
    found = told(rules.files({"grammar": SLO()}))
    pages = {path.stem for path in RUNBOOKS.glob("*.md")} - {"index"}
    assert {alert["alert"] for alert in found} == pages
    for alert in found:
        annotations = alert["annotations"]
        assert isinstance(annotations, dict)
        assert (prom.ROOT / annotations["runbook_url"]).is_file()


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("Liftlock*.md")), ids=lambda p: p.stem)
def test_a_page_says_what_it_means_how_to_look_and_what_to_do(page: Path) -> None:
    text = page.read_text()
    assert re.findall(r"^#+ (.*)$", text, re.MULTILINE) == [
        page.stem, "What it means", "How to look", "What to do",
    ]  # fmt: skip
    assert 15 <= len(text.splitlines()) <= 30


def test_pages_can_be_anywhere() -> None:
    files = rules.files({"grammar": SLO()}, runbooks="https://wiki.example/runbooks/")
    assert "https://wiki.example/runbooks/LiftlockEdgeDown.md" in "".join(files.values())


def test_shipped_rules_and_dashboard_are_what_the_example_settings_generate() -> None:
    promises = {EXAMPLE.model: EXAMPLE.slo}
    folder = prom.ROOT / "deploy" / "prometheus"
    assert {p.name: p.read_text() for p in folder.glob("*.rules.yml")} == rules.files(promises)
    shown = prom.ROOT / "deploy" / "grafana" / dashboard.name(EXAMPLE.model)
    assert shown.read_text() == dashboard.as_text(EXAMPLE.slo, EXAMPLE.model)


def test_shipped_scrape_configuration_names_the_jobs_and_the_rules() -> None:
    path = prom.ROOT / "deploy" / "prometheus" / "prometheus.yml"
    prom.check("config", path)
    jobs = {job["job_name"] for job in yaml.safe_load(path.read_text())["scrape_configs"]}
    assert {promql.EDGE_JOB, promql.REPLICA_JOB} <= jobs


def test_scraped_ports_are_those_that_the_programs_take_by_themselves() -> None:
    found = yaml.safe_load((prom.ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    asked = {
        job["job_name"]: target
        for job in found["scrape_configs"]
        for static in job["static_configs"]
        for target in static["targets"]
    }
    admin_port = write_bootstrap.parser().get_default("admin_port")
    assert asked.pop(promql.EDGE_JOB) == f"127.0.0.1:{admin_port}"
    assert asked.pop("liftlock-discovery") == discovery.parser().get_default("feed")
    assert asked.keys() == {promql.REPLICA_JOB}, "each replica is given its port"


def test_a_prometheus_in_the_cluster_takes_the_rules_and_has_the_jobs_they_go_by(
    tmp_path: Path,
) -> None:
    for file in (prom.ROOT / "deploy" / "prometheus").glob("*.*.yml"):
        (tmp_path / file.name).write_text(file.read_text())
    text = (tmp_path / "kubernetes.scrape.yml").read_text()
    found = yaml.safe_load(text)["scrape_configs"]
    assert {job["job_name"] for job in found} == {
        promql.EDGE_JOB, promql.REPLICA_JOB, "liftlock-discovery"
    }  # fmt: skip
    for job in found:  # Debian builds Prometheus without this one
        assert job.pop("kubernetes_sd_configs")
    theirs = tmp_path / "theirs.yml"
    theirs.write_text(yaml.safe_dump({"rule_files": ["*.rules.yml"], "scrape_configs": found}))
    prom.check("config", theirs)


def test_recorded_numbers_are_those_that_the_code_computes(tmp_path: Path) -> None:
    slo = SLO(availability=0.999, window_days=1)
    minutes = 365  # the first rate is there after five
    seen_s = 360 * 60.0
    seen = Interval(
        seconds=seen_s, requests=10_000 * 360, faults=30 * 360,
        latency=(LatencyBucket(le_ms=1000.0, count=10_000 * 360),),
    )  # fmt: skip
    (availability, latency) = burn.standings(slo, lambda _: seen)
    assert availability.budget_left == pytest.approx(1 - 3 / 4)
    values: dict[str, float | None] = {
        f"round({promql.series(promql.BURN, 'grammar', sli='availability', window=w)}, 0.01)": 3
        for w in ("5m", "30m", "1h", "6h")
    }
    for standing in (availability, latency):
        left = promql.series(promql.BUDGET_LEFT, "grammar", sli=standing.sli)
        assert standing.budget_left is not None
        values[f"round({left}, 0.01)"] = round(standing.budget_left, 2)
    every_s = 300.0
    files = rules.files({"grammar": slo}, every_s=every_s)
    series = traffic(minutes) | faults((30, minutes))
    case = prom.Case(series=series, at_min=360, values={
        f"sum({expr})": value for expr, value in values.items()}, every="5m")  # fmt: skip
    prom.holds(tmp_path, files, case)


def test_without_a_fault_so_far_the_burn_is_zero_and_without_an_edge_it_is_not_known(
    tmp_path: Path,
) -> None:
    files = rules.files({"grammar": SLO()})
    expr = f"sum({promql.series(promql.BURN, 'grammar', window='5m')})"
    for series, value in ((traffic(20), 0), ({"other": "1+0x20"}, None)):
        prom.holds(tmp_path, files, prom.Case(series=series, at_min=15, values={expr: value}))


def test_without_traffic_there_is_no_number(tmp_path: Path) -> None:
    still = {name: counting((0, 20)) for name in traffic(20)}
    expr = f"sum({promql.series(promql.BURN, 'grammar', window='5m')}) >= 0"
    case = prom.Case(series=still, at_min=15, values={expr: None})
    prom.holds(tmp_path, rules.files({"grammar": SLO()}), case)


def test_dashboard_is_one_grid_of_panels_with_queries() -> None:
    for model, slo in PROMISES.items():
        shown = json.loads(dashboard.as_text(slo, model))
        taken = set()
        for panel in shown["panels"]:
            place = panel["gridPos"]
            assert place["x"] + place["w"] <= 24
            taken |= {(x, place["y"]) for x in range(place["x"], place["x"] + place["w"])}
            assert all(target["expr"] for target in panel["targets"])
        assert len(taken) == sum(p["gridPos"]["w"] for p in shown["panels"])
        titles = " ".join(p["title"] for p in shown["panels"])
        assert all(str(sli) in titles for sli in Sli)
