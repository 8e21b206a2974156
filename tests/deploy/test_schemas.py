"""Every object is one that Kubernetes, or KubeRay, would accept, in strict mode."""

from __future__ import annotations

import copy
from typing import Any

import kubernetes_validate
import pytest
from jsonschema import validators

from tests.deploy import kuberay
from tests.deploy.manifests import OVERLAYS, objects, of_kind, pods

KUBERNETES = "1.34"
"""The oldest release that is promised; the newest that the schemas know is tried too."""
RELEASES = (KUBERNETES, "1.37")
_TEMPLATE = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "p"}}


def faults(found: Any, release: str) -> list[str]:
    """What Kubernetes would refuse an object for."""
    try:
        kubernetes_validate.validate(found, release, strict=True)
    except kubernetes_validate.ValidationError as exc:
        return [exc.message]
    return []


def kuberay_faults(found: Any) -> list[str]:
    """What KubeRay's CRD would have a RayService refused for."""
    schema = kuberay.schema()
    return [e.message for e in validators.validator_for(schema)(schema).iter_errors(found)]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_takes_every_object_of_its_own(overlay: str, release: str) -> None:
    own = [found for found in objects(overlay) if found["apiVersion"] != "ray.io/v1"]
    assert len(own) > 20
    assert {f["metadata"]["name"]: e for f in own if (e := faults(f, release))} == {}


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_takes_every_pod(overlay: str, release: str) -> None:
    made = {whose: {**_TEMPLATE, "template": found} for whose, found, _ in pods(overlay)}
    assert len(made) == 5
    assert {whose: e for whose, found in made.items() if (e := faults(found, release))} == {}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kuberay_takes_the_ray_service(overlay: str) -> None:
    (found,) = of_kind(overlay, "RayService").values()
    assert kuberay_faults(found) == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("serveConfig",), "x"),
        (("rayClusterConfig", "headGroupSpec", "replicas"), 1),
        (("rayClusterConfig", "authOptions", "mode"), "password"),
        (("rayClusterConfig", "rayVersion"), 2.6),
    ],
)
def test_a_mistake_in_the_ray_service_is_found(path: tuple[str, ...], value: object) -> None:
    (found,) = of_kind("h100", "RayService").values()
    wrong = copy.deepcopy(found)
    place = wrong["spec"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    assert kuberay_faults(wrong) != []


def test_a_mistake_in_a_pod_is_found() -> None:
    found = copy.deepcopy(of_kind("h100", "Deployment")["edge"])
    found["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    assert "readynessProbe" in "".join(faults(found, KUBERNETES))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_name_is_taken_twice(overlay: str) -> None:
    keys = [(o["kind"], o["metadata"]["name"]) for o in objects(overlay)]
    assert len(keys) == len(set(keys))
