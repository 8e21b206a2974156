"""Ray Serve's request router for handle calls: two choices over replicas, as `serving.router` does.

Serve loads the class by its path in the process that calls (`serving.cluster` names it), so nothing
of ours imports this module. Serve pickles it by value: state that others look at lives elsewhere,
in `serving.handle_leases`. What Serve's router demands, and where it is met:

- `choose_replicas` must ask for a pause (`should_backoff`), or it is called in a tight loop that
  holds the event loop; what it raises leaves the call hanging for good;
- a call is refused through its future; a rank is returned all the same;
- a call that is canceled between choice and sending is told to nobody: see
  `_choose_replica_for_request`;
- Serve tells that a call is over, but neither how nor what it answered: see `_watch`;
- a live router keeps the arguments it was made with, so it takes none.

`handle.choose_replica()`, which reserves without calling, is not for deployments of ours.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from ray.exceptions import ActorDiedError, ActorUnavailableError, RayError, TaskCancelledError
from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica
from ray.util import metrics

from serving import handle_leases, router, zone

_GRACE_S = 0.5
"""How long after its end a call's answer is waited for; both come at the same moment."""


class TwoChoiceRouter(RequestRouter):  # type: ignore[misc]  # Ray is not typed for mypy here
    """One per deployment in each process that calls it; on Serve's event loop."""

    def initialize_state(self, **kwargs: Any) -> None:
        """Serve calls it once, before it names replicas."""
        if kwargs:
            raise ValueError(f"the request router takes no arguments, got {sorted(kwargs)}")
        self._by_name: dict[str, RunningReplica] = {}
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._leases = handle_leases.HandleLeases(zone.local())
        handle_leases.register(self.app_name, self._leases)
        self._picked = metrics.Counter(
            "liftlock_router_picks",
            description="Choices of the router of handle calls.",
            tag_keys=("application", "replica"),
        )

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Serve has a new list."""
        super().update_replicas(replicas)
        self._by_name = {each.replica_id.unique_id: each for each in replicas}
        listed = [
            router.Destination(id=name, zone=(each.replica_metadata or {}).get("zone"))
            for name, each in self._by_name.items()
        ]
        self._leases.update(listed, time.monotonic())

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> Sequence[list[RunningReplica]]:
        """One rank of one replica, whose place the call holds from now on."""
        if pending_request is None:
            return [candidate_replicas]
        pending_request.routing_context.should_backoff = True
        waited_s = time.time() - pending_request.created_at
        allowed_s = pending_request.kwargs.get("timeout_s")
        if allowed_s is not None and waited_s >= allowed_s:
            late = TimeoutError(f"no replica took the call within {allowed_s:g} s")
            if not pending_request.future.done():
                pending_request.future.set_exception(late)
            return [candidate_replicas[:1]]
        try:
            call = pending_request.metadata.internal_request_id
            name = self._leases.choose(call, time.monotonic())
        except router.NoEndpoints:
            return []
        self._picked.inc(tags={"application": self.app_name, "replica": name})
        return [[self._by_name[name]]]

    async def _choose_replica_for_request(
        self, pending_request: PendingRequest, *, is_retry: bool = False
    ) -> RunningReplica:
        """Serve sends in the same step in which this returns, and tells of nothing if it raises."""
        try:
            return await super()._choose_replica_for_request(pending_request, is_retry=is_retry)
        except BaseException:
            call = pending_request.metadata.internal_request_id
            self._leases.unsent(call, time.monotonic())
            raise

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """A replica has taken the call."""
        super().on_request_routed(pending_request, replica_id, result)
        call = pending_request.metadata.internal_request_id
        watch = self._watch(call, replica_id.unique_id, result)
        self._watches[call] = asyncio.ensure_future(watch)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """A call is over, or was not taken."""
        super().on_request_completed(replica_id, internal_request_id)
        name = replica_id.unique_id
        if internal_request_id in self._watches:
            loop = asyncio.get_running_loop()
            loop.call_later(_GRACE_S, self._unknown, internal_request_id, name)
        else:
            self._unknown(internal_request_id, name)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """A replica is gone, and Serve does not tell of every call that went with it."""
        super().on_replica_actor_died(replica_id)
        self._by_name.pop(replica_id.unique_id, None)
        self._leases.died(replica_id.unique_id, time.monotonic())

    def _unknown(self, call: str, name: str) -> None:
        """Ends a call of which nothing more comes."""
        watch = self._watches.pop(call, None)
        if watch is not None:
            watch.cancel()
        self._leases.over(call, name, router.Outcome.CANCELED, time.monotonic())

    async def _watch(self, call: str, name: str, result: Any) -> None:
        """Waits for the answer, and tells the router what it says of its replica."""
        load = None
        try:
            outcome, load = handle_leases.judged(await (await result.to_object_ref_async()))
        except (ActorDiedError, ActorUnavailableError):
            outcome = router.Outcome.UNREACHED
        except TaskCancelledError:
            outcome = router.Outcome.CANCELED
        except RayError:  # what the method raised
            outcome = router.Outcome.FAILURE
        self._watches.pop(call, None)
        self._leases.over(call, name, outcome, time.monotonic(), load)
