"""Many requests at once over two front ends: own answers, typed refusals, nothing left behind."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest
import pytest_asyncio

from registry.engine_settings import EngineSettings
from serving.engine.state import Limits
from tests.serving.engine.test_fronts import Running, running, until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

MIXED = 10_000
AT_ONCE = 64
LEAVERS = 300
LATE = 500


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def replica(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / "delay_s").write_text("0.01")
    limits = Limits(max_in_flight=1_024, max_waiting=1_024, timeout_s=20.0)
    async with running(folder, limits=limits, engine=EngineSettings(max_num_seqs=64)) as replica:
        yield replica


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def slow_replica(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    folder = tmp_path_factory.mktemp("checkpoint")
    (folder / "delay_s").write_text("0.5")
    limits = Limits(max_in_flight=512, max_waiting=512, timeout_s=20.0)
    async with running(folder, limits=limits, engine=EngineSettings(max_num_seqs=64)) as replica:
        yield replica


def caller(replica: Running) -> httpx.AsyncClient:
    bounds = httpx.Limits(max_connections=None, max_keepalive_connections=AT_ONCE)
    return httpx.AsyncClient(base_url=replica.url, timeout=30.0, trust_env=False, limits=bounds)


async def corrected(client: httpx.AsyncClient, word: str, headers: dict[str, str]) -> str:
    body = {"text": f"{word} go"}
    answer = await client.post("/v1/corrections", json=body, headers=headers)
    assert answer.headers["x-request-id"] == headers["x-request-id"]
    edits: list[dict[str, Any]] = answer.json()["edits"]
    assert [(e["start"], e["replacement"]) for e in edits] == [(len(word) + 1, "goes")]
    return str(answer.json()["corrected"])


async def batched(client: httpx.AsyncClient, word: str, headers: dict[str, str]) -> str:
    body = {"texts": [f"{word} go", f"first {word}"]}
    answer = await client.post("/v1/corrections", json=body, headers=headers)
    one, other = (each["corrected"] for each in answer.json()["results"])
    assert other == f"first {word}"
    return str(one)


async def completed(client: httpx.AsyncClient, word: str, headers: dict[str, str]) -> str:
    body = {"model": "grammar", "prompt": f"{word} go\n", "max_tokens": 8, "temperature": 0}
    answer = await client.post("/v1/completions", json=body, headers=headers)
    assert answer.json()["id"] == f"cmpl-{headers['x-request-id']}"
    return str(answer.json()["choices"][0]["text"])


async def chatted(client: httpx.AsyncClient, word: str, headers: dict[str, str]) -> str:
    body = {"model": "grammar", "messages": [{"role": "user", "content": f"{word} go"}]}
    answer = await client.post("/v1/chat/completions", json=body, headers=headers)
    return str(answer.json()["choices"][0]["message"]["content"])


async def streamed(client: httpx.AsyncClient, word: str, headers: dict[str, str]) -> str:
    body = {"model": "grammar", "prompt": f"{word} go\n", "max_tokens": 8, "stream": True}
    found, ended = [], False
    async with client.stream("POST", "/v1/completions", json=body, headers=headers) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: {"):
                found.append(orjson.loads(line[6:])["choices"][0]["text"])
            ended = ended or line == "data: [DONE]"
    assert ended
    return "".join(found)


KINDS = (corrected, batched, completed, chatted, streamed)


async def test_every_one_of_ten_thousand_mixed_requests_gets_its_own_answer(
    replica: Running,
) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    wrong: list[tuple[str, str]] = []

    async def one(client: httpx.AsyncClient, number: int) -> None:
        async with room:
            word = f"w{number}"
            said = await KINDS[number % len(KINDS)](client, word, {"x-request-id": f"r{number}"})
        if said != f"{word} goes":
            wrong.append((word, said))

    async with caller(replica) as client, asyncio.TaskGroup() as group:
        for number in range(MIXED):
            group.create_task(one(client, number))
    assert wrong == []
    assert replica.server.load() == {"in_flight": 0, "waiting": 0, "queue_age_s": 0.0}


async def test_callers_who_leave_by_the_hundred_leave_nothing_in_the_engine(
    slow_replica: Running,
) -> None:
    rng = random.Random(20251129)

    async def leave(client: httpx.AsyncClient) -> None:
        asked = asyncio.create_task(client.post("/v1/corrections", json={"text": "He go"}))
        await asyncio.sleep(rng.uniform(0.0, 0.4))
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)

    async with caller(slow_replica) as client:
        await asyncio.gather(*(leave(client) for _ in range(LEAVERS)))
    await until(lambda: slow_replica.server.load()["in_flight"] == 0)
    assert slow_replica.fronts.load.sequences == 0
    assert (await slow_replica.ask()).json()["corrected"] == "He goes."


async def test_a_storm_of_hopeless_deadlines_is_refused_or_stopped_and_never_hangs(
    slow_replica: Running,
) -> None:
    headers = {"x-request-timeout-ms": "50"}

    async def late(client: httpx.AsyncClient) -> str:
        body = {"text": "He go"}
        answer = await client.post("/v1/corrections", json=body, headers=headers)
        return f"{answer.status_code} {answer.json()['error']['code']}"

    async with caller(slow_replica) as client:
        said = Counter(await asyncio.gather(*(late(client) for _ in range(LATE))))
    assert set(said) <= {
        "408 deadline_exceeded", "429 deadline_unreachable", "429 queue_full", "429 replica_full",
    }  # fmt: skip
    await until(lambda: slow_replica.server.load()["in_flight"] == 0)
    assert slow_replica.fronts.load.sequences == 0
    assert (await slow_replica.ask()).json()["corrected"] == "He goes."
