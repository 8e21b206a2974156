"""What every engine must do: the fake passes it always, vLLM over the demo checkpoint when slow."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from registry.engine_settings import EngineSettings
from serving.engine import protocol
from serving.engine.vllm_engine import VllmEngine
from tests.fakes.engine import FakeEngine

CHECKPOINT = Path(__file__).parents[3] / "examples" / "checkpoints" / "tiny-gec-1"
PROMPT = "Correct: She go to school every days.\nFixed:"
pytestmark = [
    # One vLLM engine takes half a minute to start, so the module shares one, and its loop.
    pytest.mark.asyncio(loop_scope="module"),
    # vLLM and torch warn of their own deprecations, in this process too.
    pytest.mark.filterwarnings("ignore"),
]


@pytest_asyncio.fixture(
    scope="module",
    loop_scope="module",
    params=["fake", pytest.param("vllm", marks=pytest.mark.slow)],
)
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[protocol.Engine]:
    if request.param == "fake":
        yield FakeEngine()
        return
    from serving.engine import vllm_core

    core = vllm_core.launch(str(CHECKPOINT), EngineSettings(kv_cache_gib=0.25), 1)
    core.wait_until_loaded()
    seat = core.seat()
    assert seat is not None
    engine = vllm_core.attach(seat.arguments, [os.dup(fd) for fd in seat.fds])
    yield engine
    engine.shutdown()
    core.shutdown()


def ask(
    engine: protocol.Engine, prompt: str = PROMPT, **changes: object
) -> protocol.GenerateRequest:
    known: dict[str, object] = {
        "request_id": protocol.unique_id("test"), "prompt_token_ids": engine.encode(prompt),
        "max_tokens": 4, "temperature": 0.0,
    }  # fmt: skip
    return protocol.GenerateRequest(**{**known, **changes})  # type: ignore[arg-type]


def held(engine: protocol.Engine) -> int:
    """How many requests the engine still works on."""
    if isinstance(engine, FakeEngine):
        return engine.running
    assert isinstance(engine, VllmEngine)
    return engine._llm.get_num_unfinished_requests()


async def test_a_greedy_result_repeats_and_counts_its_tokens(engine: protocol.Engine) -> None:
    request = ask(engine)
    first, second = await asyncio.gather(engine.generate(request), engine.generate(ask(engine)))
    assert first == second
    assert first.prompt_tokens == len(request.prompt_token_ids)
    assert 1 <= first.completion_tokens <= 4
    assert [choice.index for choice in first.choices] == [0]


async def test_running_out_of_tokens_is_said(engine: protocol.Engine) -> None:
    result = await engine.generate(ask(engine, max_tokens=1))
    assert result.choices[0].finish_reason is protocol.FinishReason.LENGTH
    assert result.completion_tokens == 1


async def test_several_choices_are_numbered(engine: protocol.Engine) -> None:
    result = await engine.generate(ask(engine, n=3, temperature=1.0, seed=1))
    assert [choice.index for choice in result.choices] == [0, 1, 2]


async def test_a_stream_adds_up_to_the_result(engine: protocol.Engine) -> None:
    whole = await engine.generate(ask(engine))
    deltas = [delta async for delta in engine.stream(ask(engine))]
    assert "".join(delta.text for delta in deltas) == whole.choices[0].text
    assert sum(delta.completion_tokens for delta in deltas) == whole.completion_tokens
    reasons = [delta.finish_reason for delta in deltas]
    assert reasons[-1] is whole.choices[0].finish_reason
    assert all(reason is None for reason in reasons[:-1])


async def test_a_stop_string_ends_a_completion_and_is_left_out(engine: protocol.Engine) -> None:
    whole = (await engine.generate(ask(engine, max_tokens=12))).choices[0].text
    stop = whole.split()[1]
    result = (await engine.generate(ask(engine, max_tokens=12, stop=(stop,)))).choices[0]
    assert result.finish_reason is protocol.FinishReason.STOP
    assert stop not in result.text


@pytest.mark.parametrize("most", [0, 1, 5])
async def test_logprobs_hold_every_counted_token_and_the_likeliest_in_its_place(
    engine: protocol.Engine, most: int
) -> None:
    result = await engine.generate(ask(engine, max_tokens=12, logprobs=most))
    choice = result.choices[0]
    assert choice.logprobs is not None
    assert len(choice.logprobs) == result.completion_tokens
    assert "".join(each.token for each in choice.logprobs).strip().startswith(choice.text.strip())
    for each in choice.logprobs:
        assert protocol.LEAST_LOGPROB <= each.logprob <= 0.0
        assert len(each.top) == most
        assert [each for _, each in each.top] == sorted((p for _, p in each.top), reverse=True)
        # Greedy: what was taken is the likeliest.
        assert not each.top or each.top[0] == (each.token, pytest.approx(each.logprob))


async def test_logprobs_that_nobody_asked_for_are_not_there(engine: protocol.Engine) -> None:
    assert (await engine.generate(ask(engine))).choices[0].logprobs is None
    assert [d.logprobs async for d in engine.stream(ask(engine)) if d.logprobs is not None] == []


@pytest.mark.parametrize("with_stop", [False, True])
async def test_logprobs_of_a_stream_add_up_to_the_result_s(
    engine: protocol.Engine, with_stop: bool
) -> None:
    whole = (await engine.generate(ask(engine, max_tokens=12))).choices[0].text
    stop = (whole.split()[1],) if with_stop else ()
    asked = {"max_tokens": 12, "logprobs": 2, "stop": stop}
    result = await engine.generate(ask(engine, **asked))
    deltas = [delta async for delta in engine.stream(ask(engine, **asked))]
    found = [each for delta in deltas for each in delta.logprobs or ()]
    expected = result.choices[0].logprobs or ()
    assert [each.token for each in found] == [each.token for each in expected]
    assert len(found) == sum(delta.completion_tokens for delta in deltas)


async def test_a_checkpoint_without_a_chat_template_says_so(engine: protocol.Engine) -> None:
    assert engine.encode_chat([protocol.Message(role="user", content="hi")]) is None


@pytest.mark.parametrize("ids", [(10**9,)])
async def test_unknown_token_ids_are_rejected_alone(
    engine: protocol.Engine, ids: tuple[int, ...]
) -> None:
    with pytest.raises(protocol.RequestRejected):
        await engine.generate(ask(engine, prompt_token_ids=ids))
    assert (await engine.generate(ask(engine))).choices


async def test_a_text_that_can_never_fit_is_rejected_unread(engine: protocol.Engine) -> None:
    with pytest.raises(protocol.RequestRejected, match="1000000 characters"):
        engine.encode("a" * 1_000_000)


async def test_cancelling_frees_the_engine(engine: protocol.Engine) -> None:
    requests = [ask(engine, max_tokens=40) for _ in range(100)]
    tasks = [asyncio.create_task(engine.generate(request)) for request in requests]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in done)
    assert held(engine) == 0
    assert (await engine.generate(ask(engine))).choices


async def test_leaving_a_stream_frees_the_engine(engine: protocol.Engine) -> None:
    stream = engine.stream(ask(engine, max_tokens=40))
    await anext(stream)
    await stream.aclose()
    assert held(engine) == 0


async def test_a_living_engine_is_healthy(engine: protocol.Engine) -> None:
    await engine.check_health()
    assert engine.max_model_len_tokens > 16


async def test_an_engine_that_was_shut_down_is_dead(engine: protocol.Engine) -> None:
    engine.shutdown()  # the last test of each engine
    with pytest.raises(protocol.EngineDead):
        await engine.check_health()
    with pytest.raises(protocol.EngineDead):
        await engine.generate(ask(engine))
