"""What a pod of the manifests sees of files, laid out below a folder of this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.deploy import manifests
from tests.fakes.mounted import Mount

_OURS = ("/etc/liftlock", "/run/liftlock")
"""Where a pod's commands look; the rest of its file system is not laid out."""
Secrets = Mapping[str, Mapping[str, bytes]]
"""Secrets of the cluster by name."""


class PodFiles:
    """The mounts of one component's pod."""

    def __init__(self, overlay: str, component: str, root: Path) -> None:
        self.root = root / component
        self._overlay = overlay
        self._template = manifests.template(overlay, component)
        self._mounts: dict[str, Mount] = {}

    def here(self, text: str) -> str:
        """The text with a pod's paths made this machine's."""
        for path in _OURS:
            text = text.replace(path, f"{self.root}{path}")
        return text

    def fill(self, secrets: Secrets) -> None:
        """Make all that is mounted what the cluster holds now, as the kubelet does again and again.

        Raises KeyError where a Secret is not there that must be: such a pod waits.
        """
        for container in manifests.containers(self._template):
            for path, volume in manifests.mounts(self._template, container).items():
                if path.startswith(_OURS):
                    self._fill(path, volume, secrets)

    def _fill(self, path: str, volume: manifests.Object, secrets: Secrets) -> None:
        if "emptyDir" in volume:
            Path(self.here(path)).mkdir(parents=True, exist_ok=True)
            return
        mount = self._mounts.setdefault(path, Mount(Path(self.here(path))))
        if "configMap" in volume:
            data = manifests.of_kind(self._overlay, "ConfigMap")[volume["configMap"]["name"]][
                "data"
            ]
            mount.write({name: self.here(text).encode() for name, text in data.items()})
            return
        wanted = volume["secret"]
        if wanted.get("optional") and wanted["secretName"] not in secrets:
            mount.write({})
            return
        held = secrets[wanted["secretName"]]
        items = wanted.get("items", [{"key": name, "path": name} for name in held])
        mount.write({item["path"]: held[item["key"]] for item in items})

    def words(self, container: manifests.Object) -> list[str]:
        """Its arguments, with the variables put in."""
        values = {"POD_NAME": "edge-1", "ZONE": "zone-a"}
        values |= {e["name"]: e["value"] for e in container.get("env", ()) if "value" in e}
        text = "\n".join(map(str, container["args"]))
        for name, value in values.items():
            text = text.replace(f"$({name})", value)
        return self.here(text).split("\n")
