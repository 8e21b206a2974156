"""The part of Kustomize that deploy/kubernetes uses, for where there is no kubectl.

Anything else in a kustomization is refused, not passed over. Where kubectl is installed, a test
holds the two against each other.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
_CLUSTER_WIDE = {"Namespace", "PriorityClass"}
_KNOWN = {
    "apiVersion", "kind", "namespace", "namePrefix", "resources", "images", "labels", "patches",
    "configMapGenerator",
}  # fmt: skip
_FIXED_NAME = {"disableNameSuffixHash": True}
_HASH_LETTERS = str.maketrans("013ae", "ghkmt")


def render(folder: Path) -> list[Object]:
    """The objects of a kustomization, in no particular order."""
    wanted = yaml.safe_load((folder / "kustomization.yaml").read_text())
    if unknown := set(wanted) - _KNOWN:
        raise NotImplementedError(f"{folder}: {', '.join(sorted(unknown))}")
    objects = [found for name in wanted.get("resources", ()) for found in _read(folder / name)]
    for each in wanted.get("configMapGenerator", ()):
        _generate(objects, folder, each)
    for each in wanted.get("patches", ()):
        _patch(objects, folder, each)
    for found in objects:
        _transform(found, wanted)
    return objects


def key(found: Object) -> tuple[str, str, str]:
    """What tells an object from all others."""
    metadata = found["metadata"]
    return found["kind"], metadata.get("namespace", ""), metadata["name"]


def strings(value: Any) -> Iterator[tuple[Object, str]]:
    """Every string value below, with the mapping it stands in."""
    if isinstance(value, dict):
        for name, below in value.items():
            if isinstance(below, str):
                yield value, name
            yield from strings(below)
    elif isinstance(value, list):
        for below in value:
            yield from strings(below)


def _read(path: Path) -> list[Object]:
    if path.is_dir():
        return render(path)
    # Through JSON, so that aliases become values of their own.
    return [json.loads(json.dumps(d)) for d in yaml.safe_load_all(path.read_text()) if d]


def _generate(objects: list[Object], folder: Path, wanted: Object) -> None:
    """A ConfigMap whose name ends in its digest, and the names that refer to it."""
    if unknown := set(wanted) - {"name", "namespace", "files", "options"}:
        raise NotImplementedError(f"configMapGenerator: {unknown}")
    name = wanted["name"]
    data = {file: (folder / file).read_text() for file in wanted["files"]}
    made = name if wanted.get("options") == _FIXED_NAME else f"{name}-{_digest(data)}"
    for place, field in list(strings(objects)):
        if field == "name" and place.get("name") == name and set(place) <= {"name", "optional"}:
            place["name"] = made
    metadata = {"name": made}
    if "namespace" in wanted:
        metadata["namespace"] = wanted["namespace"]
    objects.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _digest(data: dict[str, str]) -> str:
    content = {"data": data, "kind": "ConfigMap", "name": ""}  # Kustomize looks in the wrong place
    # Go's JSON: sorted, compact, with these three escaped.
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character in "<>&":
        plain = plain.replace(character, f"\\u{ord(character):04x}")
    return hashlib.sha256(plain.encode()).hexdigest()[:10].translate(_HASH_LETTERS)


def _patch(objects: list[Object], folder: Path, wanted: Object) -> None:
    target = wanted["target"]
    text = wanted["patch"] if "patch" in wanted else (folder / wanted["path"]).read_text()
    hit = [
        found
        for found in objects
        if found["kind"] == target["kind"]
        and re.fullmatch(target["name"], found["metadata"]["name"])
    ]
    if not hit:
        raise LookupError(f"{folder}: no {target} to patch")
    for found in hit:
        for operation in yaml.safe_load(text):
            _apply(found, operation)


def _apply(found: Object, operation: Object) -> None:
    """One operation of RFC 6902."""
    *parents, last = [
        step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]
    ]
    place: Any = found
    for step in parents:
        place = place[int(step)] if isinstance(place, list) else place[step]
    value = copy.deepcopy(operation.get("value"))
    at: Any = last
    if isinstance(place, list):
        at = len(place) if last == "-" else int(last)
    match operation["op"]:
        case "add" if isinstance(place, list):
            place.insert(at, value)
        case "add":
            place[at] = value
        case "replace":
            assert place[at] is not ..., "replaces what is there"
            place[at] = value
        case "remove":
            del place[at]
        case other:
            raise NotImplementedError(other)


def _transform(found: Object, wanted: Object) -> None:
    metadata = found["metadata"]
    if "namePrefix" in wanted:
        metadata["name"] = wanted["namePrefix"] + metadata["name"]
    if "namespace" in wanted and found["kind"] not in _CLUSTER_WIDE:
        metadata["namespace"] = wanted["namespace"]
    for each in wanted.get("labels", ()):
        _label(found, each)
    for place, field in list(strings(found)):
        if field == "image":
            place[field] = _image(place[field], wanted.get("images", ()))


def _label(found: Object, wanted: Object) -> None:
    places = [("", "metadata/labels"), *_selectors(found, wanted)]
    places += [(each["kind"], each["path"]) for each in wanted.get("fields", ())]
    for kind, path in places:
        if kind in ("", found["kind"]):
            for place in _below(found, path.split("/")):
                place.update(wanted["pairs"])


def _selectors(found: Object, wanted: Object) -> list[tuple[str, str]]:
    if not wanted.get("includeSelectors"):
        return []
    return [("Service", "spec/selector"), ("PodDisruptionBudget", "spec/selector/matchLabels")]


def _below(place: Object, steps: list[str]) -> Iterator[Object]:
    """The mappings at a path, made where they are missing; `name[]` goes through a list."""
    if not steps:
        yield place
        return
    name = steps[0].removesuffix("[]")
    if name == steps[0]:
        yield from _below(place.setdefault(name, {}), steps[1:])
        return
    for each in place[name]:
        yield from _below(each, steps[1:])


def _image(image: str, wanted: Any) -> str:
    name, _, tag = image.partition(":")
    for each in wanted:
        if each["name"] == name:
            return f"{each.get('newName', name)}:{each.get('newTag', tag)}"
    return image
