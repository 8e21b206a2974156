"""Our small Kustomize renders what kubectl's does, and refuses what it does not know."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deploy import kustomize
from tests.deploy.manifests import OVERLAYS, PROMETHEUS, ROOT


@pytest.mark.parametrize("folder", [*(ROOT / "overlays" / name for name in OVERLAYS), PROMETHEUS])
def test_kubectl_renders_the_same_objects(folder: Path) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl is not installed; ours alone renders what the other tests look at")
    done = subprocess.run(
        [kubectl, "kustomize", str(folder)],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    theirs = {kustomize.key(found): found for found in yaml.safe_load_all(done.stdout)}
    ours = {kustomize.key(found): found for found in kustomize.render(folder)}
    assert ours.keys() == theirs.keys()
    for name, found in ours.items():
        assert found == theirs[name], name


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("replicas: [{name: edge, count: 3}]", NotImplementedError),
        ("patches: [{target: {kind: Pod, name: none}, patch: '[]'}]", LookupError),
    ],
)
def test_what_it_cannot_render_is_refused(
    tmp_path: Path, text: str, error: type[Exception]
) -> None:
    (tmp_path / "kustomization.yaml").write_text(text)
    with pytest.raises(error):
        kustomize.render(tmp_path)
