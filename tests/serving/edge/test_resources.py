"""What Envoy is told, as data; and Envoy's own opinion of it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from serving.discovery import snapshot as discovery
from serving.discovery import traffic
from serving.edge import bootstrap, config, process, resources
from serving.endpoint import Endpoint, EndpointState

SETTINGS = config.EdgeSettings(port=18_000)
ODD_NAMES = ("grammar", "team.catalog/grammar v2", 'quote"and%percent', "a" * 200)


def replica(model: str, version: int, port: int) -> Endpoint:
    return Endpoint(
        replica_id=f"{model}-{version}-{port}",
        model=model,
        version=version,
        digest="d",
        host="127.0.0.1",
        port=port,
        state=EndpointState.READY,
    )


def snapshot_of(*models: str) -> discovery.Snapshot:
    plan = traffic.TrafficPlan(
        epoch=1,
        models=tuple(
            traffic.ModelTraffic(
                model=model,
                weights=(
                    traffic.Weight(version=1, percent=90),
                    traffic.Weight(version=2, percent=10),
                ),
            )
            for model in models
        ),
    )
    endpoints = [
        replica(model, version, 19_000 + version) for model in models for version in (1, 2)
    ]
    return discovery.build(endpoints, plan)


def as_static(snapshot: discovery.Snapshot, settings: config.EdgeSettings, root: Path) -> Any:
    """Everything in one bootstrap, since `--mode validate` does not read watched files."""
    paths = bootstrap.XdsPaths(root=root)
    paths.endpoints.mkdir(parents=True)
    for cluster in snapshot.clusters:
        file = paths.endpoints / resources.endpoints_file(cluster.key)
        file.write_text(json.dumps(resources.endpoints(cluster)))
    whole = bootstrap.bootstrap(settings, paths, "edge-1")
    del whole["dynamic_resources"]
    listener = whole["static_resources"]["listeners"][0]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    del manager["rds"]
    manager["route_config"] = plain(resources.routes(snapshot, settings))[0]
    clusters = plain(resources.clusters(snapshot, settings, paths))
    whole["static_resources"]["clusters"] = clusters
    return whole


def plain(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [{k: v for k, v in r.items() if k != "@type"} for r in document["resources"]]


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        config.EdgeSettings(port=18_000, access_log=True, listen_host="::1", max_body_bytes=1),
        config.EdgeSettings(port=18_000, retry=config.RetrySettings(retries=0), drain_s=0.0),
    ],
    ids=["defaults", "access log and IPv6", "no retries"],
)
def test_envoy_accepts_everything_we_build(settings: config.EdgeSettings, tmp_path: Path) -> None:
    file = tmp_path / "bootstrap.json"
    file.write_text(json.dumps(as_static(snapshot_of(*ODD_NAMES), settings, tmp_path / "xds")))
    done = subprocess.run(
        [process.envoy_binary(), "--mode", "validate", "--config-path", file],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_version_changes_with_the_content_and_only_with_it() -> None:
    one = resources.routes(snapshot_of("a"), SETTINGS)
    same = resources.routes(snapshot_of("a"), SETTINGS)
    other = resources.routes(snapshot_of("b"), SETTINGS)
    assert one["version_info"] == same["version_info"] != other["version_info"]


def test_clusters_choose_between_two_and_weigh_all_endpoints_alike(tmp_path: Path) -> None:
    snapshot = snapshot_of("grammar")
    paths = bootstrap.XdsPaths(root=tmp_path)
    for cluster in plain(resources.clusters(snapshot, SETTINGS, paths)):
        assert cluster["lb_policy"] == "LEAST_REQUEST"
        assert cluster["least_request_lb_config"] == {"choice_count": 2}
    assert "load_balancing_weight" not in json.dumps(resources.endpoints(snapshot.clusters[0]))


def test_only_what_no_replica_can_have_begun_is_retried() -> None:
    table = json.dumps(resources.routes(snapshot_of("grammar"), SETTINGS))
    assert '"retry_on": "connect-failure,refused-stream,reset-before-request"' in table


def test_the_first_model_answers_without_a_header() -> None:
    table = plain(resources.routes(snapshot_of("first", "second"), SETTINGS))[0]
    default = table["virtual_hosts"][0]["routes"][-1]
    names = [c["name"] for c in default["route"]["weighted_clusters"]["clusters"]]
    assert names == ["first@v1", "first@v2"]


def test_a_model_without_replicas_is_refused_with_503_and_not_sent_elsewhere() -> None:
    plan = traffic.TrafficPlan(epoch=1, models=(traffic.whole("gone", 1), traffic.whole("up", 1)))
    snapshot = discovery.build([replica("up", 1, 19_001)], plan)
    routes = plain(resources.routes(snapshot, SETTINGS))[0]["virtual_hosts"][0]["routes"]
    assert routes[-1]["direct_response"]["status"] == 503
    assert next(r for r in routes if r["name"] == "up")["route"]


def test_files_of_endpoints_are_flat_and_distinct() -> None:
    names = [resources.endpoints_file(discovery.ClusterKey(model=m, version=1)) for m in ODD_NAMES]
    assert len(set(names)) == len(names)
    assert not any("/" in name or name.startswith(".") for name in names)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("port", 0),
        ("port", 70_000),
        ("admin_port", 8000),
        ("workers", 0),
        ("request_s", 0.0),
        ("drain_s", -1.0),
        ("max_body_bytes", 0),
        ("listen_host", "localhost"),
    ],
)
def test_settings_out_of_range_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{value}"):
        config.EdgeSettings(**{field: value})  # type: ignore[arg-type]


def test_the_admin_interface_is_on_loopback_whatever_the_listener_is(tmp_path: Path) -> None:
    settings = config.EdgeSettings(listen_host="0.0.0.0")
    built = bootstrap.bootstrap(settings, bootstrap.XdsPaths(root=tmp_path), "edge-1")
    assert built["admin"]["address"]["socket_address"]["address"] == "127.0.0.1"


def test_a_pinned_request_goes_to_its_version_alone() -> None:
    table = plain(resources.routes(snapshot_of("first", "second"), SETTINGS))[0]
    routes = {r["name"]: r for r in table["virtual_hosts"][0]["routes"]}
    for name, cluster in {"second-2": "second@v2", "default-1": "first@v1"}.items():
        clusters = routes[name]["route"]["weighted_clusters"]["clusters"]
        assert [c["name"] for c in clusters] == [cluster]
        pin = routes[name]["match"]["headers"][-1]
        assert pin["name"] == "x-liftlock-version-pin"
        assert pin["string_match"] == {"exact": cluster[-1]}
        assert routes[name]["route"]["retry_policy"]
    order = list(routes)
    assert order.index("second-2") < order.index("second") < order.index("unknown-model")
    assert order.index("unknown-model") < order.index("default-1") < order.index("default")
