"""No call outlives an engine that died without a word."""

from __future__ import annotations

import asyncio

import pytest

from serving.engine.protocol import EngineDead, GenerateRequest
from serving.engine.state import ReplicaState
from serving.engine.watched import WatchedEngine
from tests.fakes.engine import FakeEngine


def ask(engine: FakeEngine, name: str) -> GenerateRequest:
    return GenerateRequest(
        request_id=name, prompt_token_ids=engine.encode("He go. " * 4), max_tokens=8, n=2
    )


async def test_waiting_calls_end_when_the_engine_dies(
    engine: FakeEngine, state: ReplicaState
) -> None:
    watched = WatchedEngine(engine, state)
    engine.delay_s = 60.0
    calls = [asyncio.create_task(watched.generate(ask(engine, f"r{n}"))) for n in range(3)]
    await asyncio.sleep(0.01)
    assert state.load.sequences == 6
    watched.died("killed for the test")
    found = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 1.0)
    assert [type(each) for each in found] == [EngineDead] * 3
    assert (state.load.sequences, len(engine.aborted)) == (0, 3)
    with pytest.raises(EngineDead, match="killed for the test"):
        await watched.generate(ask(engine, "later"))
    with pytest.raises(EngineDead):
        await watched.check_health()


async def test_a_stream_ends_where_the_engine_died(engine: FakeEngine, state: ReplicaState) -> None:
    watched = WatchedEngine(engine, state)
    engine.token_delay_s = 60.0
    stream = watched.stream(ask(engine, "r"))
    assert (await anext(stream)).index == 0
    watched.died("killed for the test")  # while the stream waits for its reader
    await asyncio.sleep(0.01)
    with pytest.raises(EngineDead):
        await anext(stream)
    assert state.load.sequences == 0


async def test_a_caller_that_leaves_is_not_a_death(engine: FakeEngine, state: ReplicaState) -> None:
    watched = WatchedEngine(engine, state)
    engine.delay_s = 60.0
    call = asyncio.create_task(watched.generate(ask(engine, "r")))
    await asyncio.sleep(0.01)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (state.load.sequences, engine.aborted) == (0, ["r"])
