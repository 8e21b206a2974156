"""Where endpoints come from. Every source gives complete listings, or fails and says so.

The protocol is small so that a static file, the Ray directory and Kubernetes are alike to
discovery, which waits for a change, keeps the last good listing and acknowledges what every edge
really shows.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from pathlib import Path
from typing import Any, Protocol

from registry import reading, strict_json, strict_yaml
from registry.wording import refuse_unknown
from serving import endpoint
from serving.discovery import errors, files, observation, typed

WAIT_S = 0.2
"""Longest wait for a change; an answer gets so old, and an acknowledgement waits so long."""
_LOOK_S = 0.02
_MOST_BYTES = 64 << 20


class Source(Protocol):
    """A list of endpoints that can be asked again and again."""

    async def list(self) -> observation.Listing:
        """All endpoints known now; raises SourceFailed."""

    async def changed(self, generation: int) -> None:
        """Return once there may be a listing of another generation; one that cannot be sure
        returns after about `WAIT_S`. Raises SourceFailed."""

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
        self._read_mark: tuple[int, ...] = ()
        self._known: observation.Listing | None = None

    async def list(self) -> observation.Listing:
        mark = files.mark(self._path)  # before reading: a change meanwhile is seen
        if self._known is None or mark != self._read_mark or not mark:
            self._known = None
            self._known = await asyncio.to_thread(self._read)
            self._read_mark = mark
        return self._known

    async def changed(self, generation: int) -> None:
        """A file tells nobody that it was replaced, so it is watched."""
        del generation  # the file may name its own, and be changed without changing that
        for _ in range(round(WAIT_S / _LOOK_S)):
            if files.mark(self._path) != self._read_mark:
                return
            await asyncio.sleep(_LOOK_S)

    async def ack(self, edge_id: str, generation: int) -> None:
        """A file has nobody to tell."""

    async def close(self) -> None:
        """A file is closed after each reading."""

    def _read(self) -> observation.Listing:
        try:
            changed_ns = self._path.stat().st_mtime_ns
            data = _parsed(reading.read_text(self._path, _MOST_BYTES))
        except reading.Unreadable as exc:
            raise errors.SourceFailed(f"the list of endpoints {self._path} {exc}") from exc
        except (OSError, ValueError) as exc:
            raise errors.SourceFailed(f"cannot read endpoints from {self._path}: {exc}") from exc
        return parse_listing(data, origin=str(self._path), default_generation=changed_ns)


def _parsed(text: str) -> Any:
    """JSON or YAML. All JSON is YAML, which takes a hundred times as long to read: four seconds of
    discovery's time for a thousand endpoints."""
    with contextlib.suppress(ValueError):
        return strict_json.parse(text)
    return strict_yaml.parse(text)


def parse_listing(
    data: Any, *, origin: str, default_generation: int | None = None
) -> observation.Listing:
    """A listing from decoded JSON or YAML; raises SourceFailed naming `origin` and the fault."""
    try:
        refuse_unknown(typed.mapping(data, "the list"), ("generation", "endpoints"))
        generation = data.get("generation", default_generation)
        return observation.Listing(
            generation=typed.whole_number(generation, "generation"),
            endpoints=tuple(endpoint_from_json(item) for item in data["endpoints"]),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise errors.SourceFailed(
            f"the endpoints from {origin} are not valid: {type(exc).__name__} {exc}. "
            'Expected {"endpoints": [{"replica_id", "model", "version", "host", "port"}]}; '
            "a replica may have state, digest and zone"
        ) from exc


def endpoint_from_json(data: Any) -> endpoint.Endpoint:
    """One endpoint; raises KeyError, TypeError or ValueError."""
    refuse_unknown(typed.mapping(data, "each of endpoints"), _FIELDS)
    return endpoint.Endpoint(
        replica_id=typed.text(data["replica_id"], "replica_id"),
        model=typed.text(data["model"], "model"),
        version=typed.whole_number(data["version"], "version"),
        digest=typed.text(data.get("digest", ""), "digest"),
        host=typed.text(data["host"], "host"),
        port=typed.whole_number(data["port"], "port"),
        state=endpoint.EndpointState(data.get("state", endpoint.EndpointState.READY)),
        zone=None if data.get("zone") is None else typed.text(data["zone"], "zone"),
    )


_FIELDS = tuple(field.name for field in dataclasses.fields(endpoint.Endpoint))


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
        "zone": getattr(replica, "zone", None),  # a replica of an earlier release has no field
    }
