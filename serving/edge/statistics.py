"""A port that shows an Envoy's statistics, and nothing else that its admin interface knows.

For an Envoy that others scrape: its admin interface can end it, and stays on loopback.
"""

from __future__ import annotations

from typing import Any

from serving.edge import bootstrap

_TYPE = "type.googleapis.com/envoy."
_PATH = "/stats/prometheus"


def show(found: dict[str, Any], metrics_port: int, admin_port: int) -> None:
    """Add to a bootstrap a port that shows `/stats/prometheus`; raises ValueError."""
    if admin_port == 0:
        raise ValueError("a port for statistics needs a fixed admin_port, found 0")
    found["static_resources"]["listeners"].append(_listener(metrics_port))
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


def _listener(port: int) -> dict[str, Any]:
    """A listener that passes one path on to the admin interface, and only to read it."""
    read = {"name": ":method", "string_match": {"exact": "GET"}}
    route = {
        "match": {"path": _PATH, "headers": [read]},
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
    return {
        "name": "metrics",
        "address": address,
        "filter_chains": [{"filters": filters}],
        # When callers have taken all connections there is most to see.
        "ignore_global_conn_limit": True,
    }
