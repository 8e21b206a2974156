"""The edge that runs for long: a source and a traffic plan in, an Envoy that serves by them.

Discovery runs in this process, on a socket that only its own Envoy uses. Beside it three tasks,
each the owner of its own state: one keeps Envoy running, one writes the status, one keeps what was
counted lately. A fault in one is reported in the status and does not end the others: with the
source away, the plan unreadable or this service dead, Envoy goes on from what it has.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from registry import processes
from serving import endpoint, errors
from serving.discovery import service as discovery_service
from serving.discovery import snapshot as discovery
from serving.discovery import sources, xds
from serving.edge import admin, bootstrap, config, history, keyring, process, resources
from serving.edge import home as edge_home
from serving.edge import status as edge_status

_FIRST_CATALOG_S = 10.0
"""Longest wait for the source before Envoy starts without it; joining a Ray cluster takes 5 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How often the loops run."""

    look_s: float = 0.05
    """Between two looks whether the status must be written."""
    status_s: float = 1.0
    """Between two statuses when nothing changes."""
    sample_s: float = history.SAMPLE_S
    """Between two readings of what was counted."""
    discovery: discovery_service.LoopSettings = field(
        default_factory=discovery_service.LoopSettings
    )
    """Those of discovery."""


class EdgeService:
    """One edge. `run` returns after `stop` was called, with Envoy and the source closed."""

    def __init__(
        self,
        settings: config.EdgeSettings,
        home: edge_home.EdgeHome,
        source: sources.Source,
        *,
        edge_id: str,
        loops: LoopSettings | None = None,
    ) -> None:
        self._settings = settings
        self._home = home
        self._edge_id = edge_id
        self._loops = loops or LoopSettings()
        node = bootstrap.Node(
            edge_id=edge_id,
            discovery=f"unix:{home.socket}",
            url=url(settings),
            directory=home.root,
        )
        self._keyring = keyring.Keyring(settings.keys, home)
        self._envoy = process.EnvoyProcess(settings, home, node)
        self._discovery = discovery_service.Discovery(
            source,
            home.traffic,
            lambda snapshot: resources.documents(snapshot, settings),
            needs_plan=False,
            keys=self._keyring.now,
            loops=self._loops.discovery,
        )
        self._faults = self._discovery.faults
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Ask `run` to drain and return."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until stopped. Raises EdgeError when another edge has this home or Envoy does
        not start, PortTaken when another process has the port, KeysUnusable without keys where
        they are required."""
        self._keyring.refresh()
        self._home.create()
        with edge_home.sole_instance(self._home):
            self._home.socket.unlink(missing_ok=True)  # of a service that was killed
            try:
                await self._discovery.listen(f"unix:{self._home.socket}")
                await self._run_tasks()
            finally:
                await self._discovery.close()
                self._home.status.unlink(missing_ok=True)

    async def _run_tasks(self) -> None:
        failure: Exception | None = None
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._discovery.run(), name="edge-discovery")]
            try:
                await self._start_envoy()
                tasks += [
                    group.create_task(self._envoy.supervise(), name="edge-envoy"),
                    group.create_task(self._tell(), name="edge-status"),
                    group.create_task(self._keep_counts(), name="edge-counts"),
                ]
                await self._stop.wait()
            except (errors.ServingError, OSError) as exc:  # a group would wrap it
                failure = exc
            finally:
                for task in tasks[1:]:
                    task.cancel()
                await self._envoy.stop()  # while it still hears of replicas that leave
                tasks[0].cancel()
        if failure is not None:
            raise failure

    async def _start_envoy(self) -> None:
        """Start Envoy, or take over the one that runs. If that has other settings it is replaced,
        and serves until its successor can be told something."""
        if process.runs(self._home):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_CATALOG_S):
                    await self._discovery.published.wait()
        await self._envoy.start()

    async def _tell(self) -> None:
        """Write the status whenever it changes, and from time to time."""
        written_at_s = 0.0
        shown: object = None
        while True:
            edge = self._own()
            current = (edge.shown if edge is not None else None, self._envoy.pid, self._error(edge))
            now_s = time.monotonic()
            if current != shown or now_s - written_at_s >= self._loops.status_s:
                with self._faults.reporting("status"):
                    edge_status.write(self._home, self._status(edge))
                shown, written_at_s = current, now_s
            await asyncio.sleep(self._loops.look_s)

    async def _keep_counts(self) -> None:
        known = history.History()
        with self._faults.reporting("counts"):
            known = history.load(self._home.counts)
        while True:
            with self._faults.reporting("counts"):
                known = await self._counted(known)
            await asyncio.sleep(self._loops.sample_s)

    async def _counted(self, known: history.History) -> history.History:
        where = self._envoy.admin_url
        if where is None:
            return known
        async with admin.AdminClient(where) as client:
            totals = await client.totals()
        known = history.extended(known, totals, time.monotonic())
        history.store(self._home.counts, known)
        return known

    def _own(self) -> xds.Edge | None:
        """Our Envoy as discovery sees it; None while it is down or has not called yet."""
        if self._envoy.pid is None:
            return None
        ours = [e for e in self._discovery.server.edges() if e.edge_id == self._edge_id]
        return ours[-1] if ours else None

    def _error(self, edge: xds.Edge | None) -> str | None:
        faults = list(self._faults.texts())
        if edge is not None:
            faults += [f"Envoy refuses {refusal}" for refusal in edge.refusals]
        if self._envoy.last_error is not None:
            faults.append(self._envoy.last_error)
        return "; ".join(faults) or None

    def _status(self, edge: xds.Edge | None) -> edge_status.EdgeStatus:
        shown = edge.shown if edge is not None else None
        observed = self._discovery.observation
        return edge_status.EdgeStatus(
            edge_id=self._edge_id,
            pid=os.getpid(),
            envoy_pid=self._envoy.pid,
            envoy_starts=self._envoy.starts,
            url=url(self._settings),
            admin_url=self._envoy.admin_url,
            generation=shown.generation if shown is not None else None,
            plan_epoch=shown.snapshot.epoch if shown is not None else None,
            versions=_versions(shown.snapshot, observed.endpoints) if shown is not None else (),
            source_age_s=observed.age_s(time.monotonic()),
            refused=shown.snapshot.refused if shown is not None else (),
            last_error=self._error(edge),
            time_s=time.time(),
            clock_s=time.monotonic(),
            nacks=self._discovery.metrics.refused(),
            boot=processes.boot_id(),
        )


def _versions(
    snapshot: discovery.Snapshot, replicas: Iterable[endpoint.Endpoint]
) -> tuple[edge_status.VersionStatus, ...]:
    weights, fractions = snapshot.weights(), snapshot.fractions()
    leaving = discovery.draining(replicas)
    return tuple(
        edge_status.VersionStatus(
            model=cluster.key.model,
            version=cluster.key.version,
            weight=weights.get(cluster.key, 0),
            endpoints=tuple(f"{a.host}:{a.port}" for a in cluster.addresses),
            draining=leaving[cluster.key],
            mirrored=fractions.get(cluster.key, 0.0),
        )
        for cluster in snapshot.clusters
    )


def url(settings: config.EdgeSettings) -> str:
    """Where a caller on this machine reaches an edge with these settings."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.listen_host, settings.listen_host)
    scheme = "https" if settings.tls is not None else "http"
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{settings.port}"
