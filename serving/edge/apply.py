"""Bringing Envoy from one snapshot to the next without a request falling between.

The one idea is the order. A cluster and its endpoints exist before a route names it; a route has
left a cluster before its last endpoints go. Between the steps Envoy's admin interface is asked
until it shows the step, since a file it has not read yet is worth nothing.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from serving import errors
from serving.discovery import files
from serving.discovery import snapshot as discovery
from serving.edge import admin, bootstrap, config, resources

_POLL_S = 0.02
_TAKE_S = 5.0
"""Envoy takes a change in about 20 ms; far more only on a machine that is starved."""


class Publisher:
    """Writes the files that Envoy watches."""

    def __init__(self, settings: config.EdgeSettings, paths: bootstrap.XdsPaths) -> None:
        self._settings = settings
        self._paths = paths
        self._doubtful = True
        """Whether Envoy may have missed a file that is right on disk; a rename shows it again."""

    def initialize(self) -> None:
        """Give Envoy files to start from, unless an earlier run left some."""
        if not self._paths.clusters.exists() or not self._paths.routes.exists():
            nothing = discovery.Snapshot(epoch=None, clusters=(), routes=())
            self._write(
                self._paths.clusters, resources.clusters(nothing, self._settings, self._paths)
            )
            self._write(self._paths.routes, resources.routes(nothing, self._settings))

    def published_keys(self) -> tuple[discovery.ClusterKey, ...]:
        """The clusters of the last published list; an earlier run's may still carry requests."""
        content = _read(self._paths.clusters)
        names = [resource["name"] for resource in content.get("resources", ())]
        return tuple(discovery.ClusterKey.parse(name) for name in names)

    async def apply(self, snapshot: discovery.Snapshot, client: admin.AdminClient) -> None:
        """Make Envoy serve from a snapshot; raises EdgeError when it does not take it."""
        try:
            await self._apply(snapshot, client)
        except errors.EdgeError:
            self._doubtful = True
            raise
        self._doubtful = False

    async def _apply(self, snapshot: discovery.Snapshot, client: admin.AdminClient) -> None:
        filled = tuple(cluster for cluster in snapshot.clusters if cluster.addresses)
        emptied = tuple(cluster for cluster in snapshot.clusters if not cluster.addresses)
        for cluster in filled:
            self._write(self._file(cluster), resources.endpoints(cluster))
        for cluster in emptied:
            self._write_new(self._file(cluster), resources.endpoints(cluster))
        self._write(self._paths.clusters, resources.clusters(snapshot, self._settings, self._paths))
        await self._until(lambda: _shows(client, filled), "its replicas")
        table = resources.routes(snapshot, self._settings)
        self._write(self._paths.routes, table)
        await self._until(lambda: _routes_by(client, table["version_info"]), "its routes")
        for cluster in emptied:
            self._write(self._file(cluster), resources.endpoints(cluster))
        await self._until(lambda: _shows(client, snapshot.clusters), "that replicas have left")
        self._remove_orphans(snapshot)

    async def verified(self, snapshot: discovery.Snapshot, client: admin.AdminClient) -> bool:
        """Whether Envoy serves from this snapshot now."""
        version = resources.routes(snapshot, self._settings)["version_info"]
        return await _shows(client, snapshot.clusters) and await _routes_by(client, version)

    def _file(self, cluster: discovery.Cluster) -> Path:
        return self._paths.endpoints / resources.endpoints_file(cluster.key)

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        data = json.dumps(content, indent=1).encode()
        if self._doubtful or _bytes(path) != data:
            files.write_atomic(path, data, durable=False)

    def _write_new(self, path: Path, content: dict[str, Any]) -> None:
        """A cluster needs its file from the start; an older one is emptied later."""
        if not path.exists():
            self._write(path, content)

    def _remove_orphans(self, snapshot: discovery.Snapshot) -> None:
        wanted = {resources.endpoints_file(cluster.key) for cluster in snapshot.clusters}
        for path in self._paths.endpoints.glob("*.json"):
            if path.name not in wanted:
                path.unlink(missing_ok=True)

    async def _until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        deadline_s = time.monotonic() + _TAKE_S
        while not await holds():
            if time.monotonic() > deadline_s:
                raise errors.EdgeError(
                    f"Envoy did not show {what} within {_TAKE_S:g} s of being told. Its log, "
                    f"beside {self._paths.root}, says whether it refused the configuration"
                )
            await asyncio.sleep(_POLL_S)


async def _shows(client: admin.AdminClient, clusters: tuple[discovery.Cluster, ...]) -> bool:
    seen = await client.endpoints()
    return all(seen.get(c.key.name) == frozenset(c.addresses) for c in clusters)


async def _routes_by(client: admin.AdminClient, version: str) -> bool:
    return await client.route_version() == version


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(_bytes(path)))
    except (TypeError, ValueError):
        return {}


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
