"""The process of one front end: attaches to the engine, answers HTTP, does what the replica says.

    python -m serving.engine.front_process <fd of the control line> <name for process lists>

Started by `serving.engine.fronts` and by nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

import uvicorn

from serving.engine import link, protocol
from serving.engine.core import Attach, imported
from serving.engine.counts import Counts
from serving.engine.front import FrontEnd
from serving.engine.state import Phase
from serving.errors import DeploymentFailed

_log = logging.getLogger(__name__)

_GC_THRESHOLDS = (20_000, 20, 50)
"""Python's own are 700, 10, 10: with some hundred requests in flight a look every few of them."""


def main(control_fd: int, name: str) -> None:
    """Runs until told to close, or until the replica is gone."""
    logging.basicConfig(level=logging.INFO, format=f"%(levelname)s {name}: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each request
    with contextlib.suppress(ImportError):  # comes with vLLM; only for people who read `ps`
        from setproctitle import setproctitle

        setproctitle(f"liftlock {name}")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the replica decides when to end
    line = socket.socket(fileno=control_fd)
    hello = link.hear_hello(line)
    end = link.end_with(line, hello)
    loop_factory = uvicorn.Config(_no_app).get_loop_factory()  # uvloop where it is installed
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_run(line, hello, end))


async def _no_app(*_: object) -> None:
    raise AssertionError("never called")


async def _run(line: socket.socket, hello: link.Hello, end: Callable[[], None]) -> None:
    reader, writer = await asyncio.open_connection(sock=line)

    def say(number: int, **values: Any) -> None:
        writer.write(json.dumps({"id": number, **values}).encode() + b"\n")

    try:
        front = await _opened(hello)
    except DeploymentFailed as exc:
        say(0, error=str(exc))
        await writer.drain()
        return
    link.when_ended(hello.core_pid, lambda: front.engine.died("the engine process ended"))
    say(0)
    while message := await reader.readline():
        asked = json.loads(message)
        say(asked["id"], **await _answer(front, asked))
        await writer.drain()
        if asked["op"] == "close":
            front.engine.shutdown()
            return
    end()


async def _opened(hello: link.Hello) -> FrontEnd:
    attach: Attach = imported(hello.seat.attach, "seat")
    engine = attach(hello.seat.arguments, hello.seat.fds)
    front = FrontEnd(
        hello.spec,
        engine,
        socket.socket(fileno=hello.listener_fd),
        warmup_token=hello.warmup_token,
        counts=Counts.shared(hello.counts_fd, hello.index),
    )
    await front.warm_up(1)
    _settle()
    front.state.phase = hello.phase
    front.open()
    return front


def _settle() -> None:
    """Takes what is loaded by now out of the garbage collector's sight, and has it look less often.

    It stays for good, and walking it again and again is a tenth of a front end's CPU. What a
    request leaves behind is freed by its reference counts; cycles are rare and can wait.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


async def _answer(front: FrontEnd, asked: dict[str, Any]) -> dict[str, Any]:
    if asked["op"] == "phase":
        front.state.phase = Phase(asked["phase"])
    elif asked["op"] == "close":
        await front.close()
    elif asked["op"] == "check":
        try:
            await front.check()
        except (protocol.EngineFailed, DeploymentFailed) as exc:
            return {"error": str(exc), "dead": isinstance(exc, protocol.EngineDead)}
    return {}


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
