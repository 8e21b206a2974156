"""What a running edge says of itself, as a file that anybody on the machine can read."""

from __future__ import annotations

import dataclasses
import json
import math
import time
from dataclasses import dataclass
from typing import Any

from registry import processes
from serving import errors
from serving.discovery import files
from serving.edge import home as edge_home


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionStatus:
    """One version: its weight in the route in force (0 when outside), its replicas in Envoy."""

    model: str
    version: int
    weight: int
    endpoints: tuple[str, ...]
    draining: int | None = None
    """Replicas that finish what they hold and get nothing new; None from an edge that does not
    tell."""
    mirrored: float = 0.0
    """The fraction of the model's requests that it gets copies of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeStatus:
    """The edge at one moment. What is said of versions was seen in Envoy, not merely written."""

    edge_id: str
    pid: int
    envoy_pid: int | None
    """None while Envoy is down."""
    envoy_starts: int
    """How often Envoy was started by this service; above 1 means it crashed."""
    url: str
    """Where callers send requests."""
    admin_url: str | None
    """Envoy's admin interface; None while Envoy is down."""
    generation: int | None
    """The source's generation that Envoy serves from; None before the first."""
    plan_epoch: int | None
    """The epoch of the plan that Envoy serves from; None before the first."""
    versions: tuple[VersionStatus, ...]
    source_age_s: float | None
    """Seconds since the source last answered; None when it never did."""
    refused: tuple[str, ...]
    """Replicas left out because of what they publish, with the reason."""
    last_error: str | None
    """What is wrong now; None when all is well."""
    time_s: float
    """When this was written, in seconds since 1970."""
    clock_s: float = 0.0
    """The same on the machine's own clock, which counts from its boot and which nobody sets."""
    nacks: int = 0
    """What Envoy refused to take since the service started; the reason is in the last error."""
    boot: str = ""
    """The boot that `clock_s` counts from; empty where the kernel does not tell."""

    def version(self, model: str, version: int) -> VersionStatus | None:
        """One version's status, or None when the edge does not know it."""
        return next((v for v in self.versions if v.model == model and v.version == version), None)


def age_s(found: EdgeStatus) -> float:
    """How long ago a status was written, in seconds; endless for one of an earlier boot.

    A wall clock that was set back would make the status of a dead edge look new.
    """
    if found.boot != processes.boot_id():
        return math.inf
    return abs(time.monotonic() - found.clock_s if found.boot else time.time() - found.time_s)


def write(home: edge_home.EdgeHome, status: EdgeStatus) -> None:
    """Publish a status; not durable, since it means nothing after a crash."""
    data = json.dumps(dataclasses.asdict(status), indent=1).encode()
    files.write_atomic(home.status, data, durable=False)


def read(home: edge_home.EdgeHome) -> EdgeStatus | None:
    """The last status, None when there never was one; raises EdgeError when it is unreadable."""
    try:
        data = json.loads(home.status.read_bytes())
        return _parse(data)
    except FileNotFoundError:
        return None
    except (KeyError, TypeError, ValueError, RecursionError) as exc:
        raise errors.EdgeError(
            f"{home.status} is not a status this version wrote ({exc!s}); start the edge anew"
        ) from exc


def _parse(data: dict[str, Any]) -> EdgeStatus:
    versions = tuple(
        VersionStatus(**{**item, "endpoints": tuple(item["endpoints"])})
        for item in data["versions"]
    )
    return EdgeStatus(**{**data, "versions": versions, "refused": tuple(data["refused"])})
