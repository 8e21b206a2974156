"""One front-end process as its replica holds it: the process, and the control line to it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys

from serving.engine import link, protocol
from serving.engine.link import Hello, Link, LinkLost
from serving.engine.state import Phase
from serving.errors import DeploymentFailed

_log = logging.getLogger(__name__)

_ANSWER_S = 10.0
"""Longest silence of a front end; far above the longest time its event loop is busy."""
_CLOSE_S = 10.0


class Handle:
    """A started front end. `up` once it answers; no more once it has ended."""

    def __init__(self, index: int, process: subprocess.Popen[bytes], line: Link) -> None:
        self.index = index
        self.up = False
        self._process = process
        self._link = line

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    async def until_ready(self) -> None:
        """Waits until it answers requests.

        Raises:
            DeploymentFailed: it said why it cannot, or ended without a word.
        """
        try:
            said = await self._link.ready
        except LinkLost as exc:
            code = await asyncio.to_thread(self._process.wait)
            raise DeploymentFailed(
                f"front end {self.index} ended with {code} before it was ready; see its log"
            ) from exc
        if "error" in said:
            raise DeploymentFailed(f"front end {self.index}: {said['error']}")
        self.up = True

    async def tell(self, phase: Phase) -> None:
        """Moves it on to a phase, where it is up."""
        if not self.up:
            return
        try:
            await self._link.ask("phase", phase=phase, timeout_s=_ANSWER_S)
        except LinkLost as exc:
            _log.warning("front end %d was not told %s: %s", self.index, phase, exc)

    async def check(self) -> None:
        """Returns when it can answer, or has ended and is about to be replaced.

        Raises:
            EngineDead: its engine is gone.
            DeploymentFailed: it is stuck, or its HTTP server has stopped.
        """
        if not self.up:
            return
        try:
            said = await self._link.ask("check", timeout_s=_ANSWER_S)
        except LinkLost as exc:
            if self._process.poll() is None:
                raise DeploymentFailed(f"front end {self.index} is stuck: {exc}") from exc
            return
        if said.get("dead"):
            raise protocol.EngineDead(said["error"])
        if "error" in said:
            raise DeploymentFailed(f"front end {self.index}: {said['error']}")

    async def close(self) -> None:
        """Lets it cut off what it holds and end; kills it where it does not."""
        if self.up:
            with contextlib.suppress(LinkLost):
                await self._link.ask("close", timeout_s=_CLOSE_S)
        else:
            self._process.kill()
        try:
            await asyncio.to_thread(self._process.wait, _CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)
        self._link.close()

    def ended(self) -> int:
        """Its exit code, after it has ended."""
        self.up = False
        self._link.close()
        return self._process.wait()


def start(hello: Hello) -> Handle:
    """Starts the process of a front end; it inherits what `hello` names."""
    ours, theirs = socket.socketpair()
    name = f"front end {hello.index} of {hello.spec.model}@{hello.spec.version}"
    process = subprocess.Popen(
        [sys.executable, "-m", "serving.engine.front_process", str(theirs.fileno()), name],
        pass_fds=(theirs.fileno(), hello.listener_fd, hello.counts_fd, *hello.seat.fds),
        stdin=subprocess.DEVNULL,
        env={
            **os.environ,
            "PROMETHEUS_MULTIPROC_DIR": hello.metrics_dir,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        },
    )
    theirs.close()
    link.say_hello(ours, hello)
    return Handle(hello.index, process, Link(ours))
