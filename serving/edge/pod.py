"""`python -m serving.edge.pod`: prints what Envoy is started with where it has a pod to itself.

The one idea: nothing of ours runs beside it. Clusters, endpoints and routes come from discovery by
one stream; who the edge is comes from Envoy's own options (--service-node, --service-zone), so one
file serves all pods. The admin interface stays on the pod's loopback, where the preStop hook uses
it; of what it knows, one more port shows the statistics and nothing else.
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
from serving.edge import bootstrap, config, keyring, settings_file

_TYPE = "type.googleapis.com/envoy."
_STATISTICS = "/stats/prometheus"
_TEMPORARY = Path("/tmp")
"""The one folder of the pod that can be written to."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m serving.edge.pod", description=__doc__)
    options.add_argument("--discovery", required=True, help="HOST:PORT where discovery listens")
    options.add_argument("--url", required=True, help="where callers reach the edges, for the feed")
    options.add_argument("--port", type=int, default=8000, help="for callers")
    options.add_argument("--metrics-port", type=int, default=9902, help="for Prometheus")
    options.add_argument("--admin-port", type=int, default=9901, help="on the pod's loopback")
    options.add_argument("--config", type=Path, help="YAML file of settings, discovery's too")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the bootstrap; 2 with the reason where an option cannot be accepted."""
    given = parser().parse_args(argv)
    try:
        plain = settings_file.load(given.config)
        settings = dataclasses.replace(
            plain, listen_host="0.0.0.0", port=given.port, admin_port=given.admin_port
        )
        found = for_pod(
            settings,
            discovery=given.discovery,
            url=given.url,
            metrics_port=given.metrics_port,
        )
    except (ValueError, errors.ServingError) as exc:
        print(f"edge: {exc}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=1))
    return 0


def for_pod(
    settings: config.EdgeSettings, *, discovery: str, url: str, metrics_port: int
) -> dict[str, Any]:
    """Envoy's bootstrap.

    Args:
        discovery: HOST:PORT; the name is looked up again and again.
        url: where callers reach the edges.
        metrics_port: where `/stats/prometheus` is answered.

    Raises:
        ValueError: the admin port is not fixed, or `discovery` has no port.
        KeysUnusable: keys are required and what verifies them cannot be read.
    """
    if settings.admin_port == 0:
        raise ValueError("admin_port must be fixed in a pod, found 0")
    host, _, port = discovery.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError(f"discovery must be HOST:PORT, found {discovery!r}")
    node = bootstrap.Node(edge_id="edge", discovery=discovery, url=url, directory=_TEMPORARY)
    public_set = keyring.Keyring(settings.keys, None).public_set()
    found = bootstrap.bootstrap(settings, node, public_set=public_set)
    show_statistics(found, metrics_port, settings.admin_port)
    return found


def show_statistics(found: dict[str, Any], metrics_port: int, admin_port: int) -> None:
    """Add to a bootstrap a port that shows `/stats/prometheus`; raises ValueError."""
    if admin_port == 0:
        raise ValueError("a port for statistics needs a fixed admin_port, found 0")
    found["static_resources"]["listeners"].append(_statistics(metrics_port))
    found["static_resources"]["clusters"].append(_admin(admin_port))


def _admin(port: int) -> dict[str, Any]:
    address = {"socket_address": {"address": "127.0.0.1", "port_value": port}}
    endpoints = [{"lb_endpoints": [{"endpoint": {"address": address}}]}]
    return {
        "name": "admin",
        "type": "STATIC",
        "connect_timeout": bootstrap.seconds(1.0),
        "load_assignment": {"cluster_name": "admin", "endpoints": endpoints},
    }


def _statistics(port: int) -> dict[str, Any]:
    """A listener that passes one path on to the admin interface, and only to read it."""
    read = {"name": ":method", "string_match": {"exact": "GET"}}
    route = {
        "match": {"path": _STATISTICS, "headers": [read]},
        "route": {"cluster": "admin", "timeout": "10s"},
    }
    manager = {
        "@type": f"{_TYPE}extensions.filters.network.http_connection_manager"
        ".v3.HttpConnectionManager",
        "stat_prefix": "metrics",
        "normalize_path": True,
        "route_config": {
            "name": "metrics",
            "virtual_hosts": [{"name": "metrics", "domains": ["*"], "routes": [route]}],
        },
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_TYPE}extensions.filters.http.router.v3.Router"},
            }
        ],
    }
    name = "envoy.filters.network.http_connection_manager"
    filters = [{"name": name, "typed_config": manager}]
    address = {"socket_address": {"address": "0.0.0.0", "port_value": port}}
    return {"name": "metrics", "address": address, "filter_chains": [{"filters": filters}]}


if __name__ == "__main__":
    sys.exit(main())
