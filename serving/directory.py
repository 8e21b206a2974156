"""Which replicas exist and what each edge has seen: one named, detached Ray actor.

The actor only stamps calls with its clock and hands them to `DirectoryState`, which decides. Three
kinds of caller: `ensure` makes the actor, `DirectoryClient` is for those who may block (an edge's
reader, a command, a rollout), `ReplicaDirectory` for replicas, which may not.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from serving.directory_state import DirectorySettings, DirectoryState, Snapshot
from serving.endpoint import Endpoint
from serving.errors import ServingError

ACTOR_NAME = "liftlock-directory"
NAMESPACE = "liftlock"


class DirectoryUnavailable(ServingError):
    """The directory did not answer, or its list is not complete yet. Keep the last good list."""


class DirectoryActor:
    """`DirectoryState` as an actor. One method waits, so Ray runs all of them on one event loop;
    the others still run one at a time and to their end, each stamped with the actor's clock."""

    def __init__(self, settings: DirectorySettings) -> None:
        self._state = DirectoryState(settings, now_s=time.monotonic())
        self._told = 0
        self._news = asyncio.Event()

    def publish(self, endpoint: Endpoint) -> int:
        """See `DirectoryState.publish`."""
        return self._tell(self._state.publish(endpoint, now_s=time.monotonic()))

    def mark_draining(self, replica_id: str) -> int:
        """See `DirectoryState.mark_draining`."""
        return self._tell(self._state.mark_draining(replica_id, now_s=time.monotonic()))

    def remove(self, replica_id: str) -> int:
        """See `DirectoryState.remove`."""
        return self._tell(self._state.remove(replica_id))

    def _tell(self, generation: int) -> int:
        """Wake those who wait for a change, if it is one."""
        if generation != self._told:
            self._told = generation
            self._news.set()
            self._news = asyncio.Event()
        return generation

    def snapshot(self) -> Snapshot:
        """See `DirectoryState.snapshot`."""
        return self._state.snapshot(now_s=time.monotonic())

    async def changed(self, generation: int, wait_s: float) -> bool:
        """Whether the list is of another generation; waits for it, `wait_s` at most."""
        if self._state.generation(now_s=time.monotonic()) == generation:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._news.wait()
        return self._state.generation(now_s=time.monotonic()) != generation

    def ack(self, edge_id: str, generation: int) -> None:
        """See `DirectoryState.ack`."""
        self._state.ack(edge_id, generation, now_s=time.monotonic())

    def acked(self) -> Mapping[str, int]:
        """See `DirectoryState.acked`."""
        return self._state.acked(now_s=time.monotonic())

    def released(self, replica_id: str) -> bool:
        """See `DirectoryState.released`."""
        return self._state.released(replica_id, now_s=time.monotonic())


def ensure(settings: DirectorySettings | None = None) -> Any:
    """The actor's handle on the connected cluster; made if absent, two makers get the same one.

    `settings` count for the maker only.
    """
    import ray

    from serving.worker_env import worker_env

    actor = ray.remote(DirectoryActor).options(
        name=ACTOR_NAME,
        namespace=NAMESPACE,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        num_cpus=0,
        runtime_env=worker_env(),
    )
    return actor.remote(settings or DirectorySettings())


class DirectoryClient:
    """The directory for one caller that may block: an edge's reader, a command, a rollout."""

    def __init__(self, *, timeout_s: float = 10.0, owns_connection: bool = False) -> None:
        self._timeout_s = timeout_s
        self._owns_connection = owns_connection

    def snapshot(self) -> tuple[int, tuple[Endpoint, ...]]:
        """The generation and every endpoint.

        Raises:
            DirectoryUnavailable: no answer, or the directory is new and has not met everybody yet.
        """
        found: Snapshot = self._call("snapshot")
        if not found.complete:
            raise DirectoryUnavailable(
                f"the replica directory started a moment ago and knows {len(found.endpoints)} "
                "replicas so far; keep the last list and ask again in a few seconds"
            )
        return found.generation, found.endpoints

    def changed(self, generation: int, wait_s: float) -> bool:
        """Whether the list is of another generation; waits for it, `wait_s` at most."""
        try:
            return bool(self._call("changed", generation, wait_s))
        except AttributeError:  # a directory that an earlier release made is asked for the list
            time.sleep(wait_s)
            return True

    def ack(self, edge_id: str, generation: int) -> None:
        """Says that an edge serves from this generation."""
        self._call("ack", edge_id, generation)

    def acked(self) -> Mapping[str, int]:
        """The generation each living edge serves from."""
        acked: Mapping[str, int] = self._call("acked")
        return acked

    def close(self) -> None:
        """Leaves the cluster if `connect` joined it."""
        if self._owns_connection:
            import ray

            ray.shutdown()

    def _call(self, method: str, *args: object) -> Any:
        import ray
        from ray.exceptions import RayError

        try:
            actor = ray.get_actor(ACTOR_NAME, namespace=NAMESPACE)
            return ray.get(getattr(actor, method).remote(*args), timeout=self._timeout_s)
        except ValueError as exc:
            raise DirectoryUnavailable(
                f"the cluster has no replica directory ({ACTOR_NAME}); it is made when the first "
                "version is deployed"
            ) from exc
        except (RayError, TimeoutError) as exc:
            raise DirectoryUnavailable(
                f"asking the replica directory for {method}: no answer within "
                f"{self._timeout_s:g} s ({type(exc).__name__}: {exc})"
            ) from exc


def connect(address: str) -> DirectoryClient:
    """Joins the Ray cluster at `address` and gives its directory; `close` leaves again."""
    import ray

    ray.init(address=address, namespace=NAMESPACE, log_to_driver=False)
    return DirectoryClient(owns_connection=True)


class ReplicaDirectory:
    """The directory for a replica: awaitable, and made again where it is gone."""

    def __init__(self, *, timeout_s: float = 5.0) -> None:
        self._timeout_s = timeout_s
        self._actor: Any = None

    async def publish(self, endpoint: Endpoint) -> None:
        """One heartbeat; raises DirectoryUnavailable."""
        await self._call("publish", endpoint)

    async def mark_draining(self, replica_id: str) -> None:
        """Asks the edges to send it nothing new; raises DirectoryUnavailable."""
        await self._call("mark_draining", replica_id)

    async def released(self, replica_id: str) -> bool:
        """Whether every living edge has acknowledged; raises DirectoryUnavailable."""
        return bool(await self._call("released", replica_id))

    async def remove(self, replica_id: str) -> None:
        """Takes the replica off the list; raises DirectoryUnavailable."""
        await self._call("remove", replica_id)

    async def _call(self, method: str, *args: object) -> Any:
        from ray.exceptions import RayError

        try:
            if self._actor is None:
                self._actor = await asyncio.to_thread(ensure)
            reference = getattr(self._actor, method).remote(*args)
            # Not wait_for: Python 3.11's can swallow a cancellation.
            async with asyncio.timeout(self._timeout_s):
                return await reference
        except (RayError, TimeoutError, ValueError) as exc:
            self._actor = None
            raise DirectoryUnavailable(
                f"telling the replica directory ({method}): {type(exc).__name__}: {exc}"
            ) from exc
