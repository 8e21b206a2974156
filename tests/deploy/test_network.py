"""Network policies: who reaches whom, worked out from the policies as Kubernetes defines them.

A connection needs the sender's egress and the receiver's ingress. A policy that selects a pod
closes its direction but for what it lists; rules of several policies add up.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.deploy import kustomize
from tests.deploy.manifests import OVERLAYS, of_kind, ports, template
from tests.deploy.manifests import PROMETHEUS as PROMETHEUS_FOLDER

both = pytest.mark.parametrize("overlay", OVERLAYS)
LABEL = "app.kubernetes.io/component"
ADMIN_PORT = 9901
COMPONENTS = ("edge", "discovery", "replica", "ray-head", "mlflow")
WORLD = "world"
OPERATOR = "kuberay-operator"
PROMETHEUS = "prometheus"
OUTSIDE = {OPERATOR: "kuberay-system", PROMETHEUS: "monitoring", WORLD: ""}


def labels(overlay: str, who: str) -> dict[str, str]:
    if who in COMPONENTS:
        return dict(template(overlay, who)["metadata"]["labels"])
    return {LABEL: who}


def namespace(who: str) -> str:
    return OUTSIDE.get(who, "liftlock")


def matches(peer: dict[str, Any], overlay: str, who: str) -> bool:
    if "ipBlock" in peer:
        return who == WORLD
    wanted = peer.get("namespaceSelector", {}).get("matchLabels", {})
    if wanted.get("kubernetes.io/metadata.name", "liftlock") != namespace(who):
        return False
    selector = peer.get("podSelector", {}).get("matchLabels", {})
    return bool(selector.items() <= labels(overlay, who).items())


def allows(overlay: str, who: str, direction: str, other: str, port: int) -> bool:
    """Whether `who`'s policies let it exchange with `other` on the receiver's port."""
    peers, receiver = ("from", who) if direction == "Ingress" else ("to", other)
    names = ports(template(overlay, receiver)) if receiver in COMPONENTS else {}
    for found in of_kind(overlay, "NetworkPolicy").values():
        spec = found["spec"]
        selector = spec["podSelector"].get("matchLabels", {})
        if not selector.items() <= labels(overlay, who).items():
            continue
        for rule in spec.get(direction.lower(), ()):
            listed = [names.get(p["port"], p["port"]) for p in rule.get("ports", ())]
            if listed and port not in listed:
                continue
            if peers not in rule or any(matches(p, overlay, other) for p in rule[peers]):
                return True
    return False


def reaches(overlay: str, sender: str, receiver: str, port: int | str) -> bool:
    names = ports(template(overlay, receiver)) if receiver in COMPONENTS else {}
    number = names[port] if isinstance(port, str) else port
    sends = sender in OUTSIDE or allows(overlay, sender, "Egress", receiver, number)
    takes = receiver == WORLD or allows(overlay, receiver, "Ingress", sender, number)
    return sends and takes


@both
def test_what_is_needed_is_open(overlay: str) -> None:
    assert reaches(overlay, WORLD, "edge", "callers")
    assert reaches(overlay, "job", "edge", "callers")
    assert reaches(overlay, "edge", "replica", "replica")
    assert reaches(overlay, "edge", "discovery", "xds")
    assert reaches(overlay, "discovery", WORLD, 6443), "the API server"
    assert reaches(overlay, "replica", "mlflow", "http")
    assert reaches(overlay, "ray-head", "mlflow", "http"), "the application is built there"
    assert reaches(overlay, "job", "mlflow", "http")
    assert reaches(overlay, "replica", "ray-head", "gcs")
    assert reaches(overlay, "ray-head", "replica", 10_002), "Ray's workers, on any port"
    assert reaches(overlay, OPERATOR, "ray-head", "dashboard")
    assert reaches(overlay, "mlflow", WORLD, 5432), "Postgres"
    assert reaches(overlay, PROMETHEUS, "edge", "metrics")
    assert reaches(overlay, PROMETHEUS, "discovery", "feed")
    assert reaches(overlay, PROMETHEUS, "replica", "replica"), "their /metrics"


@both
def test_a_replica_answers_the_edge_and_other_parts_of_ray_only(overlay: str) -> None:
    for sender in (WORLD, "discovery", "mlflow", "job", OPERATOR):
        assert not reaches(overlay, sender, "replica", "replica"), sender


@both
def test_discovery_believes_whoever_reaches_it_and_only_edges_do(
    overlay: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sender in (
        WORLD,
        PROMETHEUS,
        "replica",
        "ray-head",
        "mlflow",
        "job",
        "discovery",
        OPERATOR,
    ):
        assert not reaches(overlay, sender, "discovery", "xds"), sender
    monkeypatch.setitem(OUTSIDE, "edge", "elsewhere")
    assert not reaches(overlay, "edge", "discovery", "xds"), "with an edge's labels elsewhere"


@both
def test_nobody_reaches_the_admin_interface(overlay: str) -> None:
    for sender in (*COMPONENTS, *OUTSIDE, "job"):
        assert not reaches(overlay, sender, "edge", ADMIN_PORT), sender
        assert reaches(overlay, sender, "edge", "metrics") == (sender == PROMETHEUS), sender
    assert ADMIN_PORT not in ports(template(overlay, "edge")).values()


@both
def test_nobody_outside_reaches_ray_but_the_operator_its_dashboard(overlay: str) -> None:
    for sender in (WORLD, "edge", "discovery", "mlflow", "job"):
        for port in ("gcs", "dashboard"):
            assert not reaches(overlay, sender, "ray-head", port), (sender, port)
    assert not reaches(overlay, OPERATOR, "ray-head", "gcs")


@both
def test_replicas_and_edges_call_nobody_outside(overlay: str) -> None:
    for sender in ("edge", "replica"):
        for port in (80, 443, 6443):
            assert not reaches(overlay, sender, WORLD, port), (sender, port)


@both
def test_every_pod_is_closed_unless_it_is_opened(overlay: str) -> None:
    closed = of_kind(overlay, "NetworkPolicy")["closed"]["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for found in of_kind(overlay, "NetworkPolicy").values():
        types = {t.lower() for t in found["spec"]["policyTypes"]}
        assert {"ingress", "egress"} & found["spec"].keys() <= types


@both
def test_prometheus_looks_for_pods_and_ports_that_there_are(overlay: str) -> None:
    found = yaml.safe_load((PROMETHEUS_FOLDER / "kubernetes.scrape.yml").read_text())
    for job in found["scrape_configs"]:
        (looked,) = job["kubernetes_sd_configs"]
        (selector,) = looked["selectors"]
        component = selector["label"].removeprefix(f"{LABEL}=")
        (port,) = (r["regex"] for r in job["relabel_configs"] if "port_name" in str(r))
        assert looked["namespaces"] == {"names": ["liftlock"]}
        assert reaches(overlay, PROMETHEUS, component, port), job["job_name"]


def test_the_rules_are_in_the_config_map() -> None:
    (made,) = kustomize.render(PROMETHEUS_FOLDER)
    assert made["metadata"] == {"name": "liftlock-prometheus", "namespace": "monitoring"}
    assert made["data"].keys() == {p.name for p in PROMETHEUS_FOLDER.glob("*.*.yml")}
