"""The Ray Serve deployment: Serve starts, checks, scales and stops a replica.

Requests come to the port that the replica publishes. Serve's own counts are blind to them, which is
why load is reported by `record_autoscaling_stats` and draining happens in the destructor. Batches
inside the cluster may come by handle (`correct`); the replica passes them on to its own port.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from serving import zone
from serving.directory import ReplicaDirectory
from serving.engine.by_handle import HandleCalls
from serving.engine.core import CoreFactory, EngineCore, imported
from serving.engine.fronts import FrontProcesses
from serving.engine.probed import ProbedDirectory
from serving.engine.server import Directory, ReplicaServer
from serving.engine.spec import Listing, ReplicaSpec, local_checkpoint

_log = logging.getLogger(__name__)
NODE_HOST = "node"


class Replica:
    """One replica. Serve awaits `__init__`, calls the checks, and awaits `__del__` before a stop.

    `__del__` is Serve's documented shutdown hook; it calls it once, and may be a coroutine.
    """

    async def __init__(self, pickled_spec: bytes) -> None:  # type: ignore[misc]  # Serve awaits it
        # Pickled by who asks for the deployment: the deployer between may be of an older release.
        spec = _placed(pickle.loads(pickled_spec))
        fronts = FrontProcesses(spec, _launched(spec))
        self._server = ReplicaServer(spec, fronts, _directory(spec), _replica_id())
        await self._server.start()
        self._calls = HandleCalls(self._server.url)

    async def check_health(self) -> None:
        """Serve's periodic check; raising three times in a row replaces the replica."""
        await self._server.check_health()

    def record_autoscaling_stats(self) -> dict[str, float]:
        """Load in requests, for the scaling policy."""
        return self._server.load()

    def record_replica_metadata(self) -> dict[str, str | None]:
        """What the routers of handle calls are told of this replica."""
        return {"zone": zone.local()}

    async def correct(
        self,
        texts: Sequence[str],
        *,
        options: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> dict[str, Any]:
        """Corrects several texts, for callers by handle; admitted and counted like any request.

        options: other fields of the body of `/v1/corrections`.
        headers: of the request.
        timeout_s: its deadline, 60 where none is given.

        Returns the answer of `/v1/corrections` as `status`, `headers` and `body` (JSON), refusals
        included, and `in_flight`: the requests that the replica holds beside this one.
        """
        return await self._calls.correct(texts, options or {}, headers or {}, timeout_s)

    async def __del__(self) -> None:
        await self._server.drain()
        await self._calls.close()


def _placed(spec: ReplicaSpec) -> ReplicaSpec:
    """The spec with the host resolved on this node."""
    if spec.host != NODE_HOST:
        return spec
    import ray

    return dataclasses.replace(spec, host=ray.util.get_node_ip_address())


def _directory(spec: ReplicaSpec) -> Directory:
    if spec.listing is Listing.PROBES:
        return ProbedDirectory(settle_s=spec.settle_s)
    return ReplicaDirectory()


def _launched(spec: ReplicaSpec) -> EngineCore:
    directory = local_checkpoint(spec)
    factory: CoreFactory = imported(spec.engine_factory, "engine factory")
    _log.info("loading %s version %d from %s", spec.model, spec.version, directory)
    return factory(str(directory), spec.engine, spec.front_ends)


def _replica_id() -> str:
    """Serve's own id, which its status shows too; the process id outside Serve."""
    from ray import serve
    from ray.serve.exceptions import RayServeException

    try:
        return str(serve.get_replica_context().replica_id.unique_id)
    except RayServeException:
        return f"process-{os.getpid()}"
