"""A replica's app over the fake engine, spoken to in process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from registry.manifest import Generation, Manifest, Prompt
from serving.engine.app import ReplicaApp
from serving.engine.state import Identity, Limits, Phase, ReplicaState
from tests.fakes.engine import FakeEngine

MANIFEST = Manifest(
    files=(), prompt=Prompt(template="{text}\n"), generation=Generation(max_tokens=12)
)
LIMITS = Limits(
    max_in_flight=2, max_body_bytes=2_000, max_sequences=8, max_sentences=5, timeout_s=30.0
)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def state() -> ReplicaState:
    identity = Identity(model="grammar", version=7, digest=MANIFEST.digest)
    state = ReplicaState(identity, LIMITS, warmup_token="secret")
    state.phase = Phase.READY
    return state


@pytest.fixture
def app(engine: FakeEngine, state: ReplicaState) -> ReplicaApp:
    return ReplicaApp(engine, state, MANIFEST)


@pytest.fixture
async def http(app: ReplicaApp) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app)  # type: ignore[arg-type]
    async with httpx.AsyncClient(transport=transport, base_url="http://replica") as client:
        yield client


def error(answer: httpx.Response) -> dict[str, Any]:
    """The error object of an answer, after checking its shape."""
    assert answer.headers["content-type"] == "application/json"
    body: dict[str, Any] = answer.json()["error"]
    assert set(body) == {"message", "type", "param", "code"}
    return body
