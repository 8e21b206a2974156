"""Endpoints from the directory actor on a Ray cluster, asked through a child process.

The one idea is the child. A Ray driver blocks for long while its cluster is away, cannot move to
a restarted cluster and is ended by Ray when the cluster stays away; the edge must outlive all of
that. So Ray is imported and used by `python -m serving.discovery.ray_source`, which answers one
line of JSON per line of request, and is started again when it dies or hangs.

The directory itself is written in serving.directory, imported only in the child.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import os
import sys
import time
from asyncio import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TextIO

from serving import endpoint
from serving.discovery import errors, observation, sources

_LINE_LIMIT_BYTES = 16 * 1024 * 1024
"""Longest answer of the child; 10,000 endpoints take about 2 MB."""
_REJOIN_S = 8.0
"""How long the directory may fail before the connection to the cluster is made anew."""


class Directory(Protocol):
    """What serving.directory.connect(address) gives the child."""

    def snapshot(self) -> tuple[int, Sequence[endpoint.Endpoint]]:
        """The generation and every endpoint; raises when the cluster does not answer."""

    def changed(self, generation: int, wait_s: float) -> bool:
        """Whether there is another generation; waits for it, `wait_s` at most."""

    def ack(self, edge_id: str, generation: int) -> None:
        """Record what an edge serves from."""

    def close(self) -> None:
        """Leave the cluster, so that another `connect` may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildSettings:
    """How patient the parent is with its child."""

    answer_s: float = 15.0
    """Longest wait for an answer; covers joining a Ray cluster, beyond it the child is replaced."""
    restart_s: float = 2.0
    """Shortest time between two starts; importing Ray takes seconds of CPU."""
    close_s: float = 2.0
    """Time for the child to leave by itself before it is killed."""


class ChildSource:
    """A source that asks a child process, line by line. Start it by listing."""

    def __init__(self, command: Sequence[str], settings: ChildSettings | None = None) -> None:
        self._command = tuple(command)
        self._settings = settings or ChildSettings()
        self._process: subprocess.Process | None = None
        self._started_at_s: float | None = None
        self._turn = asyncio.Lock()
        self._known: observation.Listing | None = None
        """The latest, where the directory has just said that it has no other."""
        self._latest: observation.Listing | None = None

    async def list(self) -> observation.Listing:
        known, self._known = self._known, None
        if known is None:
            answer = await self._ask({"ask": "list"})
            known = sources.parse_listing(answer, origin="the Ray directory")
        self._latest = known
        return known

    async def changed(self, generation: int) -> None:
        """The directory itself waits, so a change is here as soon as it is there."""
        answer = await self._ask({"ask": "changed", "generation": generation})
        latest = self._latest
        same = latest is not None and latest.generation == generation
        self._known = latest if same and answer.get("changed") is False else None

    async def ack(self, edge_id: str, generation: int) -> None:
        await self._ask({"ask": "ack", "edge_id": edge_id, "generation": generation})

    async def close(self) -> None:
        async with self._turn:
            process, self._process = self._process, None
            if process is None:
                return
            if process.stdin is not None:
                process.stdin.close()
            try:
                async with asyncio.timeout(self._settings.close_s):
                    await process.wait()
            except TimeoutError:
                await _kill(process)

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        async with self._turn:
            process = await self._running()
            try:
                async with asyncio.timeout(self._settings.answer_s):
                    line = await _exchange(process, request)
            except TimeoutError as exc:
                await self._discard(process)
                raise errors.SourceFailed(
                    f"the Ray directory gave no answer within {self._settings.answer_s:g} s; "
                    f"starting its reader anew. Is the Ray cluster up?"
                ) from exc
            except asyncio.CancelledError:
                await self._discard(process)  # its answer would be taken for the next one's
                raise
            except (OSError, ValueError) as exc:
                await self._discard(process)
                raise errors.SourceFailed(f"the reader of the Ray directory broke: {exc}") from exc
            if not line:
                await self._discard(process)
                raise errors.SourceFailed("the reader of the Ray directory ended; starting anew")
        answer = _decode(line)
        if "error" in answer:
            raise errors.SourceFailed(f"the Ray directory cannot be read: {answer['error']}")
        return answer

    async def _running(self) -> subprocess.Process:
        if self._process is not None and self._process.returncode is None:
            return self._process
        now_s = time.monotonic()
        if self._started_at_s is not None and now_s - self._started_at_s < self._settings.restart_s:
            raise errors.SourceFailed("waiting to start the reader of the Ray directory anew")
        self._started_at_s = now_s
        try:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                limit=_LINE_LIMIT_BYTES,
                start_new_session=True,  # Ctrl-C is for the parent; the child ends with its input
            )
        except OSError as exc:
            raise errors.SourceFailed(f"cannot start {self._command[0]}: {exc}") from exc
        return self._process

    async def _discard(self, process: subprocess.Process) -> None:
        self._process = None
        await _kill(process)


