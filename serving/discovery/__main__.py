"""`python -m serving.discovery`: tell a fleet of edges what to do, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from serving import program
from serving.discovery import choose, feed
from serving.discovery.service import Discovery
from serving.edge import keyring, resources, settings_file


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m serving.discovery", description=__doc__)
    choose.add_options(options)
    options.add_argument(
        "--config", type=Path, help="the edges' settings, as they are started with"
    )
    options.add_argument(
        "--traffic", type=Path, required=True, help="traffic plan; looked at 20 times a second"
    )
    options.add_argument(
        "--listen", default="127.0.0.1:18000", help="HOST:PORT or unix:PATH for edges (gRPC)"
    )
    options.add_argument("--feed", default="127.0.0.1:18001", help="HOST:PORT for JSON and metrics")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run discovery; 0 after a clean stop, 1 with the reason on standard error."""
    return program.run("discovery", _run(parser().parse_args(argv)))


async def _run(given: argparse.Namespace) -> None:
    settings = settings_file.load(given.config)
    keys = keyring.Keyring(settings.keys, None)
    keys.refresh()
    discovery = Discovery(
        choose.source(given),
        given.traffic,
        lambda snapshot: resources.documents(snapshot, settings),
        needs_plan=True,
        keys=keys.now,
    )
    host, port = _address(given.feed)
    with feed.bound(host, port) as sock:
        try:
            await discovery.listen(given.listen)
            await _until_signal(discovery, sock)
        finally:
            await discovery.close()


async def _until_signal(discovery: Discovery, sock: socket.socket) -> None:
    stop = asyncio.Event()
    program.on_signal(stop.set)
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(discovery.run(), name="discovery"),
            group.create_task(feed.serve(discovery, sock), name="discovery-feed"),
        ]
        await stop.wait()
        for task in tasks:
            task.cancel()


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal():
        raise ValueError(f"--feed must be HOST:PORT, found {text!r}")
    return host.strip("[]"), int(port)


if __name__ == "__main__":
    sys.exit(main())
