"""Callers notice nothing: promotions and rollbacks under load, on real Ray Serve and Envoy."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.e2e.stack import ROOT

REQUESTS = 30_000  # fewer could not show 99.99 %


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_no_request_fails_while_versions_change_hands() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.rollout_under_load", "--requests", str(REQUESTS)],
        cwd=ROOT, capture_output=True, text=True, timeout=1400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    result = json.loads(done.stdout.splitlines()[-1].removeprefix("RESULT "))
    assert result["requests"] >= REQUESTS
    assert result["failures"] == {}
    assert result["failed"] == 0
    assert set(result["by_version"]) == {"1", "2"}
