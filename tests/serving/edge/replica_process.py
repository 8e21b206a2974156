"""The cheap replica in a process of its own, which can be killed, and a test's handle on it.

Prints its port, then obeys lines of JSON on standard input ({"delay_s": 0.3}, {"status": 500}).
SIGTERM ends it once it holds no request, as a replica does that left discovery; so does the end of
standard input, so that none outlives its test.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from asyncio import subprocess
from pathlib import Path

from serving import endpoint
from tests.serving.edge import upstream

ROOT = Path(__file__).parents[3]
MODEL, VERSION = "grammar", 1


class ReplicaProcess:
    """One running replica."""

    def __init__(self, process: subprocess.Process, port: int) -> None:
        self._process = process
        self.port = port

    @classmethod
    async def start(cls, *, delay_s: float = 0.0) -> ReplicaProcess:
        """Returns when it listens."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", __name__, str(delay_s), cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        return cls(process, int(await process.stdout.readline()))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def endpoint(
        self, state: endpoint.EndpointState = endpoint.EndpointState.READY
    ) -> endpoint.Endpoint:
        return endpoint.Endpoint(
            replica_id=f"{MODEL}-{self.port}", model=MODEL, version=VERSION, digest="d",
            host="127.0.0.1", port=self.port, state=state,
        )  # fmt: skip

    async def tell(self, **knobs: float) -> None:
        """Change how it behaves; see Upstream."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(knobs).encode() + b"\n")
        await self._process.stdin.drain()

    async def kill(self) -> None:
        """SIGKILL: what it was working on is cut."""
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM: it finishes what it holds."""
        await self._end(signal.SIGTERM)

    async def _end(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            self._process.send_signal(number)
        async with asyncio.timeout(20):
            await self._process.wait()


async def serve(delay_s: float) -> None:
    """The process itself."""
    leaving = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, leaving.set)
    async with upstream.Upstream(VERSION, delay_s=delay_s, model=MODEL) as replica:
        print(replica.port, flush=True)
        obeying = asyncio.create_task(_obey(replica, leaving))
        await leaving.wait()
        while replica.in_flight:  # noqa: ASYNC110  a stand-in need not be prompt
            await asyncio.sleep(0.02)
        obeying.cancel()


async def _obey(replica: upstream.Upstream, leaving: asyncio.Event) -> None:
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await reader.readline():
        for name, value in json.loads(line).items():
            setattr(replica, name, value)
    leaving.set()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
