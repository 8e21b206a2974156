"""What the directory decides, with the clock in the test's hand."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from serving.directory import DirectoryActor
from serving.directory_state import DirectorySettings, DirectoryState
from serving.endpoint import Endpoint, EndpointState

SETTLED_S = 5.0


def endpoint(name: str = "r1", state: EndpointState = EndpointState.READY) -> Endpoint:
    return Endpoint(
        replica_id=name, model="grammar", version=1, digest="sha256:0",
        host="127.0.0.1", port=4000, state=state,
    )  # fmt: skip


@pytest.fixture
def state() -> DirectoryState:
    settings = DirectorySettings(heartbeat_timeout_s=5.0, edge_timeout_s=30.0)
    return DirectoryState(settings, now_s=0.0)


def test_a_published_replica_is_listed(state: DirectoryState) -> None:
    state.publish(endpoint("b"), now_s=1.0)
    state.publish(endpoint("a"), now_s=1.0)
    assert [e.replica_id for e in state.snapshot(now_s=2.0).endpoints] == ["a", "b"]


def test_the_generation_grows_with_changes_only(state: DirectoryState) -> None:
    first = state.publish(endpoint(), now_s=1.0)
    assert state.publish(endpoint(), now_s=2.0) == first
    moved = state.publish(replace(endpoint(), port=4001), now_s=3.0)
    assert moved == first + 1
    assert state.remove("r1") == moved + 1
    assert state.remove("r1") == moved + 1


def test_a_silent_replica_is_dropped_at_its_timeout(state: DirectoryState) -> None:
    generation = state.publish(endpoint(), now_s=1.0)
    assert len(state.snapshot(now_s=6.0).endpoints) == 1
    late = state.snapshot(now_s=6.1)
    assert (late.endpoints, late.generation) == ((), generation + 1)


def test_a_replica_that_was_silent_comes_back_with_its_next_heartbeat(
    state: DirectoryState,
) -> None:
    state.publish(endpoint(), now_s=1.0)
    assert state.snapshot(now_s=10.0).endpoints == ()
    state.publish(endpoint(), now_s=11.0)
    assert len(state.snapshot(now_s=11.0).endpoints) == 1


def test_a_new_directory_says_that_it_has_not_met_everybody(state: DirectoryState) -> None:
    state.publish(endpoint(), now_s=1.0)
    assert not state.snapshot(now_s=4.9).complete
    assert state.snapshot(now_s=5.0).complete


def test_draining_is_final(state: DirectoryState) -> None:
    state.publish(endpoint(), now_s=1.0)
    generation = state.mark_draining("r1", now_s=2.0)
    assert state.publish(endpoint(), now_s=3.0) == generation
    assert state.snapshot(now_s=3.0).endpoints[0].state is EndpointState.DRAINING


def test_marking_an_unknown_replica_changes_nothing(state: DirectoryState) -> None:
    generation = state.publish(endpoint(), now_s=1.0)
    assert state.mark_draining("other", now_s=2.0) == generation


def test_a_draining_replica_waits_for_every_edge(state: DirectoryState) -> None:
    generation = state.publish(endpoint(), now_s=6.0)
    for edge in ("e1", "e2"):
        state.ack(edge, generation, now_s=6.0)
    drained = state.mark_draining("r1", now_s=7.0)
    assert not state.released("r1", now_s=7.0)
    state.ack("e1", drained, now_s=7.1)
    assert not state.released("r1", now_s=7.1)
    state.ack("e2", drained + 3, now_s=7.2)
    assert state.released("r1", now_s=7.2)


def test_later_changes_do_not_make_a_draining_replica_wait_again(state: DirectoryState) -> None:
    state.publish(endpoint(), now_s=6.0)
    drained = state.mark_draining("r1", now_s=7.0)
    state.ack("e1", drained, now_s=7.0)
    state.publish(endpoint("r2"), now_s=7.5)
    state.publish(endpoint(state=EndpointState.DRAINING), now_s=8.0)
    assert state.released("r1", now_s=8.0)


def test_an_edge_long_silent_is_not_waited_for(state: DirectoryState) -> None:
    state.ack("gone", 0, now_s=6.0)
    for now_s in (10.0, 14.0, 18.0, 22.0, 26.0, 30.0, 34.0):
        state.publish(endpoint(), now_s=now_s)
    state.mark_draining("r1", now_s=35.0)
    assert not state.released("r1", now_s=36.0)
    assert state.released("r1", now_s=36.1)
    assert state.acked(now_s=36.1) == {}


def test_a_ready_replica_is_never_released(state: DirectoryState) -> None:
    state.publish(endpoint(), now_s=6.0)
    assert not state.released("r1", now_s=6.0)


def test_without_edges_there_is_nobody_to_wait_for(state: DirectoryState) -> None:
    state.publish(endpoint(), now_s=6.0)
    state.mark_draining("r1", now_s=6.0)
    assert state.released("r1", now_s=6.0)


def test_a_restarted_directory_releases_nobody_before_it_knows_its_edges(
    state: DirectoryState,
) -> None:
    state.publish(endpoint(state=EndpointState.DRAINING), now_s=1.0)
    assert not state.released("r1", now_s=1.0)
    state.publish(endpoint(state=EndpointState.DRAINING), now_s=4.0)
    assert state.released("r1", now_s=SETTLED_S)


def test_a_replica_already_removed_waits_for_edges_that_may_still_list_it(
    state: DirectoryState,
) -> None:
    generation = state.publish(endpoint(), now_s=6.0)
    state.ack("e1", generation, now_s=6.0)
    removed = state.remove("r1")
    assert not state.released("r1", now_s=6.0)
    state.ack("e1", removed, now_s=6.5)
    assert state.released("r1", now_s=6.5)


def test_settings_name_the_bad_field() -> None:
    with pytest.raises(ValueError, match="heartbeat_timeout_s must be above 0, got 0"):
        DirectorySettings(heartbeat_timeout_s=0)


async def test_who_waits_for_a_change_hears_of_it_at_once_or_that_there_is_none() -> None:
    actor = DirectoryActor(DirectorySettings())
    generation = actor.publish(endpoint("a"))
    assert not await actor.changed(generation, 0.0)
    assert await actor.changed(generation - 1, 60.0)
    waiting = asyncio.create_task(actor.changed(generation, 60.0))
    await asyncio.sleep(0)
    actor.publish(endpoint("a"))  # a heartbeat is no change
    await asyncio.sleep(0)
    assert not waiting.done()
    actor.mark_draining("a")
    assert await waiting
