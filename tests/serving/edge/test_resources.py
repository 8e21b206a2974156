"""What Envoy is told, as data; and Envoy's own opinion of it."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from serving.discovery import snapshot as discovery
from serving.discovery import traffic
from serving.edge import bootstrap, config, process, resources, tls
from serving.endpoint import Endpoint, EndpointState
from serving.keys import signing
from serving.keys.rules import KeyRules

SETTINGS = config.EdgeSettings(port=18_000)
ODD_NAMES = ("grammar", "team.catalog/grammar v2", 'quote"and%percent', "a" * 200)
MANY_NAMES = tuple(f"{number:03d}" * 60 for number in range(30))
"""Together more than Envoy takes in one answer of its own."""


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


def snapshot_of(*models: str, mirrored: dict[int, float] | None = None) -> discovery.Snapshot:
    plan = traffic.TrafficPlan(
        epoch=1,
        models=tuple(
            traffic.ModelTraffic(
                model=model,
                weights=(
                    traffic.Weight(version=1, percent=90),
                    traffic.Weight(version=2, percent=10),
                ),
                mirrors=tuple(
                    traffic.Mirror(version=v, fraction=f) for v, f in (mirrored or {}).items()
                ),
            )
            for model in models
        ),
    )
    endpoints = [
        replica(model, version, 19_000 + version) for model in models for version in (1, 2, 3)
    ]
    return discovery.build(endpoints, plan)


def node(root: Path) -> bootstrap.Node:
    return bootstrap.Node(
        edge_id="edge-1",
        discovery=f"unix:{root}/discovery.sock",
        url="http://127.0.0.1:8000",
        directory=root,
        zone="z1",
    )


def with_rules(models: tuple[str, ...]) -> discovery.Snapshot:
    """With mirrors, and many keys of many rates, some of which are ended."""
    ended = tuple(f"key-{number:012x}" for number in range(1_000))
    rules = KeyRules(ended=ended, rates_rps=(1, 7, 1_000_000))
    mirrored = {2: 0.0001, 3: 1.0, 4: 0.5}
    return dataclasses.replace(snapshot_of(*models, mirrored=mirrored), keys=rules)


def as_static(snapshot: discovery.Snapshot, settings: config.EdgeSettings, root: Path) -> Any:
    """Everything in one bootstrap, since `--mode validate` asks nobody."""
    secret = tls.secret_file(root)
    secret.parent.mkdir()
    secret.write_text('{"resources": []}')
    public_set = signing.public_set(signing.new_private_key())
    whole = bootstrap.bootstrap(settings, node(root), public_set=public_set)
    listener = whole["static_resources"]["listeners"][0]
    manager = listener["filter_chains"][0]["filters"][0]["typed_config"]
    del manager["rds"]
    manager["route_config"] = resources.routes(snapshot, settings)
    documents = resources.documents(snapshot, settings)
    for cluster, assignment in zip(documents.clusters, documents.assignments, strict=True):
        assert cluster.pop("eds_cluster_config")["service_name"] == assignment["cluster_name"]
        static = {**cluster, "type": "STATIC", "load_assignment": assignment}
        whole["static_resources"]["clusters"].append(static)
    return whole


@pytest.mark.parametrize(
    "settings",
    [
        SETTINGS,
        config.EdgeSettings(port=18_000, access_log=0.1, listen_host="::1", max_body_bytes=1),
        config.EdgeSettings(port=18_000, retry=config.RetrySettings(retries=0), drain_s=0.0),
        config.EdgeSettings(port=18_000, keys=config.KeySettings(required=True), edges=12),
        config.EdgeSettings(
            port=18_000,
            keys=config.KeySettings(required=True, cached=1),
            quotas=tuple(config.ModelQuota(model=name, rate_rps=7) for name in ODD_NAMES),
            tls=config.TlsSettings(certificate=Path("/etc/tls/a.crt"), key=Path("/etc/tls/a.key")),
            access_log=0.000001,
        ),
        config.EdgeSettings(
            port=18_000, quotas=(config.ModelQuota(model="grammar", rate_rps=1),), edges=1_000
        ),
    ],
    ids=["defaults", "access log and IPv6", "no retries", "keys", "everything", "quotas alone"],
)
def test_envoy_accepts_everything_we_build(settings: config.EdgeSettings, tmp_path: Path) -> None:
    file = tmp_path / "bootstrap.json"
    file.write_text(json.dumps(as_static(with_rules(ODD_NAMES + MANY_NAMES), settings, tmp_path)))
    done = subprocess.run(
        [process.envoy_binary(), "--mode", "validate", "--config-path", file],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_endpoints_are_grouped_by_zone() -> None:
    key = discovery.ClusterKey(model="m", version=1)
    zones = ("z2", "z1", "z2", "")
    found = tuple(
        discovery.Address(host="10.0.0.1", port=port, zone=zone)
        for port, zone in enumerate(zones, 1)
    )
    built = resources.endpoints(discovery.Cluster(key=key, addresses=found))
    ports = {
        group["locality"]["zone"]: [
            e["endpoint"]["address"]["socket_address"]["port_value"] for e in group["lb_endpoints"]
        ]
        for group in built["endpoints"]
    }
    assert ports == {"": [4], "z1": [2], "z2": [1, 3]}


def test_clusters_choose_between_two_and_weigh_all_endpoints_alike() -> None:
    snapshot = snapshot_of("grammar")
    for cluster in resources.documents(snapshot, SETTINGS).clusters:
        assert cluster["lb_policy"] == "LEAST_REQUEST"
        assert cluster["least_request_lb_config"] == {"choice_count": 2}
    assert "load_balancing_weight" not in json.dumps(resources.endpoints(snapshot.clusters[0]))


def test_only_what_no_replica_can_have_begun_is_retried() -> None:
    table = json.dumps(resources.routes(snapshot_of("grammar"), SETTINGS))
    assert '"retry_on": "connect-failure,refused-stream,reset-before-request"' in table


def test_the_first_model_answers_without_a_header() -> None:
    table = resources.routes(snapshot_of("first", "second"), SETTINGS)
    default = table["virtual_hosts"][0]["routes"][-1]
    names = [c["name"] for c in default["route"]["weighted_clusters"]["clusters"]]
    assert names == ["first@v1", "first@v2"]


def test_a_model_without_replicas_is_refused_with_503_and_not_sent_elsewhere() -> None:
    plan = traffic.TrafficPlan(epoch=1, models=(traffic.whole("gone", 1), traffic.whole("up", 1)))
    snapshot = discovery.build([replica("up", 1, 19_001)], plan)
    routes = resources.routes(snapshot, SETTINGS)["virtual_hosts"][0]["routes"]
    assert routes[-1]["direct_response"]["status"] == 503
    assert next(r for r in routes if r["name"] == "up")["route"]


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
        ("max_mirrored", 0),
        ("listen_host", "localhost"),
        ("access_log", 1.5),
        ("edges", 0),
    ],
)
def test_settings_out_of_range_are_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{value}"):
        config.EdgeSettings(**{field: value})  # type: ignore[arg-type]


def test_the_admin_interface_is_on_loopback_whatever_the_listener_is(tmp_path: Path) -> None:
    settings = config.EdgeSettings(listen_host="0.0.0.0")
    built = bootstrap.bootstrap(settings, node(tmp_path))
    assert built["admin"]["address"]["socket_address"]["address"] == "127.0.0.1"


def test_a_pinned_request_goes_to_its_version_alone() -> None:
    table = resources.routes(snapshot_of("first", "second"), SETTINGS)
    routes = {r["name"]: r for r in table["virtual_hosts"][0]["routes"]}
    for name, cluster in {"second-2": "second@v2", "default-1": "first@v1"}.items():
        assert routes[name]["route"]["cluster"] == cluster
        pin = routes[name]["match"]["headers"][-1]
        assert pin["name"] == "x-liftlock-version-pin"
        assert pin["string_match"] == {"exact": cluster[-1]}
        assert routes[name]["route"]["retry_policy"]
    order = list(routes)
    assert order.index("second-2") < order.index("second") < order.index("unknown-model")
    assert order.index("unknown-model") < order.index("default-1") < order.index("default")
