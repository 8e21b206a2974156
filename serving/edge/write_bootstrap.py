"""`python -m serving.edge.write_bootstrap`: what an Envoy of a fleet is started with, as JSON.

For an Envoy that something else runs (a container, systemd) and that a discovery service tells
what to do. It is made from the settings that discovery has too and from what verifies keys, where
and when the Envoy starts, so that no copy of either grows old.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from serving import errors
from serving.discovery import files
from serving.edge import bootstrap, config, keyring, settings_file, statistics, tls


def parser() -> argparse.ArgumentParser:
    """The options; each stands for a field of EdgeSettings or Node."""
    defaults = config.EdgeSettings()
    options = argparse.ArgumentParser(prog="python -m serving.edge.write_bootstrap")
    options.add_argument("--discovery", required=True, help="HOST:PORT of the discovery service")
    options.add_argument("--edge-id", required=True, help="unlike every other edge's")
    options.add_argument("--url", required=True, help="where callers reach this edge")
    options.add_argument("--zone", default="", help="where it runs")
    options.add_argument("--listen-host", default="0.0.0.0", help="IP address")
    options.add_argument("--port", type=int, default=defaults.port)
    options.add_argument("--admin-port", type=int, default=9901, help="on loopback; 0: any free")
    options.add_argument("--config", type=Path, help="YAML file of settings, discovery's too")
    options.add_argument("--metrics-port", type=int, help="for Prometheus: statistics, no more")
    options.add_argument("--access-log", type=Path, help="folder for access.log; none without it")
    options.add_argument(
        "--into", type=Path, help="write bootstrap.json and what it names there; TLS needs it"
    )
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Print or write it; 0, or 1 with the reason on standard error."""
    given = parser().parse_args(argv)
    try:
        settings = _settings(given)
        if settings.tls is not None and given.into is None:
            raise ValueError("the settings have tls: give --into, the folder that Envoy reads")
        text = json.dumps(_content(given, settings), indent=1)
        if given.into is None:
            print(text)
        else:
            _write(given.into, text, settings.tls)
    except (ValueError, OSError, errors.ServingError) as exc:
        print(f"bootstrap: {exc}", file=sys.stderr)
        return 1
    return 0


def _settings(given: argparse.Namespace) -> config.EdgeSettings:
    plain = settings_file.load(given.config)
    return dataclasses.replace(
        plain,
        listen_host=given.listen_host,
        port=given.port,
        admin_port=given.admin_port,
        access_log=0.0 if given.access_log is None else plain.access_log or 1.0,
    )


def _content(given: argparse.Namespace, settings: config.EdgeSettings) -> dict[str, Any]:
    node = bootstrap.Node(
        edge_id=given.edge_id,
        discovery=given.discovery,
        url=given.url,
        directory=given.access_log or Path(),
        secret=tls.secret_file(given.into.absolute()) if given.into else None,
        zone=given.zone,
    )
    public_set = keyring.Keyring(settings.keys, None).public_set()
    content = bootstrap.bootstrap(settings, node, public_set=public_set)
    if given.metrics_port is not None:
        statistics.show(content, given.metrics_port, given.admin_port)
    return content


def _write(folder: Path, text: str, secure: config.TlsSettings | None) -> None:
    """The certificate's file first: an Envoy that finds the bootstrap finds both."""
    folder.mkdir(parents=True, exist_ok=True)
    if secure is not None:
        tls.write_secret(secure, tls.secret_file(folder))
    files.write_atomic(folder / "bootstrap.json", text.encode(), durable=False)


if __name__ == "__main__":
    sys.exit(main())
