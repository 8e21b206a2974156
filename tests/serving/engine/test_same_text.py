"""Ten thousand mixed requests over two front ends on a real engine: everybody gets the own answer.

Batching changes floating point, so an engine may answer a prompt differently in company than alone.
How often it does so by itself is measured beside (A/A); over HTTP it may not be more often.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from scipy import stats

from registry import checkpoint
from serving.engine import protocol, vllm_core
from serving.engine.fronts import FrontProcesses
from serving.engine.server import ReplicaServer
from tests.serving.engine.test_fronts_vllm import CHECKPOINT, two_fronts
from tests.serving.engine.test_server import MemoryDirectory

ROOT = Path(__file__).parents[3]
SUITE = ROOT / "evals" / "suites" / "synthetic" / "erroneous.jsonl"
SENTENCES = 250
REQUESTS = 10_000
AT_ONCE = 64
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


class Asker:
    """One way to ask over HTTP for the correction of a sentence; checks whose answer came back."""

    def __init__(self, url: str) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=AT_ONCE)
        self.http = httpx.AsyncClient(base_url=url, timeout=60.0, trust_env=False, limits=limits)
        manifest = checkpoint.inspect(CHECKPOINT).manifest
        self.prompt, self.generation = manifest.prompt, manifest.generation

    async def corrected(self, sentence: str, name: str) -> str:
        body = {"texts": [sentence]} if name.endswith("0") else {"text": sentence}
        answer = await self._post("/v1/corrections", body, name)
        assert answer["id"] == f"corr-{name}"
        found = answer["results"][0] if "results" in answer else answer
        return str(found["corrected"])

    async def completed(self, sentence: str, name: str) -> str:
        answer = await self._post("/v1/completions", self._wish(sentence), name)
        assert answer["id"] == f"cmpl-{name}"
        return self.prompt.parse(answer["choices"][0]["text"])

    async def streamed(self, sentence: str, name: str) -> str:
        body = {**self._wish(sentence), "stream": True}
        headers, pieces = {"x-request-id": name}, []
        async with self.http.stream("POST", "/v1/completions", json=body, headers=headers) as got:
            async for line in got.aiter_lines():
                if line.startswith("data: {"):
                    event = json.loads(line[6:])
                    assert event["id"] == f"cmpl-{name}"
                    pieces.append(event["choices"][0]["text"])
        return self.prompt.parse("".join(pieces))

    def _wish(self, sentence: str) -> dict[str, Any]:
        return {
            "model": "grammar", "prompt": self.prompt.render(sentence), "temperature": 0.0,
            "max_tokens": self.generation.max_tokens, "stop": list(self.generation.stop),
        }  # fmt: skip

    async def _post(self, path: str, body: dict[str, Any], name: str) -> dict[str, Any]:
        answer = await self.http.post(path, json=body, headers={"x-request-id": name})
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-request-id"] == name
        found: dict[str, Any] = answer.json()
        return found


async def together(asks: list[Callable[[], Awaitable[str]]]) -> list[str]:
    room = asyncio.Semaphore(AT_ONCE)

    async def one(ask: Callable[[], Awaitable[str]]) -> str:
        async with room:
            return await ask()

    return await asyncio.gather(*(one(ask) for ask in asks))


@pytest.fixture
async def replica() -> AsyncIterator[tuple[str, protocol.Engine]]:
    """Where it answers, and its engine asked directly from a seat of our own."""
    spec = two_fronts()
    core = await asyncio.to_thread(vllm_core.launch, str(CHECKPOINT), spec.engine, 2)
    server = ReplicaServer(spec, FrontProcesses(spec, core), MemoryDirectory(), "r1")
    await server.start()
    seat = core.seat()
    assert seat is not None
    engine = vllm_core.attach(seat.arguments, [os.dup(fd) for fd in seat.fds])
    yield f"http://127.0.0.1:{server.endpoint.port}", engine
    engine.shutdown()
    await server.drain()


@pytest.mark.timeout(900)
async def test_text_differs_no_more_often_than_the_engine_differs_from_itself(
    replica: tuple[str, protocol.Engine],
) -> None:
    url, engine = replica
    asker = Asker(url)
    lines = SUITE.read_text(encoding="utf-8").splitlines()
    sentences = [json.loads(line)["source"] for line in lines[:: len(lines) // SENTENCES]]
    sentences = sentences[:SENTENCES]

    async def directly(sentence: str) -> str:
        prompt, settings = asker.prompt.render(sentence), asker.generation
        request = protocol.GenerateRequest(
            request_id=protocol.unique_id("direct"), prompt_token_ids=engine.encode(prompt),
            max_tokens=settings.max_tokens, temperature=0.0, stop=settings.stop,
        )  # fmt: skip
        return asker.prompt.parse((await engine.generate(request)).choices[0].text)

    alone = {sentence: await directly(sentence) for sentence in sentences}
    itself = [sentences[n % SENTENCES] for n in range(REQUESTS // 5)]
    said = await together([lambda s=s: directly(s) for s in itself])  # type: ignore[misc]
    own = sum(text != alone[s] for s, text in zip(itself, said, strict=True))

    kinds = (asker.corrected, asker.completed, asker.streamed)
    mixed = [(kinds[n % 3], sentences[(7 * n) % SENTENCES], f"r{n}") for n in range(REQUESTS)]
    heard = await together([lambda k=k, s=s, r=r: k(s, r) for k, s, r in mixed])  # type: ignore[misc]
    await asker.http.aclose()
    over_http = sum(text != alone[s] for (_, s, _), text in zip(mixed, heard, strict=True))
    print(f"differs from a lone run: engine {own}/{len(itself)}, HTTP {over_http}/{REQUESTS}")
    table = [[over_http, REQUESTS - over_http], [own, len(itself) - own]]
    assert stats.fisher_exact(table, alternative="greater").pvalue > 0.001
    assert len(set(alone.values())) > 0.8 * SENTENCES  # or a mix-up could not be seen