def ray_directory(address: str, settings: ChildSettings | None = None) -> ChildSource:
    """The endpoints registered with the directory on the Ray cluster at `address`."""
    command = (sys.executable, "-m", "serving.discovery.ray_source", "--address", address)
    return ChildSource(command, settings)


async def _exchange(process: subprocess.Process, request: dict[str, Any]) -> bytes:
    if process.stdin is None or process.stdout is None:
        raise ValueError("it has no pipes")
    process.stdin.write(json.dumps(request).encode() + b"\n")
    await process.stdin.drain()
    return await process.stdout.readline()


async def _kill(process: subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


def _decode(line: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        return {"error": f"unexpected answer {line[:80]!r}"}
    return answer


class _Reader:
    """The child's side: joins the cluster when asked, and joins anew when it fails for long."""

    def __init__(self, connect: Callable[[], Directory], clock: Callable[[], float]) -> None:
        self._connect = connect
        self._clock = clock
        self._directory: Directory | None = None
        self._failing_since_s: float | None = None

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """One answer; an error is an answer too, since the next request may fare better."""
        try:
            if self._directory is None:
                self._directory = self._connect()
            answer = _perform(self._directory, request)
        except Exception as exc:  # supervisor: Ray has no common base for "the cluster is away"
            self._failed()
            return {"error": f"{type(exc).__name__}: {exc}"}
        self._failing_since_s = None
        return answer

    def _failed(self) -> None:
        """A directory that is merely young needs no new connection; a restarted cluster does."""
        now_s = self._clock()
        if self._failing_since_s is None:
            self._failing_since_s = now_s
        elif now_s - self._failing_since_s > _REJOIN_S:
            self._failing_since_s = None
            self.leave()

    def leave(self) -> None:
        directory, self._directory = self._directory, None
        if directory is not None:
            directory.close()


def _perform(directory: Directory, request: dict[str, Any]) -> dict[str, Any]:
    if request["ask"] == "ack":
        directory.ack(request["edge_id"], request["generation"])
        return {}
    if request["ask"] == "changed":
        return {"changed": directory.changed(request["generation"], sources.WAIT_S)}
    generation, endpoints = directory.snapshot()
    return {
        "generation": generation,
        "endpoints": [sources.endpoint_to_json(replica) for replica in endpoints],
    }


def serve(
    connect: Callable[[], Directory],
    requests: Iterable[str],
    answers: TextIO,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Answer each line of `requests` with a line on `answers` until they end."""
    reader = _Reader(connect, clock)
    try:
        for line in requests:
            answers.write(json.dumps(reader.answer(json.loads(line))) + "\n")
            answers.flush()
    finally:
        reader.leave()


def main() -> None:
    """The child: standard input to standard output, which nothing else may write to."""
    parser = argparse.ArgumentParser(description="Answer questions about the Ray directory.")
    parser.add_argument("--address", required=True, help="address of the Ray cluster")
    address = parser.parse_args().address
    directory = importlib.import_module("serving.directory")
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # Ray prints, also from C++
        serve(lambda: directory.connect(address), sys.stdin, answers)


if __name__ == "__main__":
    main()
