"""The five packages are ours, heavy libraries stay away from imports, and the layers hold."""

from __future__ import annotations

import importlib
import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("registry", "evals", "serving", "pipelines", "jobs")
HEAVY = (
    "mlflow", "torch", "ray", "vllm", "lm_eval", "llmcompressor", "transformers", "numpy", "scipy",
)  # fmt: skip


@pytest.mark.parametrize("name", PACKAGES)
def test_package_is_this_projects_and_nobody_elses(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__file__ is not None
    assert Path(module.__file__).is_relative_to(ROOT)
    owners = importlib.metadata.packages_distributions().get(name, [])
    assert set(owners) <= {"liftlock"}


def test_command_line_imports_nothing_heavy() -> None:
    code = f"import sys, jobs.cli; print([m for m in {HEAVY} if m in sys.modules])"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == "[]"


def test_client_and_router_can_be_taken_out_alone(tmp_path: Path) -> None:
    for name in ("client", "router"):
        shutil.copytree(ROOT / "serving" / name, tmp_path / "serving" / name)
    shutil.copy(ROOT / "serving" / "__init__.py", tmp_path / "serving")
    code = (
        "import sys, serving.client; "
        "print(sorted({m.split('.')[1] for m in sys.modules if m.startswith('serving.')}), "
        "serving.client.__file__)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    where = tmp_path / "serving" / "client" / "__init__.py"
    assert found.stdout.strip() == f"['client', 'router'] {where}"


def test_layers_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_lock_pins_everything_exactly() -> None:
    lines = (ROOT / "requirements" / "cpu.lock").read_text().split()
    assert len(lines) > 200
    assert all("==" in line for line in lines)
