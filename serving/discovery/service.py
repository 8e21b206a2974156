"""The loop of discovery: a source and a traffic plan in, a catalog for every edge out.

Three tasks: one waits for the source, one for the plan, one tells the source what every edge shows.
A catalog is built in the moment something changed, and published only once both the source and the
plan have been read: an Envoy is never told that there is nothing because somebody is away. A fault
in one task is reported while it lasts and ends nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from serving.discovery import files, observation, sources, traffic
from serving.discovery import snapshot as discovery
from serving.discovery.catalog import Catalog, Documents, Encoder
from serving.discovery.faults import Faults
from serving.discovery.metrics import Metrics
from serving.discovery.stream import MOST_NAMES
from serving.discovery.xds import Edge, XdsServer
from serving.keys.rules import KeyRules

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """How often the loops run and how long they remember."""

    gap_s: float = 0.07
    """Shortest time between two listings; what changes meanwhile is sent together."""
    poll_s: float = 0.05
    """Between two looks at the plan, and before a source that failed is asked again."""
    beat_s: float = 1.0
    """Between two acknowledgements when nothing changes."""
    linger_s: float = 300.0
    """How long a cluster outlives its last use; above the longest request, which it would end."""


class Discovery:
    """One source, one plan, one server. Listen, then `run` until canceled, then `close`."""

    def __init__(
        self,
        source: sources.Source,
        plan_file: Path,
        documents: Callable[[discovery.Snapshot], Documents],
        *,
        needs_plan: bool,
        keys: Callable[[], KeyRules] = KeyRules,
        loops: LoopSettings | None = None,
    ) -> None:
        """`keys` is asked 20 times a second what holds of API keys now; where it raises, what held
        before goes on. `needs_plan`: a missing plan file is a fault and not a plan of nothing, and
        an Envoy that has nothing waits for the first catalog instead of answering that nothing is
        served."""
        self.metrics = Metrics()
        self.faults = Faults(lambda part: self.metrics.faults.labels(part).inc())
        self.observation = observation.Observation()
        self.plan: traffic.TrafficPlan | None = None
        self.catalog: Catalog | None = None
        """The latest published; None before the first."""
        self.published = asyncio.Event()
        """Set once the first is."""
        self._source = source
        self._waiting: asyncio.Future[None] | None = None
        self._plan_file = plan_file
        self._plan_mark: tuple[int, ...] | None = None
        self._needs_plan = needs_plan
        self._plan_known = False
        self._keys = keys
        self._rules: KeyRules | None = None
        self._documents = documents
        self._loops = loops or LoopSettings()
        self._encoder = Encoder()
        self._last_live_s: dict[discovery.ClusterKey, float] = {}
        self.server = XdsServer(self.metrics)
        self.server.welcome = self._keep

    async def listen(self, address: str) -> int:
        """Take Envoys in at HOST:PORT or unix:PATH; returns the port. Raises AddressTaken, and
        ProtosMissing when the environment lacks Envoy's messages."""
        if not self._needs_plan:
            self.server.starting = self._catalog_of(_NOTHING, generation=None)
        return await self.server.start(address)

    async def run(self) -> None:
        """Serve until canceled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch_source(), name="discovery-source")
            group.create_task(self._watch_plan(), name="discovery-plan")
            group.create_task(self._acknowledge(), name="discovery-acknowledge")

    async def close(self) -> None:
        """Stop listening and let go of the source. Safe to call twice, and before `listen`."""
        await self.server.stop()
        await self._source.close()

    async def _watch_source(self) -> None:
        try:
            while True:
                began_s = time.monotonic()
                with self.faults.reporting("source"):
                    await self._list()
                pause_s = self._loops.poll_s if "source" in self.faults else self._loops.gap_s
                await asyncio.sleep(max(0.0, began_s + pause_s - time.monotonic()))
        finally:
            if self._waiting is not None:
                self._waiting.cancel()
                await asyncio.wait({self._waiting})

    async def _list(self) -> None:
        known = self.observation.listing
        if known is not None:
            await self._wait(known.generation)
        listing = await self._source.list()
        self.observation = observation.observe(self.observation, listing, now_s=time.monotonic())
        if known is None or _content(listing) != _content(known):
            self._read_plan()  # whoever wrote it before the source changed counts on it
            self._read_keys()
            self._publish()

    async def _wait(self, generation: int) -> None:
        """Wait for a change for one beat, so that the age stays true; a source that waits on is
        not interrupted."""
        if self._waiting is None:
            self._waiting = asyncio.ensure_future(self._source.changed(generation))
        done, _ = await asyncio.wait({self._waiting}, timeout=self._loops.beat_s)
        if done:
            waited, self._waiting = self._waiting, None
            waited.result()

    async def _watch_plan(self) -> None:
        beat_s = 0.0
        while True:
            now_s = time.monotonic()
            news = (self._read_plan(), self._read_keys())
            if any(news) or now_s - beat_s > self._loops.beat_s:
                beat_s = now_s
                self._publish()  # also when nothing is new: clusters that lingered long enough go
            await asyncio.sleep(self._loops.poll_s)

    def _read_plan(self) -> bool:
        """Take the plan when its file changed, and say whether; a refused plan leaves the one in
        force."""
        before = self._plan_mark
        with self.faults.reporting("plan"):
            mark = files.mark(self._plan_file)
            if mark != self._plan_mark or not self._plan_known:
                self._take_plan(mark)
        return self._plan_mark != before

    def _read_keys(self) -> bool:
        """Take what holds of the keys now, and say whether it is something else."""
        before = self._rules
        with self.faults.reporting("keys"):
            self._rules = self._keys()
        return self._rules != before

    def _take_plan(self, mark: tuple[int, ...]) -> None:
        offered = traffic.load(self._plan_file)
        if offered is None and self._needs_plan:
            raise FileNotFoundError(f"there is no traffic plan at {self._plan_file} yet")
        if offered is not None:
            self.plan = traffic.apply(self.plan, offered)
        elif not self._plan_known:
            _log.info("no traffic plan at %s: every request is 503 until there is", self._plan_file)
        self._plan_mark = mark
        self._plan_known = True

    def _publish(self) -> None:
        """Publish what is known now, if that is something and something new."""
        listing = self.observation.listing
        if listing is None or not self._plan_known or self._rules is None:
            return  # an edge that knows of no key that was revoked would let all of them in
        with self.faults.reporting("catalog"):
            snapshot, known = self._snapshot(listing, self._rules), self.catalog
            wanted = (snapshot, listing.generation)
            if known is not None and (known.snapshot, known.generation) == wanted:
                return
            self.catalog = self._catalog_of(snapshot, generation=listing.generation)
            self.server.publish(self.catalog)
            self.published.set()
            _name_refused(snapshot, known)

    def _snapshot(self, listing: observation.Listing, keys: KeyRules) -> discovery.Snapshot:
        live = discovery.live_keys(listing.endpoints, self.plan)
        self._last_live_s = discovery.retain(
            self._last_live_s, live, time.monotonic(), self._loops.linger_s
        )
        made = discovery.build(listing.endpoints, self.plan, self._last_live_s)
        refused = (*listing.refused, *made.refused)
        return dataclasses.replace(made, refused=refused, keys=keys)

    def _catalog_of(self, snapshot: discovery.Snapshot, *, generation: int | None) -> Catalog:
        return Catalog(
            number=0 if self.catalog is None else self.catalog.number + 1,
            generation=generation,
            snapshot=snapshot,
            resources=self._encoder.encode(self._documents(snapshot)),
        )

    def _keep(self, clusters: Iterable[str]) -> None:
        """An Envoy came with these clusters: they may still carry requests of before."""
        for name in clusters:
            if len(self._last_live_s) >= _MOST_CLUSTERS:
                break
            with contextlib.suppress(ValueError):  # not one of ours, so nothing to keep
                self._last_live_s.setdefault(discovery.ClusterKey.parse(name), time.monotonic())
        self._publish()

    async def _acknowledge(self) -> None:
        acked: dict[str, int] = {}
        beat_s = time.monotonic()
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._loops.beat_s):
                    await self.server.progress.wait()
            self.server.progress.clear()
            now_s = time.monotonic()
            if now_s - beat_s > self._loops.beat_s:
                acked, beat_s = {}, now_s
            shown = _generations(self.server.edges())
            due = {e: g for e, g in shown.items() if acked.get(e) != g}
            # Together: a source may make each wait until it has looked for a change.
            told = await asyncio.gather(*(self._tell(e, g) for e, g in due.items()))
            done = {e: g for (e, g), ok in zip(due.items(), told, strict=True) if ok}
            acked = {e: g for e, g in acked.items() if e in shown} | done
            await asyncio.sleep(self._loops.gap_s)

    async def _tell(self, edge_id: str, generation: int) -> bool:
        """Tell the source what an edge shows; whether it heard."""
        heard = False
        with self.faults.reporting("acknowledgement"):
            await self._source.ack(edge_id, generation)
            heard = True
        return heard


def _content(listing: observation.Listing) -> tuple[object, ...]:
    return (listing.generation, listing.endpoints, listing.refused)


def _name_refused(now: discovery.Snapshot, known: Catalog | None) -> None:
    before = known.snapshot.refused if known is not None else ()
    for reason in sorted({*now.refused}.difference(before)):
        _log.warning("left out: %s", reason)


_MOST_CLUSTERS = MOST_NAMES // 2
"""With so many known, none is kept because an Envoy names it: made-up ones would have every Envoy
ask for more than it may."""
_NOTHING = discovery.Snapshot(epoch=None, clusters=(), routes=())


def _generations(edges: Iterable[Edge]) -> dict[str, int]:
    """What each edge shows; of several under one name, the one that is furthest behind counts."""
    oldest: dict[str, Catalog] = {}
    for edge in edges:
        shown = edge.shown
        if shown is None:
            continue
        known = oldest.setdefault(edge.edge_id, shown)
        oldest[edge.edge_id] = min(known, shown, key=lambda catalog: catalog.number)
    return {
        edge_id: shown.generation
        for edge_id, shown in oldest.items()
        if shown.generation is not None
    }
