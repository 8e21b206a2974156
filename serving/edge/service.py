"""The edge that runs for long: a source and a traffic plan in, an Envoy that serves by them.

Four tasks, each the owner of its own state: one keeps Envoy running, one asks the source (and
acknowledges to it what Envoy really shows), one brings Envoy in line and writes the status, one
keeps what was counted lately. A fault in one is reported in the status and does not end the
others: with the source away, the plan unreadable or this service dead, Envoy goes on from what it
has.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from registry import processes
from serving import endpoint, errors
from serving.discovery import observation, sources, traffic
from serving.discovery import snapshot as discovery
from serving.edge import admin, apply, config, history, process
from serving.edge import home as edge_home
from serving.edge import status as edge_status

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How often the loops run and how long they remember."""

    poll_s: float = 0.2
    """Between two looks at the source and at the plan; a leaving replica waits about two."""
    status_s: float = 1.0
    """Between two statuses or acknowledgements when nothing changes."""
    linger_s: float = 300.0
    """How long a cluster outlives its last use; above the longest request, which it would end."""
    sample_s: float = history.SAMPLE_S
    """Between two readings of what was counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Applied:
    """What Envoy was seen to serve from, and since which start of it."""

    snapshot: discovery.Snapshot
    generation: int
    envoy_starts: int


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
        self._source = source
        self._edge_id = edge_id
        self._loops = loops or LoopSettings()
        self._envoy = process.EnvoyProcess(settings, home, edge_id)
        self._publisher = apply.Publisher(settings, home.xds)
        self._observation = observation.Observation()
        self._plan: traffic.TrafficPlan | None = None
        self._plan_mark: tuple[int, ...] | None = None
        self._last_live_s: dict[discovery.ClusterKey, float] = {}
        self._applied: _Applied | None = None
        self._faults: dict[str, str] = {}
        self._listed = asyncio.Event()
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Ask `run` to drain and return."""
        self._stop.set()

    async def run(self) -> None:
        """Serve until stopped. Raises EdgeError when another edge has this home or Envoy does
        not start, PortTaken when another process has the port."""
        self._home.create()
        with edge_home.sole_instance(self._home):
            self._publisher.initialize()
            self._home.counts.unlink(missing_ok=True)  # its times may be of another boot
            keys = self._publisher.published_keys()
            self._last_live_s = dict.fromkeys(keys, time.monotonic())
            try:
                await self._envoy.start()
                await self._run_tasks()
            finally:
                await self._source.close()
                await self._envoy.stop()
                self._home.status.unlink(missing_ok=True)

    async def _run_tasks(self) -> None:
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._envoy.supervise(), name="edge-envoy"),
                group.create_task(self._watch_source(), name="edge-source"),
                group.create_task(self._reconcile(), name="edge-reconcile"),
                group.create_task(self._keep_counts(), name="edge-counts"),
            ]
            await self._stop.wait()
            for task in tasks:
                task.cancel()

    async def _watch_source(self) -> None:
        acked: int | None = None
        acked_at_s = 0.0
        while True:
            await self._list()
            generation = self._applied.generation if self._applied is not None else None
            now_s = time.monotonic()
            due = generation != acked or now_s - acked_at_s > self._loops.status_s
            if generation is not None and due and await self._ack(generation):
                acked, acked_at_s = generation, now_s
            await asyncio.sleep(self._loops.poll_s)

    async def _list(self) -> None:
        listing = None
        with self._reporting("source"):
            listing = await self._source.list()
        self._observation = observation.observe(self._observation, listing, now_s=time.monotonic())
        self._listed.set()

    async def _ack(self, generation: int) -> bool:
        """Acknowledge a generation, unless Envoy is down and serves nobody from it."""
        if self._envoy.pid is None:
            return False
        with self._reporting("acknowledgement"):
            await self._source.ack(self._edge_id, generation)
        return "acknowledgement" not in self._faults

    async def _reconcile(self) -> None:
        written_at_s = 0.0
        shown: object = None
        while True:
            with self._reporting("plan"):
                self._read_plan()
            with self._reporting("envoy"):
                await self._bring_in_line()
            now_s = time.monotonic()
            current = (self._applied, self._envoy.pid, self._last_error())
            if current != shown or now_s - written_at_s >= self._loops.status_s:
                with self._reporting("status"):
                    edge_status.write(self._home, self._status())
                shown, written_at_s = current, now_s
            # Not wait_for: before Python 3.12 it may swallow the cancellation that ends this loop.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._loops.poll_s):
                    await self._listed.wait()
            self._listed.clear()

    def _read_plan(self) -> None:
        """Take the plan file when it changed; a refused plan leaves the one in force."""
        mark = _mark(self._home)
        if mark == self._plan_mark:
            return
        offered = traffic.load(self._home.traffic)
        if offered is not None:
            self._plan = traffic.apply(self._plan, offered)
        self._plan_mark = mark

    async def _keep_counts(self) -> None:
        known = history.History()
        while True:
            with self._reporting("counts"):
                known = await self._counted(known)
            await asyncio.sleep(self._loops.sample_s)

    async def _counted(self, known: history.History) -> history.History:
        url = self._envoy.admin_url
        if url is None:
            return known
        async with admin.AdminClient(url) as client:
            found = await client.totals()
        totals = {n: history.Count(requests=r, faults=f) for n, (r, f) in found.items()}
        known = history.extended(known, totals, time.monotonic())
        history.store(self._home.counts, known)
        return known

    async def _bring_in_line(self) -> None:
        listing, url = self._observation.listing, self._envoy.admin_url
        if listing is None or url is None:
            return  # nothing known yet, or nobody to tell
        snapshot = self._wanted()
        starts = self._envoy.starts
        wanted = _Applied(snapshot=snapshot, generation=listing.generation, envoy_starts=starts)
        if wanted == self._applied:
            return
        same = self._applied is not None and self._applied.snapshot == snapshot
        async with admin.AdminClient(url) as client:
            if not same or not await self._publisher.verified(snapshot, client):
                await self._publisher.apply(snapshot, client)
        self._applied = wanted

    def _wanted(self) -> discovery.Snapshot:
        endpoints = self._observation.endpoints
        live = discovery.live_keys(endpoints, self._plan)
        self._last_live_s = discovery.retain(
            self._last_live_s, live, time.monotonic(), self._loops.linger_s
        )
        return discovery.build(endpoints, self._plan, self._last_live_s)

    @contextlib.contextmanager
    def _reporting(self, part: str) -> Iterator[None]:
        """Keep a fault of one part in the status while it lasts, and the loops running."""
        try:
            yield
        except Exception as exc:  # supervisor: an edge with a fault serves better than none
            known = isinstance(exc, errors.ServingError | OSError)
            text = str(exc) if known else f"{type(exc).__name__}: {exc}"
            if self._faults.get(part) != text:
                _log.warning("edge fault in %s: %s", part, text, exc_info=not known)
            self._faults[part] = text
        else:
            self._faults.pop(part, None)

    def _last_error(self) -> str | None:
        faults = [f"{part}: {text}" for part, text in sorted(self._faults.items())]
        if self._envoy.last_error is not None:
            faults.append(self._envoy.last_error)
        return "; ".join(faults) or None

    def _status(self) -> edge_status.EdgeStatus:
        applied = self._applied
        return edge_status.EdgeStatus(
            edge_id=self._edge_id,
            pid=os.getpid(),
            envoy_pid=self._envoy.pid,
            envoy_starts=self._envoy.starts,
            url=_url(self._settings),
            admin_url=self._envoy.admin_url,
            generation=applied.generation if applied is not None else None,
            plan_epoch=applied.snapshot.epoch if applied is not None else None,
            versions=_versions(applied.snapshot, self._observation.endpoints)
            if applied is not None
            else (),
            source_age_s=self._observation.age_s(time.monotonic()),
            refused=applied.snapshot.refused if applied is not None else (),
            last_error=self._last_error(),
            time_s=time.time(),
            clock_s=time.monotonic(),
            boot=processes.boot_id(),
        )


def _versions(
    snapshot: discovery.Snapshot, replicas: Iterable[endpoint.Endpoint]
) -> tuple[edge_status.VersionStatus, ...]:
    weights = {share.key: share.weight for route in snapshot.routes for share in route.shares}
    leaving = Counter(
        discovery.ClusterKey(model=r.model, version=r.version)
        for r in replicas
        if r.state is endpoint.EndpointState.DRAINING
    )
    return tuple(
        edge_status.VersionStatus(
            model=cluster.key.model,
            version=cluster.key.version,
            weight=weights.get(cluster.key, 0),
            endpoints=tuple(f"{a.host}:{a.port}" for a in cluster.addresses),
            draining=leaving[cluster.key],
        )
        for cluster in snapshot.clusters
    )


def _mark(home: edge_home.EdgeHome) -> tuple[int, ...]:
    """Changes whenever the plan file is replaced; empty without one."""
    try:
        found = home.traffic.stat()
    except FileNotFoundError:
        return ()
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _url(settings: config.EdgeSettings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.listen_host, settings.listen_host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"
