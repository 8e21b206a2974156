"""Every object is one that Kubernetes, or KubeRay, would accept, in strict mode."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from tests.deploy import kuberay
from tests.deploy.manifests import OVERLAYS, objects, of_kind, pods

KUBERNETES = "1.34"
"""The oldest release that is promised; the newest that the schemas know is tried too."""
RELEASES = (KUBERNETES, "1.37")


def validate(found: Any, release: str) -> None:
    kubernetes_validate.validate(found, release, strict=True)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_takes_every_object_of_its_own(overlay: str, release: str) -> None:
    own = [found for found in objects(overlay) if found["apiVersion"] != "ray.io/v1"]
    assert len(own) > 20
    for found in own:
        validate(found, release)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kubernetes_takes_every_pod(overlay: str, release: str) -> None:
    for whose, template, _ in pods(overlay):
        pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "p"}}
        validate({**pod, "template": template}, release)
        assert template["spec"]["containers"], whose


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kuberay_takes_the_ray_service(overlay: str) -> None:
    (found,) = of_kind(overlay, "RayService").values()
    jsonschema.validate(found, kuberay.schema())


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
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, kuberay.schema())


def test_a_mistake_in_a_pod_is_found() -> None:
    found = copy.deepcopy(of_kind("h100", "Deployment")["edge"])
    found["spec"]["template"]["spec"]["containers"][0]["readynessProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        validate(found, KUBERNETES)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_name_is_taken_twice(overlay: str) -> None:
    keys = [(o["kind"], o["metadata"]["name"]) for o in objects(overlay)]
    assert len(keys) == len(set(keys))
