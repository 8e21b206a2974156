"""Services and EndpointSlices of a Kubernetes cluster as a source of endpoints.

The one idea: a listing is a look at what two watchers keep up to date, so it costs no request and
is never empty because the API server is away. Before both lists are complete it fails; afterwards
it gives the last that was known, with the time of when it was known to be so.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from serving.discovery import errors, observation
from serving.discovery.kubernetes import access as accesses
from serving.discovery.kubernetes import api
from serving.discovery.kubernetes.settings import SELECTOR, KubernetesSettings, Timing
from serving.discovery.kubernetes.state import ClusterState
from serving.discovery.kubernetes.watcher import Counts, Surroundings, Watcher


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesStatus:
    """How well the cluster is known."""

    is_complete: bool
    age_s: float | None
    """Seconds since the API server last spoke of both resources; None before the first lists.
    Up to a minute is normal on a cluster where nothing happens."""
    faults: tuple[str, ...]
    refused: tuple[str, ...]
    services: Counts
    slices: Counts


class KubernetesSource:
    """A source that watches a cluster. It starts to when it is first asked, and ends by `close`.

    One for each event loop; any number of consumers.
    """

    def __init__(
        self,
        access: accesses.Access,
        settings: KubernetesSettings,
        *,
        timing: Timing | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._server = access.server
        self._clock = clock
        self._state = ClusterState(settings)
        around = Surroundings(
            access=access,
            settings=settings,
            timing=timing or Timing(),
            rng=random.Random(),
            clock=clock,
            changed=self._wake,
        )
        self._services = Watcher(api.SERVICES, self._state.services, around)
        self._slices = Watcher(api.SLICES, self._state.slices, around)
        self._news = asyncio.Event()
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self._is_closed = False

    async def list(self) -> observation.Listing:
        """What is known; raises SourceFailed until both resources were listed completely."""
        self._start()
        listing = self._state.listing(self._as_of_s())
        if listing is None:
            faults = "; ".join(self._faults()) or "the first lists are on their way"
            raise errors.SourceFailed(
                f"the endpoints of the cluster at {self._server} are not known yet: {faults}"
            )
        return listing

    async def changed(self, generation: int | None = None) -> None:
        """Return once there is a listing of another generation than this: at once where there is
        one already; for None as soon as the first lists are complete. Raises SourceFailed when
        the source is closed."""
        while True:
            self._start()
            news = self._news
            listing = self._state.listing(None)
            if listing is not None and listing.generation != generation:
                return
            await news.wait()

    async def ack(self, edge_id: str, generation: int) -> None:
        """A cluster has nobody to tell: pods leave by their own grace period."""

    async def close(self) -> None:
        self._is_closed = True
        tasks, self._tasks = self._tasks, ()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._wake()

    def status(self) -> KubernetesStatus:
        """How well the cluster is known now."""
        as_of_s = self._as_of_s()
        listing = self._state.listing(as_of_s)
        return KubernetesStatus(
            is_complete=listing is not None,
            age_s=None if as_of_s is None else self._clock() - as_of_s,
            faults=self._faults(),
            refused=listing.refused if listing is not None else (),
            services=self._services.counts,
            slices=self._slices.counts,
        )

    def _start(self) -> None:
        if self._is_closed:
            raise errors.SourceFailed(f"the watch of the cluster at {self._server} is closed")
        if not self._tasks:
            self._tasks = (
                asyncio.create_task(self._services.run(), name="kubernetes-services"),
                asyncio.create_task(self._slices.run(), name="kubernetes-endpointslices"),
            )

    def _wake(self) -> None:
        self._state.touch()
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _as_of_s(self) -> float | None:
        """When all of it was last known: the older of the two."""
        times = (self._services.heard_at_s, self._slices.heard_at_s)
        return None if None in times else min(t for t in times if t is not None)

    def _faults(self) -> tuple[str, ...]:
        return tuple(w.fault for w in (self._services, self._slices) if w.fault is not None)


def kubernetes_source(
    namespace: str | None,
    *,
    label_selector: str = SELECTOR,
    port_name: str | None = None,
    kubeconfig: Path | None = None,
    timing: Timing | None = None,
) -> KubernetesSource:
    """The endpoints of one namespace, or of all (None), seen as a pod's own account or by the
    current context of a kubeconfig.

    Raises AccessInvalid where there is neither or it cannot be used, ValueError for bad names.
    """
    settings = KubernetesSettings(
        namespace=namespace, label_selector=label_selector, port_name=port_name
    )
    found = accesses.in_cluster() if kubeconfig is None else accesses.kubeconfig(kubeconfig)
    return KubernetesSource(found, settings, timing=timing)
