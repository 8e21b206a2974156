"""An edge in a process of its own over replicas in theirs; each can be killed as a machine would.

The replicas are listed in a file, which the edge watches. Replacing the file stands for what the
directory does; `listed` returns once the edge shows that Envoy has taken it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from serving import endpoint
from serving.discovery import sources, traffic
from serving.edge import admin, control, status
from tests.serving.edge import harness
from tests.serving.edge.replica_process import MODEL, ROOT, VERSION, ReplicaProcess


class Fleet:
    """Replicas of one version behind one edge."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.port = harness.free_port()
        self.replicas: list[ReplicaProcess] = []
        """Those that are listed as ready."""
        self.envoy_pid: int | None = None
        self._started: list[ReplicaProcess] = []
        self._edge: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def new(self, *, delay_s: float = 0.0) -> ReplicaProcess:
        """Start a replica; nobody is told of it."""
        replica = await ReplicaProcess.start(delay_s=delay_s)
        self._started.append(replica)
        return replica

    async def listed(
        self, ready: Iterable[ReplicaProcess], draining: Iterable[ReplicaProcess] = ()
    ) -> None:
        """Say who is there, and return when Envoy serves from exactly the ready ones."""
        self.replicas = list(ready)
        leaving = [r.endpoint(endpoint.EndpointState.DRAINING) for r in draining]
        known = [r.endpoint() for r in self.replicas] + leaving
        content = {"endpoints": [sources.endpoint_to_json(replica) for replica in known]}
        new = self.root / "endpoints.new"
        new.write_text(json.dumps(content))
        new.replace(self.root / "endpoints.json")
        if self._edge is not None:
            await self.shown()

    async def leave(self, replica: ReplicaProcess) -> None:
        """Take a replica out as a rollout does: out of discovery, then out of Envoy, then ended."""
        await self.listed([r for r in self.replicas if r is not replica], [replica])
        await replica.stop()
        await self.listed(self.replicas)

    async def start_edge(self) -> None:
        """Start the edge service; it takes over an Envoy that is there already."""
        command = ("-m", "serving.edge", "--home", str(self.root), "--port", str(self.port))
        self._edge = await asyncio.create_subprocess_exec(
            sys.executable, *command, "--endpoints", str(self.root / "endpoints.json"),
            "--workers", "1", cwd=ROOT,
        )  # fmt: skip
        self.envoy_pid = (await self.shown()).envoy_pid

    async def kill_edge(self) -> None:
        """SIGKILL to discovery, that is to the edge service; Envoy is another process."""
        assert self._edge is not None
        self._edge.kill()
        await self._edge.wait()

    async def shown(self, timeout_s: float = 30.0) -> status.EdgeStatus:
        """The status once it is of this very service and Envoy has exactly the ready replicas."""
        assert self._edge is not None
        wanted = {replica.address for replica in self.replicas}
        async with asyncio.timeout(timeout_s):
            while True:
                found = control.current_status(self.root)
                known = found.version(MODEL, VERSION) if found is not None else None
                ours = found is not None and found.pid == self._edge.pid
                if found is not None and ours and known and set(known.endpoints) == wanted:
                    return found
                await asyncio.sleep(0.05)

    async def counted(self) -> admin.ClusterStats:
        """Envoy's own counters."""
        return await control.stats(self.root, MODEL, VERSION)

    async def membership_changes(self) -> int:
        """How often Envoy has changed the list of replicas it uses."""
        found = control.current_status(self.root)
        assert found is not None
        assert found.admin_url is not None
        name = f"cluster.{MODEL}@v{VERSION}.membership_change"
        async with httpx.AsyncClient(trust_env=False, verify=False) as http:
            answer = await http.get(f"{found.admin_url}/stats", params={"filter": f"^{name}$"})
        return int(answer.text.rpartition(":")[2])

    async def end(self) -> None:
        """Nothing of the fleet outlives this."""
        if self._edge is not None and self._edge.returncode is None:
            self._edge.send_signal(signal.SIGTERM)
            async with asyncio.timeout(20):
                await self._edge.wait()
        elif self.envoy_pid is not None:
            os.kill(self.envoy_pid, signal.SIGKILL)
        for replica in self._started:
            await replica.kill()


@asynccontextmanager
async def running(root: Path, replicas: int, *, delay_s: float = 0.0) -> AsyncIterator[Fleet]:
    """A fleet of so many replicas, answering through the edge, for the body."""
    fleet = Fleet(root)
    try:
        await fleet.listed([await fleet.new(delay_s=delay_s) for _ in range(replicas)])
        control.set_model_traffic(root, traffic.whole(MODEL, VERSION), epoch=1)
        await fleet.start_edge()
        yield fleet
    finally:
        await fleet.end()
