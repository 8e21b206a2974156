"""Where things are: the home folder, the record, the cluster, the endpoint. CLI > env > default."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobs.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Resolved once, in the command line, and passed down."""

    home: Path
    """State of the local stack: database, logs, cache, edge files."""
    tracking_uri: str | None = None
    """An MLflow server of yours; None runs a local one on `mlflow_port`."""
    mlflow_port: int = 5000
    ray_address: str | None = None
    """A Ray cluster of yours; None runs a local one."""
    endpoint_host: str = "127.0.0.1"
    endpoint_port: int = 8000
    """Where callers reach the edge."""

    def __post_init__(self) -> None:
        _check_home(self.home)
        for name in ("mlflow_port", "endpoint_port"):
            port = getattr(self, name)
            if not 1 <= port <= 65_535:
                raise UsageError(f"{name} must be 1..65535, got {port}")

    @property
    def endpoint_url(self) -> str:
        """Base URL of the endpoint."""
        return f"http://{self.endpoint_host}:{self.endpoint_port}"

    @property
    def cache(self) -> Path:
        """Verified checkpoint directories by digest."""
        return self.home / "cache" / "checkpoints"

    @property
    def work(self) -> Path:
        """Scratch space of stage workers."""
        return self.home / "work"

    @property
    def ray_folder(self) -> Path:
        """Ray's session folder; short, because its socket paths must stay under 107 bytes."""
        name = hashlib.sha256(str(self.home).encode()).hexdigest()[:8]
        return Path("/tmp") / f"liftlock-ray-{name}"


def _check_home(home: Path) -> None:
    """The home must be a folder that can be written to, or be made.

    Raises:
        UsageError: it cannot; says what stands in the way.
    """
    found = next(p for p in (home, *home.parents) if p.exists())
    if not found.is_dir():
        raise UsageError(
            f"home {home} cannot be used: {found} is not a folder; choose another --home"
        )
    if not os.access(found, os.W_OK) or str(found).startswith("/proc"):
        raise UsageError(f"home {home} cannot be written; choose another with --home")


def resolve(
    env: Mapping[str, str],
    *,
    home: Path | None = None,
    tracking_uri: str | None = None,
    endpoint_port: int | None = None,
) -> Settings:
    """Settings from options and environment (LIFTLOCK_HOME, MLFLOW_TRACKING_URI, LIFTLOCK_PORT, …).

    Raises:
        UsageError: a port is not a number or out of range.
    """
    chosen = home or Path(env.get("LIFTLOCK_HOME") or ".liftlock")
    return Settings(
        home=chosen.expanduser().resolve(),
        tracking_uri=tracking_uri or env.get("MLFLOW_TRACKING_URI") or None,
        mlflow_port=_port(env, "LIFTLOCK_MLFLOW_PORT", 5000),
        ray_address=env.get("LIFTLOCK_RAY_ADDRESS") or None,
        endpoint_port=_port(env, "LIFTLOCK_PORT", 8000) if endpoint_port is None else endpoint_port,
    )


def _port(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "")
    if not text:
        return default
    if not text.isdigit():
        raise UsageError(f"{name} must be a port number, is {text!r}")
    return int(text)


def from_process(**options: Path | str | int | None) -> Settings:
    """`resolve` with this process's environment."""
    return resolve(os.environ, **options)  # type: ignore[arg-type]
