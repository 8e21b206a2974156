"""Endpoints that really listen: our own replica over a stand-in engine, and vLLM's own server.

What the latter answers must be what the engine answers in process.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from evals import endpoint
from evals.endpoint import Endpoint
from evals.model import TOO_LONG, Answer, Ask
from evals.outcome import Outcomes
from evals.request import Request
from evals.results import ResultsDir
from registry import checkpoint
from registry.engine_settings import EngineSettings
from registry.manifest import Generation
from serving.engine.server import ReplicaServer
from tests.conftest import free_port
from tests.evals.harness.test_worker import first_lines
from tests.fakes.engine import FakeEngine
from tests.fakes.fronts import LocalFronts
from tests.serving.engine.test_server import SPEC, MemoryDirectory

CHECKPOINT = Path("examples/checkpoints/tiny-gec-1")
START_TIMEOUT_S = 240.0


async def test_our_own_replica_corrects_and_has_no_probabilities() -> None:
    server = ReplicaServer(SPEC, LocalFronts(SPEC, FakeEngine()), MemoryDirectory(), "r1")
    await server.start()
    url = f"http://{server.endpoint.host}:{server.endpoint.port}"
    found: dict[int, Answer] = {}

    def ask() -> str | None:
        served = endpoint.look(url, model=None)
        assert (served.model, served.digest) == ("grammar", SPEC.digest)
        generation = Generation(max_tokens=12, stop=("\n",))
        with Endpoint(url, served, generation, checkpoint_dir=CHECKPOINT) as model:
            model.answer(Ask.TEXT, ["He go.", "many days " * 80], found.__setitem__)
            model._ids = lambda sentences: [[0, 1]]  # type: ignore[method-assign]
            return model.cannot(Ask.LIKELIHOOD)

    reason = await asyncio.to_thread(ask)
    await server.drain()
    assert found[0].text == "He goes."
    assert found[1].finish_reason == TOO_LONG
    assert reason is not None
    assert "not supported here" in reason


def write_suite(folder: Path, name: str, kind: str, rows: list[dict[str, object]]) -> Path:
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (folder / f"{name}.jsonl").write_bytes(data)
    path = folder / f"{name}.yaml"
    path.write_text(
        f"name: {name}\nlanguage: en\nkind: {kind}\nlicense: Apache-2.0\ndescription: made\n"
        f"data: {name}.jsonl\nsha256: {hashlib.sha256(data).hexdigest()}\n"
    )
    return path


@pytest.fixture
def suites(tmp_path: Path) -> tuple[Path, ...]:
    """Forty sentences of either shipped suite, pairs made of them, and some that are too long."""
    paths = [first_lines(name, 40, tmp_path) for name in ("erroneous", "clean")]
    lines = (tmp_path / "erroneous.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    pairs: list[dict[str, object]] = [
        {"id": f"p{n}", "source": row["references"][0], "contrast": row["source"]}
        for n, row in enumerate(rows)
    ]
    pairs.append({"id": "long", "source": "word " * 300, "contrast": "x"})
    # 256 tokens of context: a prompt of 130 leaves room for an answer of 64, one of 210 does not.
    long: list[dict[str, object]] = [
        {"id": f"x{n}", "source": "x " * n, "references": ["x"]} for n in (60, 100, 300)
    ]
    paths.append(write_suite(tmp_path, "pairs", "minimal-pairs", pairs))
    paths.append(write_suite(tmp_path, "long", "correction", long))
    return tuple(paths)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """vLLM's own OpenAI server over the demo checkpoint."""
    port = free_port()
    command = [
        sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(CHECKPOINT),
        "--served-model-name", "gec", "--host", "127.0.0.1", "--port", str(port),
        "--dtype", "bfloat16", "--max-model-len", "256", "--max-num-seqs", "64", "--enforce-eager",
    ]  # fmt: skip
    env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_NO_USAGE_STATS": "1",
           "HF_HUB_OFFLINE": "1"}  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    with (tmp_path / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=env)
        try:
            give_up_s = time.monotonic() + START_TIMEOUT_S
            while not _is_up(url):
                assert process.poll() is None, (tmp_path / "server.log").read_text()[-3000:]
                assert time.monotonic() < give_up_s, (tmp_path / "server.log").read_text()[-3000:]
                time.sleep(0.5)
            yield url
        finally:
            process.terminate()
            process.wait(60)


def _is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


def worked(request: Request, out: Path) -> ResultsDir:
    """The results of a worker in a process of its own."""
    out.mkdir()
    (out / "request.json").write_text(request.to_json())
    command = [sys.executable, "-m", "evals.harness"]
    command += ["--request", str(out / "request.json"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return ResultsDir(path=out)


def likelihoods(results: ResultsDir) -> dict[tuple[str, int], float | None]:
    lines = results.answers_path("pairs").read_text().splitlines()[1:]
    rows = [json.loads(line) for line in lines]
    return {(row["example_id"], row["part"]): row["logprob"] for row in rows}


@pytest.mark.slow
@pytest.mark.skipif(not CHECKPOINT.is_dir(), reason="the demo checkpoint is not there")
def test_both_routes_to_one_checkpoint_give_the_same_answers(
    tmp_path: Path, suites: tuple[Path, ...], server: str
) -> None:
    manifest = checkpoint.inspect(CHECKPOINT).manifest
    (tmp_path / "manifest.json").write_text(manifest.to_json())
    over_http = Request(
        suites=suites, manifest=tmp_path / "manifest.json", checkpoint_dir=CHECKPOINT,
        endpoint=server,
    )  # fmt: skip
    in_process = Request(
        suites=suites, manifest=tmp_path / "manifest.json", checkpoint_dir=CHECKPOINT,
        engine=EngineSettings(kv_cache_gib=0.25),
    )  # fmt: skip
    far, near = worked(over_http, tmp_path / "far"), worked(in_process, tmp_path / "near")
    assert far.summary()["unavailable"] == near.summary()["unavailable"] == {}
    for name in ("synthetic-erroneous", "synthetic-clean", "pairs", "long"):
        assert _said(far.read(name)) == _said(near.read(name))
    assert near.read("synthetic-clean").rate is not None
    assert near.read("pairs").outcomes[-1].finish_reason == TOO_LONG
    assert near.read("pairs").missing == 1
    reasons = [outcome.finish_reason for outcome in near.read("long").outcomes]
    assert reasons == ["length", TOO_LONG, TOO_LONG]
    one, other = likelihoods(far), likelihoods(near)
    assert one.keys() == other.keys()
    for key, value in one.items():
        # The same to the last bit when it was tried; batches made up otherwise may round otherwise.
        assert value == pytest.approx(other[key], abs=0.1)


def _said(outcomes: Outcomes) -> list[tuple[str, float | None, str]]:
    return [(one.output, one.score, one.finish_reason) for one in outcomes.outcomes]
