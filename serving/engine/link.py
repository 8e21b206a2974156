"""The control line between a replica and one of its front ends: a socket pair, JSON lines.

The one idea: the line's end is the other side's death. The replica reads it at once; a front end
has a thread that does nothing but wait for it, so that no process outlives a replica that was
killed, even one whose event loop is stuck.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import pickle
import select
import shutil
import signal
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from serving.engine.core import Seat
from serving.engine.spec import ReplicaSpec
from serving.engine.state import Phase

_LENGTH = struct.Struct("!I")


class LinkLost(Exception):
    """The other side did not answer: it is gone, or stuck."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """What a front end is told first."""

    spec: ReplicaSpec
    index: int
    seat: Seat
    warmup_token: str
    core_pid: int
    listener_fd: int
    counts_fd: int
    metrics_dir: str
    phase: Phase
    """In which the replica is: one that is replaced answers as the others do from the first."""


def say_hello(line: socket.socket, hello: Hello) -> None:
    """Sends it; the line must be blocking."""
    body = pickle.dumps(hello)
    line.sendall(_LENGTH.pack(len(body)) + body)


def hear_hello(line: socket.socket) -> Hello:
    """Receives it; the line must be blocking."""
    (length,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    hello = pickle.loads(_exactly(line, length))
    assert isinstance(hello, Hello)
    return hello


def _exactly(line: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = line.recv(size - len(parts))
        if not part:
            raise LinkLost("the replica closed the control line before it had said hello")
        parts += part
    return bytes(parts)


class Link:
    """The replica's end: asks, and waits for the answer to that question."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._writer: asyncio.StreamWriter | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.ready: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[0] = self.ready
        self._reading = asyncio.create_task(self._read(), name="front-end-link")

    async def ask(self, op: str, *, timeout_s: float, **values: Any) -> dict[str, Any]:
        """The answer to one question.

        Raises:
            LinkLost: none came in time, or none can come any more.
        """
        if self._reading.done() or self._writer is None:
            raise LinkLost("it has ended")
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        self._writer.write(json.dumps({"id": number, "op": op, **values}).encode() + b"\n")
        try:
            return await asyncio.wait_for(answer, timeout_s)
        except TimeoutError as exc:
            raise LinkLost(f"no answer to {op!r} within {timeout_s:.0f} s") from exc
        finally:
            self._waiting.pop(number, None)

    def close(self) -> None:
        """Hangs up, which ends the front end if it still runs."""
        self._reading.cancel()
        if self._writer is None:
            self._line.close()
        else:
            self._writer.close()

    async def _read(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._line)
        try:
            while line := await reader.readline():
                message = json.loads(line)
                waiting = self._waiting.get(message["id"])
                if waiting is not None and not waiting.done():
                    waiting.set_result(message)
        except ConnectionError:
            pass  # said by the end of this task
        finally:
            for each in self._waiting.values():
                if not each.done():
                    each.set_exception(LinkLost("it has ended"))
                    each.exception()  # whoever waits sees it; nobody has to
            self._writer.close()


def end_with(line: socket.socket, hello: Hello) -> Callable[[], None]:
    """Ends this process and the core once the replica is gone; returns at once.

    What it returns does so at once, for whoever else sees the end of the line: the event loop may
    see it first, and a process that then ends as usual takes the waiting thread with it.
    """
    core = os.pidfd_open(hello.core_pid)
    hung_up = select.poll()
    # Nothing but the end of the line is reported. The descriptor is the thread's own: the event
    # loop sees the end too and closes its own, whose number may then name another connection.
    hung_up.register(os.dup(line.fileno()), 0)

    def now() -> None:
        end(core, hello.metrics_dir)

    def wait() -> None:
        hung_up.poll()
        now()

    threading.Thread(target=wait, name="outlives-nobody", daemon=True).start()
    return now


def end(core: int, metrics_dir: str) -> None:
    """What a front end does when its replica was killed: leaves nothing behind."""
    with contextlib.suppress(ProcessLookupError):  # another front end was quicker
        signal.pidfd_send_signal(core, signal.SIGKILL)
    shutil.rmtree(metrics_dir, ignore_errors=True)
    os._exit(1)


def when_ended(pid: int, call: Callable[[], None]) -> int:
    """Calls back on the running loop once a process ends; the descriptor returned is the watch."""
    fd = os.pidfd_open(pid)
    loop = asyncio.get_running_loop()

    def ended() -> None:
        loop.remove_reader(fd)
        call()

    loop.add_reader(fd, ended)
    return fd
