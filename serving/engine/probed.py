"""A replica's directory where Kubernetes is the directory: it is asked, not told.

The one idea: an endpoint slice follows the pod's readiness probe, and nobody acknowledges it. So
`/readyz` is the only word out, and instead of waiting until every edge has let go, a leaving
replica goes on taking requests for a time in which the slowest of them has.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from serving.endpoint import Endpoint


class ProbedDirectory:
    """See `serving.engine.server.Directory`; for one replica."""

    def __init__(self, *, settle_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._settle_s = settle_s
        self._clock = clock
        self._left_at_s: float | None = None

    async def publish(self, endpoint: Endpoint) -> None:
        """Nothing to do: the probe finds out."""

    async def mark_draining(self, replica_id: str) -> None:
        """From now on `/readyz` says no; the time that edges are given begins."""
        if self._left_at_s is None:
            self._left_at_s = self._clock()

    async def released(self, replica_id: str) -> bool:
        """Whether that time is over."""
        if self._left_at_s is None:
            return False
        return self._clock() - self._left_at_s >= self._settle_s

    async def remove(self, replica_id: str) -> None:
        """Nothing to do: a closed port answers no probe."""
