"""The commands of docs/kubernetes.md, as far as they can be followed without a cluster."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jobs.settings import Settings
from tests.deploy import kustomize
from tests.deploy.manifests import OVERLAYS, REPOSITORY, ROOT, objects

TEXT = (REPOSITORY / "docs" / "kubernetes.md").read_text()
BLOCKS = re.findall(r"(?:^    .*\n)+", TEXT, re.MULTILINE)
KUBECTL = [
    command
    for block in BLOCKS
    for command in re.findall(r"kubectl .*", re.sub(r"\\\n", " ", block))
]
DIGEST = f"sha256:{'ab' * 32}"
HOME = Settings(home=Path())
LOCAL = {HOME.mlflow_port, HOME.endpoint_port}


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_version_is_said_everywhere_and_another_is_made_beside_it(
    overlay: str, tmp_path: Path
) -> None:
    shutil.copytree(ROOT, tmp_path, dirs_exist_ok=True)
    folder = tmp_path / "overlays" / overlay
    first, other = (block for block in BLOCKS if "sed -i" in block)
    follow(first, "old=1 new=2", folder)
    assert versions(folder) == {2}
    follow(other, "old=2 new=4", folder)
    listed = (folder / "kustomization.yaml").read_text()
    (folder / "kustomization.yaml").write_text(listed.replace("- grammar-2", "- grammar-4"))
    assert versions(folder) == {2, 4}, "4 is deployed, the traffic plan names 2"


def follow(block: str, given: str, folder: Path) -> None:
    """Run the commands of a block that are the shell's own."""
    assert given in block
    lines = [line for line in block.splitlines() if not re.match(" *(kubectl|overlay=)", line)]
    script = "\n".join([f"overlay={folder}", *lines]).replace("digest=sha256:…", f"digest={DIGEST}")
    subprocess.run(["bash", "-euc", script], check=True, timeout=60)


def versions(folder: Path) -> set[int]:
    """All that is said of versions in an overlay; its digest must be the new one."""
    found = kustomize.render(folder)
    text = "".join(value[name] for o in found for value, name in kustomize.strings(o))
    assert set(re.findall(r"sha256:[0-9a-f]{64}", text)) == {DIGEST}
    labels = {o["metadata"].get("labels", {}).get("liftlock.io/version", "") for o in found} - {""}
    told = re.findall(r"grammar-v?(\d+)|\bversion\"?: (\d+)", text)
    return {int(one or other) for one, other in told} | set(map(int, labels))


def test_what_is_asked_for_by_name_is_there() -> None:
    names = {
        f"{o['kind'].lower()}/{o['metadata']['name']}" for name in OVERLAYS for o in objects(name)
    }
    for command in KUBECTL:
        if "kuberay-system" in command:
            continue
        asked = re.findall(r"\b(?:deployment|service)/[\w-]+", command)
        assert set(asked) <= names, command
    for path in re.findall(r"\bdeploy/[\w./-]+", "".join(BLOCKS)):
        assert (REPOSITORY / path).exists(), path


def test_tunnels_lead_to_ports_that_there_are_from_ports_that_the_local_stack_leaves_free() -> None:
    tunnels = [c.split() for c in KUBECTL if "port-forward" in c]
    assert tunnels
    open_ports = {
        (o["metadata"]["name"], port["port"])
        for o in objects("kind-cpu")
        if o["kind"] == "Service"
        for port in o["spec"]["ports"]
    }
    for _, _, _, _, service, ports, *_ in tunnels:
        here, there = map(int, ports.split(":"))
        assert here not in LOCAL
        assert (service.removeprefix("service/"), there) in open_ports


def test_one_kind_at_a_time_is_watched() -> None:
    watched = [c.split(" get ")[1].split()[0] for c in KUBECTL if "--watch" in c]
    assert watched
    assert not [kinds for kinds in watched if "," in kinds], "kubectl refuses several"
