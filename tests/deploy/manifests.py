"""The rendered manifests, and ways to look at them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.deploy import kustomize
from tests.deploy.kustomize import Object

REPOSITORY = Path(__file__).resolve().parents[2]
ROOT = REPOSITORY / "deploy" / "kubernetes"
PROMETHEUS = REPOSITORY / "deploy" / "prometheus"
OVERLAYS = ("h100", "kind-cpu")
_WITH_TEMPLATE = ("Deployment",)


@functools.cache
def objects(overlay: str) -> tuple[Object, ...]:
    """All objects of an overlay; not to be changed."""
    return tuple(kustomize.render(ROOT / "overlays" / overlay))


def of_kind(overlay: str, kind: str) -> dict[str, Object]:
    """The objects of one kind by name."""
    return {o["metadata"]["name"]: o for o in objects(overlay) if o["kind"] == kind}


def pods(overlay: str) -> Iterator[tuple[str, Object, int | None]]:
    """Every pod template: whose it is, the template, how many pods; None: the autoscaler says."""
    for name, found in of_kind(overlay, "Deployment").items():
        yield f"Deployment {name}", found["spec"]["template"], found["spec"].get("replicas")
    for name, found in of_kind(overlay, "RayService").items():
        cluster = found["spec"]["rayClusterConfig"]
        yield f"RayService {name} head", cluster["headGroupSpec"]["template"], 1
        for group in cluster["workerGroupSpecs"]:
            template = group["template"]
            yield f"RayService {name} {group['groupName']}", template, group["replicas"]


def selected(overlay: str, labels: Object) -> list[str]:
    """Whose pods carry all of these labels."""
    return [
        whose
        for whose, template, _ in pods(overlay)
        if labels.items() <= template["metadata"]["labels"].items()
    ]


def template(overlay: str, component: str) -> Object:
    """The one pod template of a component."""
    label = {"app.kubernetes.io/component": component}
    (found,) = (t for _, t, _ in pods(overlay) if label.items() <= t["metadata"]["labels"].items())
    return found


def container(overlay: str, component: str) -> Object:
    """Its one container."""
    (found,) = template(overlay, component)["spec"]["containers"]
    return dict(found)


def containers(template: Object) -> list[Object]:
    """All of a pod, those that run before the others too."""
    spec = template["spec"]
    return [*spec.get("initContainers", ()), *spec["containers"]]


def mounts(template: Object, container: Object) -> dict[str, Object]:
    """The volumes that a container sees, by where it sees them."""
    volumes = {each["name"]: each for each in template["spec"]["volumes"]}
    return {each["mountPath"]: volumes[each["name"]] for each in container["volumeMounts"]}


def ports(template: Object) -> dict[str, int]:
    """Named container ports of a pod template."""
    return {
        port["name"]: port["containerPort"]
        for each in template["spec"]["containers"]
        for port in each.get("ports", ())
    }


def serve_config(overlay: str) -> Object:
    """What KubeRay gives Serve."""
    (service,) = of_kind(overlay, "RayService").values()
    config: Any = yaml.safe_load(service["spec"]["serveConfigV2"])
    return dict(config)
