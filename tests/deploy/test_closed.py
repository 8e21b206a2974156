"""Every pod is closed up, says what it needs, and may do no more than it must."""

from __future__ import annotations

import pytest

from tests.deploy.manifests import OVERLAYS, containers, objects, of_kind, pods, template

both = pytest.mark.parametrize("overlay", OVERLAYS)


@both
def test_discovery_may_look_and_nothing_else(overlay: str) -> None:
    (role,) = of_kind(overlay, "Role").values()
    allowed = {
        (g, r) for rule in role["rules"] for g in rule["apiGroups"] for r in rule["resources"]
    }
    assert allowed == {("", "services"), ("discovery.k8s.io", "endpointslices")}
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == {"get", "list", "watch"}
    (binding,) = of_kind(overlay, "RoleBinding").values()
    (subject,) = binding["subjects"]
    account = template(overlay, "discovery")["spec"]["serviceAccountName"]
    assert (subject["name"], binding["roleRef"]["name"]) == (account, role["metadata"]["name"])
    assert not {"ClusterRole", "ClusterRoleBinding"} & {o["kind"] for o in objects(overlay)}


@both
def test_only_discovery_has_a_token_of_the_api_server(overlay: str) -> None:
    holders = {
        whose for whose, found, _ in pods(overlay)
        if found["spec"].get("automountServiceAccountToken", True)
    }  # fmt: skip
    assert holders == {"Deployment discovery"}


@both
def test_every_pod_is_closed_up(overlay: str) -> None:
    for whose, found, _ in pods(overlay):
        pod = found["spec"]["securityContext"]
        assert pod["runAsNonRoot"] is True, whose
        assert pod["runAsUser"] > 0, whose
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}, whose
        for each in containers(found):
            assert each["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, whose
        for volume in found["spec"]["volumes"]:
            assert volume.get("emptyDir", {"sizeLimit": 1}).get("sizeLimit"), (whose, volume)
            assert "hostPath" not in volume, whose
    (namespace,) = of_kind(overlay, "Namespace").values()
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"


@both
def test_every_pod_says_what_it_needs_and_how_much_it_matters(overlay: str) -> None:
    classes = of_kind(overlay, "PriorityClass")
    for whose, found, _ in pods(overlay):
        assert found["spec"]["priorityClassName"] in classes, whose
        for each in containers(found):
            for kind in ("requests", "limits"):
                assert {"cpu", "memory"} <= each["resources"][kind].keys(), whose
    order = sorted(classes, key=lambda name: -classes[name]["value"])
    assert order == ["liftlock-path", "liftlock-replica", "liftlock-background"]


def test_pods_are_spread_over_zones_and_edges_over_nodes() -> None:
    for component in ("edge", "discovery", "replica"):
        found = template("h100", component)
        for each in found["spec"]["topologySpreadConstraints"]:
            labels = each["labelSelector"]["matchLabels"]
            assert labels.items() <= found["metadata"]["labels"].items(), component
        keys = [c["topologyKey"] for c in found["spec"]["topologySpreadConstraints"]]
        assert "topology.kubernetes.io/zone" in keys, component
        # A replica has a node's GPU; edges on one node would go with it.
        assert ("kubernetes.io/hostname" in keys) == (component != "replica"), component
