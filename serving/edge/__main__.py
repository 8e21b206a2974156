"""`python -m serving.edge`: run one local edge until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from serving import errors
from serving.discovery import ray_source, sources
from serving.edge import config, home, service


def parser() -> argparse.ArgumentParser:
    """The options; each stands for a field of EdgeSettings where the names agree."""
    defaults = config.EdgeSettings()
    options = argparse.ArgumentParser(prog="python -m serving.edge", description=__doc__)
    options.add_argument("--home", type=Path, required=True, help="liftlock's home directory")
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("--ray-address", help="Ray cluster whose directory lists the replicas")
    source.add_argument("--endpoints", type=Path, help="JSON or YAML file that lists them instead")
    options.add_argument("--listen-host", default=defaults.listen_host, help="IP address")
    options.add_argument("--port", type=int, default=defaults.port)
    options.add_argument("--admin-port", type=int, default=defaults.admin_port, help="0: any free")
    options.add_argument("--workers", type=int, default=defaults.workers, help="Envoy threads")
    options.add_argument("--access-log", action="store_true", help="one JSON line per request")
    options.add_argument("--edge-id", help="name towards the directory (host and port if absent)")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the edge; 0 after a clean stop, 1 with the reason on standard error."""
    given = parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each look at the admin port
    try:
        asyncio.run(_run(given))
    except (errors.ServingError, ValueError, OSError) as exc:
        print(f"edge: {exc}", file=sys.stderr)
        return 1
    return 0


async def _run(given: argparse.Namespace) -> None:
    settings = config.EdgeSettings(
        listen_host=given.listen_host,
        port=given.port,
        admin_port=given.admin_port,
        workers=given.workers,
        access_log=given.access_log,
    )
    edge = service.EdgeService(
        settings,
        home.EdgeHome.of(given.home),
        _source(given),
        edge_id=given.edge_id or f"{socket.gethostname()}-{given.port}",
    )
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, edge.stop)
    await edge.run()


def _source(given: argparse.Namespace) -> sources.Source:
    if given.endpoints is not None:
        return sources.StaticFileSource(given.endpoints)
    return ray_source.ray_directory(given.ray_address)


if __name__ == "__main__":
    sys.exit(main())
