"""One liftlock replica without Ray, for `benchmarks.replica`: prints where it listens, then waits.

    python -m benchmarks.replica_host --checkpoint DIR --front-ends 2 [--still]

`--still` puts an engine in each front end that costs no CPU beyond the front end's own: it reads
the prompt with the checkpoint's tokenizer, waits, and writes fixed tokens as text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any

from registry import checkpoint
from registry.engine_settings import EngineSettings
from serving.endpoint import Endpoint
from serving.engine import protocol
from serving.engine.core import CoreFactory, Seat, imported
from serving.engine.fronts import FrontProcesses
from serving.engine.server import ReplicaServer
from serving.engine.spec import ReplicaSpec
from serving.engine.state import Limits

MODEL = "grammar"
ENGINE = EngineSettings(kv_cache_gib=0.25)
STILL_S = 0.05
STILL_TOKENS = 50


class NoDirectory:
    """Nobody is told anything."""

    async def publish(self, endpoint: Endpoint) -> None:
        """Ignored."""

    async def mark_draining(self, replica_id: str) -> None:
        """Ignored."""

    async def released(self, replica_id: str) -> bool:
        """At once."""
        return True

    async def remove(self, replica_id: str) -> None:
        """Ignored."""


class StillEngine:
    """An `Engine` that takes time and no CPU."""

    def __init__(self, checkpoint_dir: str) -> None:
        from tokenizers import Tokenizer

        self.max_model_len_tokens = 256
        self._tokenizer = Tokenizer.from_file(str(Path(checkpoint_dir, "tokenizer.json")))

    def encode(self, text: str) -> tuple[int, ...]:
        """Really tokenized."""
        return tuple(self._tokenizer.encode(text).ids)

    async def generate(self, request: protocol.GenerateRequest) -> protocol.GenerateResult:
        """The prompt's own tokens, over and over, really turned into text."""
        await asyncio.sleep(STILL_S)
        ids = (request.prompt_token_ids * STILL_TOKENS)[:STILL_TOKENS]
        choice = protocol.Choice(
            index=0, text=self._tokenizer.decode(ids), finish_reason=protocol.FinishReason.LENGTH
        )
        return protocol.GenerateResult(
            choices=(choice,),
            prompt_tokens=len(request.prompt_token_ids),
            completion_tokens=len(ids),
        )

    async def stream(
        self, request: protocol.GenerateRequest
    ) -> AsyncGenerator[protocol.Delta, None]:
        """Not asked for here."""
        raise protocol.RequestRejected("the still engine does not stream")
        yield

    async def check_health(self) -> None:
        """Always well."""

    def shutdown(self) -> None:
        """Holds nothing."""


class StillCore:
    """An `EngineCore` that is a process asleep."""

    def __init__(self, checkpoint_dir: str) -> None:
        self._checkpoint_dir = checkpoint_dir
        self._process = subprocess.Popen(["sleep", "86400"], stdin=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        """Of the sleeper."""
        return self._process.pid

    def seat(self) -> Seat | None:
        """As many as are asked for."""
        return Seat(
            attach="benchmarks.replica_host:attach", arguments={"dir": self._checkpoint_dir}
        )

    def given(self, seat: Seat) -> None:
        """Holds nothing for a seat."""

    def wait_until_loaded(self) -> None:
        """At once."""

    def shutdown(self) -> None:
        """Ends the sleeper."""
        self._process.kill()
        self._process.wait()


def attach(arguments: dict[str, Any], fds: Sequence[int]) -> StillEngine:
    """An `Attach`."""
    return StillEngine(arguments["dir"])


def launch(checkpoint_dir: str, settings: EngineSettings, front_ends: int) -> StillCore:
    """A `CoreFactory`."""
    return StillCore(checkpoint_dir)


async def host(directory: Path, front_ends: int, factory_path: str) -> None:
    """Serves until standard input ends."""
    manifest = checkpoint.inspect(directory).manifest
    spec = ReplicaSpec(
        model=MODEL, version=1, digest=manifest.digest, manifest_json=manifest.to_json(),
        checkpoint_dir=str(directory), engine=ENGINE, engine_factory=factory_path,
        front_ends=front_ends, limits=Limits(max_in_flight=4096, max_waiting=4096), quiet_s=0.0,
    )  # fmt: skip
    factory: CoreFactory = imported(factory_path, "engine factory")
    core = await asyncio.to_thread(factory, str(directory), ENGINE, front_ends)
    fronts = FrontProcesses(spec, core)
    server = ReplicaServer(spec, fronts, NoDirectory(), "benchmark")
    await server.start()
    where = {
        "url": f"http://127.0.0.1:{server.endpoint.port}",
        "processes": {f"front end {n}": pid for n, pid in enumerate(fronts.pids)}
        | {"replica": os.getpid()},
    }
    print("READY " + json.dumps(where), flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await server.drain()


def main() -> None:
    """Parses and serves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--front-ends", type=int, default=1)
    parser.add_argument("--still", action="store_true")
    args = parser.parse_args()
    still = "benchmarks.replica_host:launch"
    factory = still if args.still else "serving.engine.vllm_core:launch"
    asyncio.run(host(args.checkpoint.resolve(), args.front_ends, factory))


if __name__ == "__main__":
    main()
