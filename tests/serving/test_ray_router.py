"""What Serve's router does with ours: without a cluster, over replicas made up here."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from serving import cluster, handle_leases, zone
from serving.router import Phase

pytestmark = pytest.mark.filterwarnings("ignore")  # Ray's own, at import

_numbers = itertools.count()


class FakeReplica:
    """What a router sees of a replica."""

    max_ongoing_requests = 1_000_000

    def __init__(self, name: str, of: Any, where: str | None = None) -> None:
        from ray.serve.request_router import ReplicaID

        self.replica_id = ReplicaID(unique_id=name, deployment_id=of)
        self.replica_metadata = {"zone": where}

    async def get_queue_len(self, *, deadline_s: float) -> int:
        return 0


class FakeResult:
    """An answer on its way."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def to_object_ref_async(self) -> asyncio.Future[Any]:
        return self.answer


class Serve:
    """What Serve's own router does with a request router: the order of its calls."""

    def __init__(self, where: str | None = None) -> None:
        from ray.serve._private.common import DeploymentHandleSource, DeploymentID
        from ray.serve.config import RequestRouterConfig

        # As in the process that calls: the class comes pickled, by value.
        config = RequestRouterConfig(request_router_class=cluster.REQUEST_ROUTER)
        self.app = f"app-{next(_numbers)}"
        self.id = DeploymentID(name="replica", app_name=self.app)
        self.router: Any = config.get_request_router_class()(
            deployment_id=self.id,
            handle_source=DeploymentHandleSource.UNKNOWN,
            use_replica_queue_len_cache=True,
        )
        self.router.initialize_state()

    def lists(self, *names: str, zones: dict[str, str] | None = None) -> None:
        found = [FakeReplica(name, self.id, (zones or {}).get(name)) for name in names]
        self.router.update_replicas(found)
        for each in found:  # as the probes of new replicas answer
            self.router.replica_queue_len_cache.update(each.replica_id, 0)

    def asked(self, **kwargs: Any) -> Any:
        from ray.serve._private.common import RequestMetadata
        from ray.serve.request_router import PendingRequest

        number = str(next(_numbers))
        metadata = RequestMetadata(request_id=number, internal_request_id=number)
        return PendingRequest(args=[], kwargs=kwargs, metadata=metadata)

    async def send(self, pending: Any, *, is_retry: bool = False) -> FakeReplica:
        chosen: FakeReplica = await self.router._choose_replica_for_request(
            pending, is_retry=is_retry
        )
        self.router.on_send_request(chosen.replica_id)
        return chosen

    def take(self, pending: Any, at: FakeReplica) -> FakeResult:
        result = FakeResult()
        self.router.on_request_routed(pending, at.replica_id, result)
        return result

    def end(self, pending: Any, at: FakeReplica) -> None:
        self.router.on_request_completed(at.replica_id, pending.metadata.internal_request_id)

    @property
    def stats(self) -> handle_leases.HandleStats:
        return handle_leases.stats(self.app)

    @property
    def counts(self) -> dict[str, int]:
        views = self.router._leases.fleet.views()
        return {name: view.in_flight for name, view in views.items()}


@pytest.fixture
async def serve(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Serve]:
    random.seed(0)
    monkeypatch.setattr(zone, "local", lambda: "here")
    made = Serve()
    yield made
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_burst_spreads_although_none_is_answered(serve: Serve) -> None:
    serve.lists("a", "b")
    chosen = await asyncio.gather(*(serve.send(serve.asked()) for _ in range(150)))
    assert Counter(each.replica_id.unique_id for each in chosen) == {"a": 75, "b": 75}
    assert serve.stats.by_replica == {"a": 75, "b": 75}


async def test_answers_give_places_back_with_what_they_say(serve: Serve) -> None:
    serve.lists("a", "b")
    for _ in range(20):
        pending = serve.asked()
        at = await serve.send(pending)
        result = serve.take(pending, at)
        load = {"a": 9, "b": 1}[at.replica_id.unique_id]
        result.answer.set_result({"status": 200, "in_flight": load})
        await settled()
        serve.end(pending, at)
    assert serve.counts == {"a": 0, "b": 0}
    late = [(await serve.send(serve.asked())).replica_id.unique_id for _ in range(5)]
    assert late == ["b"] * 5  # both told their load


