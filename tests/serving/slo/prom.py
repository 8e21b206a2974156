"""Prometheus' own programs: where they are, and rules tried on made-up series."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
FOLDER = "LIFTLOCK_PROMETHEUS_DIR"
"""A folder with promtool and prometheus, where they are neither in the environment nor on PATH."""


def program(name: str) -> Path:
    """promtool or prometheus; skips the test where it is not here."""
    fetched = Path(sys.prefix) / "opt" / "prometheus" / "usr" / "bin"
    folders = [os.environ.get(FOLDER), str(fetched), os.environ.get("PATH")]
    found = shutil.which(name, path=os.pathsep.join(f for f in folders if f))
    if found is None:
        pytest.skip(f"{name} is not here; `make prometheus` fetches it")
    return Path(found)


def check(what: str, *files: Path) -> None:
    """`promtool check rules` or `check config`."""
    done = subprocess.run(
        [program("promtool"), "check", what, *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Series of one value a minute, as promtool writes them, and what is so at some minute."""

    series: Mapping[str, str]
    at_min: int
    values: Mapping[str, float | None]
    """Expressions to the value of their one result, None where they have none."""
    every: str = "30s"
    """How often the rules are evaluated."""


def holds(folder: Path, rules: Mapping[str, str], case: Case) -> None:
    """Fails with promtool's words unless the rules make it so."""
    for name, text in rules.items():
        (folder / name).write_text(text)
    expected = [
        {
            "expr": expr,
            "eval_time": f"{case.at_min}m",
            "exp_samples": [{"labels": "", "value": value}] if value is not None else [],
        }
        for expr, value in case.values.items()
    ]
    series = [{"series": name, "values": values} for name, values in case.series.items()]
    test: dict[str, Any] = {
        "rule_files": list(rules),
        "evaluation_interval": case.every,
        "tests": [{"interval": "1m", "input_series": series, "promql_expr_test": expected}],
    }
    (folder / "test.yml").write_text(yaml.safe_dump(test))
    done = subprocess.run(
        [program("promtool"), "test", "rules", "test.yml"],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
