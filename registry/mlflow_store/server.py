"""The command that runs a local tracking server on sqlite, for the embedded default."""

from __future__ import annotations

import sys
from pathlib import Path

from registry.mlflow_store import app


def command(folder: Path, host: str, port: int) -> list[str]:
    """Argument vector of a tracking server whose database and artifacts lie in `folder`."""
    return [
        sys.executable, "-m", "mlflow", "server",
        "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}",
        "--artifacts-destination", str(folder / "artifacts"),
        "--serve-artifacts",
        "--host", host, "--port", str(port), "--workers", "1",
        "--app-name", app.NAME,
    ]  # fmt: skip


def environment() -> dict[str, str]:
    """Settings of that server: no server-side job runners (8 processes, 2 GB), no telemetry."""
    return {
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "true",
        "GIT_PYTHON_REFRESH": "quiet",
    }
