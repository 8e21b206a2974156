"""KubeRay's own schema of a RayService, cut down to what is KubeRay's.

`kuberay-1.7.0-rayservice.json` was made by this module from the CRD that KubeRay publishes
(Apache-2.0, github.com/ray-project/kuberay, tag v1.7.0):

    python -m tests.deploy.kuberay helm-chart/kuberay-operator/crds/ray.io_rayservices.yaml

Pod templates, Services and the like are left out, since Kubernetes' own schemas judge them; what is
left takes no unknown field, as an API server in strict mode would not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).with_name("kuberay-1.7.0-rayservice.json")
VERSION = "1.7.0"
_KUBERNETES_OWN = {
    "template", "headService", "serveService", "affinity", "securityContext", "env", "envFrom",
    "volumeMounts", "valueFrom", "networkPolicy", "historyServerOptions",
}  # fmt: skip
_KEPT = ("type", "enum", "required", "minimum", "maximum", "pattern", "anyOf", "maxLength")


def cut(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without descriptions and defaults, closed where its fields are listed."""
    found = {name: schema[name] for name in _KEPT if name in schema}
    if "items" in schema:
        found["items"] = cut(schema["items"])
    if isinstance(more := schema.get("additionalProperties"), dict):
        found["additionalProperties"] = cut(more)
    if "properties" in schema:
        found["properties"] = {
            name: {"type": "object"} if name == "template" else {} if name in _KUBERNETES_OWN
            else cut(below)
            for name, below in schema["properties"].items()
        }  # fmt: skip
        found["additionalProperties"] = False
    return found


def schema() -> Any:
    """Of a RayService, ray.io/v1."""
    return json.loads(FILE.read_text())


def main(crd: Path) -> None:
    """Makes the file anew."""
    versions = yaml.safe_load(crd.read_text())["spec"]["versions"]
    (v1,) = (each for each in versions if each["name"] == "v1")
    found = cut(v1["schema"]["openAPIV3Schema"])
    found["properties"]["metadata"] = {"type": "object"}
    del found["properties"]["status"]
    FILE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
