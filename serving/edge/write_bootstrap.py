"""`python -m serving.edge.write_bootstrap`: what an Envoy of a fleet is started with, as JSON.

For an Envoy that something else runs (a container, systemd) and that a discovery service tells
what to do.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from serving import errors
from serving.edge import bootstrap, config, keyring, settings_file


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
    options.add_argument("--access-log", type=Path, help="folder for access.log; none without it")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Print it; 0, or 1 with the reason on standard error."""
    given = parser().parse_args(argv)
    try:
        plain = settings_file.load(given.config)
        settings = dataclasses.replace(
            plain,
            listen_host=given.listen_host,
            port=given.port,
            admin_port=given.admin_port,
            access_log=0.0 if given.access_log is None else plain.access_log or 1.0,
        )
        node = bootstrap.Node(
            edge_id=given.edge_id,
            discovery=given.discovery,
            url=given.url,
            directory=given.access_log or Path(),
            zone=given.zone,
        )
        public_set = keyring.Keyring(settings.keys, None).public_set()
        content = bootstrap.bootstrap(settings, node, public_set=public_set)
    except (ValueError, errors.ServingError) as exc:
        print(f"bootstrap: {exc}", file=sys.stderr)
        return 1
    print(json.dumps(content, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