async def test_replicas_that_answer_with_faults_are_left_out(serve: Serve) -> None:
    from ray.exceptions import RayTaskError

    serve.lists("a", "b", "c")
    for number in range(60):
        pending = serve.asked()
        at = await serve.send(pending)
        result = serve.take(pending, at)
        if at.replica_id.unique_id != "a":
            result.answer.set_result({"status": 200, "in_flight": 0})
        elif number % 2:
            result.answer.set_result({"status": 503, "in_flight": 0})
        else:
            result.answer.set_exception(RayTaskError("f", "trace", ValueError("x")))
        await settled()
        serve.end(pending, at)
    assert serve.router._leases.fleet.views()["a"].phase is Phase.EJECTED
    assert serve.stats.in_flight == 0


async def test_an_end_without_an_answer_gives_the_place_back(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve.lists("a")
    before, silent, hasty = serve.asked(), serve.asked(), serve.asked()
    at = await serve.send(before)
    serve.end(before, at)  # rejected, or could not be sent
    assert serve.counts == {"a": 0}
    at = await serve.send(silent)
    serve.take(silent, at)
    serve.end(silent, at)
    serve.router._unknown(silent.metadata.internal_request_id, "a")  # as after the grace
    assert serve.counts == {"a": 0}
    at = await serve.send(hasty)
    serve.end(hasty, at)  # over before its acceptance was seen
    result = serve.take(hasty, at)
    result.answer.set_result({"status": 200, "in_flight": 0})
    await settled()
    assert serve.counts == {"a": 0}
    assert serve.router._watches == {}


async def test_a_call_canceled_before_it_is_sent_holds_nothing(serve: Serve) -> None:
    waiting = asyncio.ensure_future(serve.send(serve.asked()))  # there is no replica yet
    await settled()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    serve.lists("a")
    for moment in range(8):
        calling = asyncio.ensure_future(serve.send(pending := serve.asked()))
        for _ in range(moment):
            await asyncio.sleep(0)
        if calling.cancel():
            await asyncio.gather(calling, return_exceptions=True)
        else:
            serve.end(pending, calling.result())
    await settled()
    assert serve.counts == {"a": 0}
    assert serve.stats.in_flight == 0


async def test_calls_of_a_replica_that_dies_are_given_back(serve: Serve) -> None:
    serve.lists("a", "b")
    calls = [serve.asked() for _ in range(10)]
    sent = [(each, await serve.send(each)) for each in calls]
    dead = next(at for _, at in sent if at.replica_id.unique_id == "a")
    serve.router.on_replica_actor_died(dead.replica_id)
    assert serve.counts == {"b": 5}
    assert serve.stats.in_flight == 5
    lost = next(each for each, at in sent if at.replica_id.unique_id == "a")
    again = await serve.send(lost, is_retry=True)
    assert again.replica_id.unique_id == "b"
    serve.lists("c")
    assert serve.counts == {"c": 0}
    assert serve.stats.in_flight == 0


async def test_a_call_that_is_retried_goes_elsewhere(serve: Serve) -> None:
    serve.lists("a", "b", "c")
    pending = serve.asked()
    first = await serve.send(pending)
    second = await serve.send(pending, is_retry=True)
    assert first.replica_id != second.replica_id
    assert sum(serve.counts.values()) == 1


async def test_a_call_whose_time_is_over_is_refused_at_once(serve: Serve) -> None:
    serve.lists("a")
    late = serve.asked(timeout_s=1.0)
    late.created_at -= 2.0
    async with asyncio.timeout(1.0):
        with pytest.raises(TimeoutError, match="no replica took the call within 1 s"):
            await serve.send(late)
    assert serve.counts == {"a": 0}
    assert (await serve.send(serve.asked(timeout_s=1.0))).replica_id.unique_id == "a"


async def test_full_replicas_are_asked_again_after_a_pause(serve: Serve) -> None:
    serve.lists("a")
    replica = serve.router.curr_replicas[FakeReplica("a", serve.id).replica_id]
    replica.max_ongoing_requests = 0
    calling = asyncio.ensure_future(serve.send(serve.asked()))
    await asyncio.sleep(0.05)  # a loop that does not pause would never come back
    assert not calling.done()
    assert serve.stats.picks < 10
    replica.max_ongoing_requests = 1
    async with asyncio.timeout(5.0):
        await calling
    assert serve.counts == {"a": 1}


async def test_the_zone_of_replicas_is_read_from_their_metadata(serve: Serve) -> None:
    serve.lists("n", "f", zones={"n": "here", "f": "there"})
    chosen = [(await serve.send(serve.asked())).replica_id.unique_id for _ in range(20)]
    assert set(chosen) == {"n"}


async def test_arguments_are_refused_since_a_live_router_would_keep_the_old_ones(
    serve: Serve,
) -> None:
    with pytest.raises(ValueError, match="takes no arguments, got \\['spill_at'\\]"):
        serve.router.initialize_state(spill_at=3)
