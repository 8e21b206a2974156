"""Where things are: the home folder, the record, the cluster, the endpoint. CLI > env > default."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from jobs import web_address
from jobs.errors import UsageError
from registry.wording import check_line, shown
from serving.edge.home import usual_settings

MAX_PATH_CHARS = 4096  # Linux's PATH_MAX
_MANAGED = ("databricks", "databricks-uc")
"""Tracking servers that MLflow knows by name."""


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
    patience_s: float = 300.0
    """How long one step waits for an MLflow that has gone away, in seconds."""
    edge_config: Path | None = None
    """A file of the edge's settings; None takes `edge.yaml` in the home where there is one."""

    def __post_init__(self) -> None:
        _check_home(self.home)
        if self.tracking_uri is not None:
            _check_tracking_uri(self.tracking_uri)
        for name in ("mlflow_port", "endpoint_port"):
            port = getattr(self, name)
            if not 1 <= port <= 65_535:
                raise UsageError(f"{name} must be 1..65535, got {shown(port)}")

    @property
    def endpoint_url(self) -> str:
        """Base URL of the endpoint."""
        return f"http://{self.endpoint_host}:{self.endpoint_port}"

    @property
    def edge_file(self) -> Path | None:
        """The edge's settings, None for its defaults."""
        return self.edge_config or usual_settings(self.home)

    @property
    def cache(self) -> Path:
        """Verified checkpoint directories by digest."""
        return self.home / "cache" / "checkpoints"

    @property
    def work(self) -> Path:
        """Scratch space of stage workers."""
        return self.home / "work"

    @property
    def journals(self) -> Path:
        """What is kept for MLflow while it is away, a folder per model."""
        return self.home / "journal"

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
    try:
        found = next(p for p in (home, *home.parents) if p.exists())
    except OSError as exc:
        raise UsageError(
            f"home {shown(str(home))} cannot be used: {exc.strerror}; choose another --home"
        ) from exc
    if not found.is_dir():
        raise UsageError(
            f"home {home} cannot be used: {found} is not a folder; choose another --home"
        )
    if not os.access(found, os.W_OK) or str(found).startswith("/proc"):
        raise UsageError(f"home {home} cannot be written; choose another with --home")


def _check_tracking_uri(uri: str) -> None:
    """MLflow makes a store of files out of whatever it does not know, where the command is run.

    Raises:
        UsageError: it is no address of a tracking server.
    """
    told = web_address.fault(uri)
    is_managed = uri.partition("://")[0] in _MANAGED and "@" not in uri
    if told is not None and not is_managed:
        raise UsageError(
            f"the tracking address is not one of an MLflow server: {told}; give one such as "
            "http://127.0.0.1:5000 or databricks with --tracking-uri or MLFLOW_TRACKING_URI (a "
            "user by MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD), or none to run a "
            "local server"
        )


def resolve(
    env: Mapping[str, str],
    *,
    home: Path | None = None,
    tracking_uri: str | None = None,
    endpoint_port: int | None = None,
) -> Settings:
    """Settings from options and environment (LIFTLOCK_HOME, MLFLOW_TRACKING_URI, LIFTLOCK_PORT, …).

    Raises:
        UsageError: the home or the tracking address cannot be used, or a port is not a number or
            out of range.
    """
    return Settings(
        home=_absolute(home or Path(env.get("LIFTLOCK_HOME") or ".liftlock")),
        tracking_uri=tracking_uri or env.get("MLFLOW_TRACKING_URI") or None,
        mlflow_port=_port(env, "LIFTLOCK_MLFLOW_PORT", 5000),
        ray_address=env.get("LIFTLOCK_RAY_ADDRESS") or None,
        endpoint_port=_port(env, "LIFTLOCK_PORT", 8000) if endpoint_port is None else endpoint_port,
        patience_s=_seconds(env, "LIFTLOCK_PATIENCE_S", 300.0),
        edge_config=_file(env, "LIFTLOCK_EDGE_CONFIG"),
    )


def _absolute(path: Path, what: str = "home", knob: str = "--home") -> Path:
    try:
        return Path(check_line(what, str(path.expanduser().resolve()), MAX_PATH_CHARS))
    except (OSError, RuntimeError, ValueError) as exc:  # ~nobody, links in a circle
        raise UsageError(
            f"{what} {shown(str(path))} cannot be used: {exc}; choose another {knob}"
        ) from exc


def _file(env: Mapping[str, str], name: str) -> Path | None:
    text = env.get(name, "")
    return _absolute(Path(text), "edge settings", name) if text else None


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < math.inf:
        raise UsageError(f"{name} must be a number of seconds, at least 0, is {text!r}")
    return value


def _port(env: Mapping[str, str], name: str, default: int) -> int:
    text = env.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 5):
        raise UsageError(f"{name} must be a port number, is {shown(text)}")
    return int(text)


def from_process(**options: Path | str | int | None) -> Settings:
    """`resolve` with this process's environment."""
    return resolve(os.environ, **options)  # type: ignore[arg-type]
