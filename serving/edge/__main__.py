"""`python -m serving.edge`: run one local edge until SIGTERM or Ctrl-C."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from serving import program
from serving.discovery import choose
from serving.edge import config, home, service, settings_file

_log = logging.getLogger(__name__)


def parser() -> argparse.ArgumentParser:
    """The options; each stands for a field of EdgeSettings where the names agree."""
    options = argparse.ArgumentParser(prog="python -m serving.edge", description=__doc__)
    options.add_argument("--home", type=Path, required=True, help="liftlock's home directory")
    choose.add_options(options)
    options.add_argument(
        "--config",
        type=Path,
        help="settings in YAML, not the home's edge.yaml; options win over it",
    )
    options.add_argument("--listen-host", help="IP address")
    options.add_argument("--port", type=int)
    options.add_argument("--admin-port", type=int, help="0: any free")
    options.add_argument("--workers", type=int, help="Envoy threads")
    options.add_argument("--access-log", type=float, help="share of requests with a line, 0 to 1")
    options.add_argument("--edge-id", help="name towards the directory (host and port if absent)")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the edge; 0 after a clean stop, 1 with the reason on standard error."""
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it logs each look at the admin port
    return program.run("edge", _run(parser().parse_args(argv)))


async def _run(given: argparse.Namespace) -> None:
    settings = _settings(given)
    edge = service.EdgeService(
        settings,
        home.EdgeHome.of(given.home),
        choose.source(given),
        edge_id=given.edge_id or f"{socket.gethostname()}-{settings.port}",
    )
    program.on_signal(edge.stop)
    await edge.run()


def _settings(given: argparse.Namespace) -> config.EdgeSettings:
    file = given.config or home.usual_settings(given.home)
    from_file = settings_file.load(file)
    _log.info("settings: %s", file or f"the defaults, as {given.home} has no edge.yaml")
    names = ("listen_host", "port", "admin_port", "workers", "access_log")
    named = {n: getattr(given, n) for n in names if getattr(given, n) is not None}
    return dataclasses.replace(from_file, **named)


if __name__ == "__main__":
    sys.exit(main())
