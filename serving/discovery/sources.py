"""Where endpoints come from. Every source gives complete listings, or fails and says so.

The protocol is small so that a static file, the Ray directory and (later) Kubernetes are alike
to the edge, which polls, keeps the last good listing and acknowledges what Envoy really shows.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Protocol

from registry import strict_yaml
from serving import endpoint
from serving.discovery import errors, observation


class Source(Protocol):
    """A list of endpoints that can be asked again and again."""

    async def list(self) -> observation.Listing:
        """All endpoints known now; raises SourceFailed."""

    async def ack(self, edge_id: str, generation: int) -> None:
        """Tell the source that an edge serves from this generation; raises SourceFailed."""

    async def close(self) -> None:
        """Let go of what the source holds. Never raises."""


class StaticFileSource:
    """Endpoints from a JSON or YAML file: {"endpoints": [...]} with an optional "generation".

    Without a generation in the file, its modification time serves as one.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    async def list(self) -> observation.Listing:
        return await asyncio.to_thread(self._read)

    async def ack(self, edge_id: str, generation: int) -> None:
        """A file has nobody to tell."""

    async def close(self) -> None:
        """A file is closed after each reading."""

    def _read(self) -> observation.Listing:
        try:
            changed_ns = self._path.stat().st_mtime_ns
            data = strict_yaml.parse(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as exc:
            raise errors.SourceFailed(f"cannot read endpoints from {self._path}: {exc}") from exc
        return parse_listing(data, origin=str(self._path), default_generation=changed_ns)


def parse_listing(
    data: Any, *, origin: str, default_generation: int | None = None
) -> observation.Listing:
    """A listing from decoded JSON or YAML; raises SourceFailed naming `origin` and the fault."""
    try:
        generation = data.get("generation", default_generation)
        return observation.Listing(
            generation=int(generation),
            endpoints=tuple(endpoint_from_json(item) for item in data["endpoints"]),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise errors.SourceFailed(
            f"the endpoints from {origin} are not valid: {type(exc).__name__} {exc}. "
            f'Expected {{"endpoints": [{{"replica_id", "model", "version", "digest", "host", '
            f'"port", "state"}}]}}'
        ) from exc


def endpoint_from_json(data: Any) -> endpoint.Endpoint:
    """One endpoint; raises KeyError, TypeError or ValueError."""
    return endpoint.Endpoint(
        replica_id=str(data["replica_id"]),
        model=str(data["model"]),
        version=int(data["version"]),
        digest=str(data.get("digest", "")),
        host=str(data["host"]),
        port=int(data["port"]),
        state=endpoint.EndpointState(data.get("state", endpoint.EndpointState.READY)),
    )


def endpoint_to_json(replica: endpoint.Endpoint) -> dict[str, Any]:
    """The reverse of `endpoint_from_json`."""
    return {
        "replica_id": replica.replica_id,
        "model": replica.model,
        "version": replica.version,
        "digest": replica.digest,
        "host": replica.host,
        "port": replica.port,
        "state": replica.state.value,
    }
