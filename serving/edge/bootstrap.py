"""What Envoy is started with: admin interface, one listener, and whom to ask for the rest.

The one idea: everything that changes while traffic flows (clusters, endpoints, routes) comes by one
stream from discovery and is built in serving.edge.resources; everything here is fixed until Envoy
starts again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.edge import config, filters, replies, tls

_TYPE = "type.googleapis.com/envoy."
_HTTP = f"{_TYPE}extensions.filters.http."

LATENCY_BUCKETS_MS = (
    *(1.0, 2.0, 5.0, 10.0, 20.0, 35.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0),
    *(650.0, 800.0, 1_000.0, 1_500.0, 2_000.0, 3_000.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0),
)
"""Upper bounds of the latency histogram; dense around the usual objectives of 50 ms to 1 s."""


ROUTE_TABLE = "edge"
"""The name of the one route table."""
_DISCOVERY = "discovery"
_RECONNECT_S = (0.1, 1.0)
"""First and longest pause before Envoy calls discovery again; its own default is up to 30 s."""
_ALIVE_S = 5.0
"""Between two questions whether discovery's machine is still there; half of it for the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Who an edge is and whom it asks."""

    edge_id: str
    """Unlike every other edge's."""
    discovery: str
    """Where discovery listens: HOST:PORT (a name is looked up again and again) or unix:PATH."""
    url: str
    """Where callers reach this edge; discovery passes it on to the SDK."""
    directory: Path
    """Where the access log is written."""
    secret: Path | None = None
    """What `tls.write_secret` writes; None is its place in `directory`."""
    zone: str = ""
    """Where it runs; empty when unknown."""


def bootstrap(
    settings: config.EdgeSettings, node: Node, *, public_set: str | None = None
) -> dict[str, Any]:
    """What Envoy is started with: admin, one listener, and the way to discovery.

    `public_set` is what API keys are verified with, where they are required.
    """
    return {
        "node": {
            "id": node.edge_id,
            "cluster": "liftlock-edge",
            "metadata": {"liftlock.url": node.url},
            "locality": {"zone": node.zone},
        },
        "admin": {"address": _address("127.0.0.1", settings.admin_port)},
        "dynamic_resources": {"ads_config": _stream(), "cds_config": by_stream()},
        "static_resources": {
            "listeners": [_listener(settings, node, public_set)],
            "clusters": [_discovery(node.discovery)],
        },
        "stats_flush_interval": "1s",
        "stats_config": {"histogram_bucket_settings": [_buckets()]},
        "overload_manager": _overload(settings),
    }


def _overload(settings: config.EdgeSettings) -> dict[str, Any]:
    """What is given up before the machine is: first memory that is only kept, then new requests."""
    monitors = f"{_TYPE}extensions.resource_monitors."
    heap = "envoy.resource_monitors.fixed_heap"
    connections = {
        "@type": f"{monitors}downstream_connections.v3.DownstreamConnectionsConfig",
        "max_active_downstream_connections": settings.max_connections,
    }
    memory = {
        "@type": f"{monitors}fixed_heap.v3.FixedHeapConfig",
        "max_heap_size_bytes": settings.max_heap_mib * 2**20,
    }
    return {
        "refresh_interval": "0.25s",
        "resource_monitors": [
            {
                "name": "envoy.resource_monitors.global_downstream_max_connections",
                "typed_config": connections,
            },
            {"name": heap, "typed_config": memory},
        ],
        "actions": [
            {
                "name": f"envoy.overload_actions.{action}",
                "triggers": [{"name": heap, "threshold": {"value": share}}],
            }
            for action, share in (("shrink_heap", 0.9), ("stop_accepting_requests", 0.95))
        ],
    }


def by_stream() -> dict[str, Any]:
    """A configuration source: the one stream. Envoy waits for the first answer however long it
    takes, since starting with nothing would answer every request with an error."""
    return {"resource_api_version": "V3", "ads": {}, "initial_fetch_timeout": "0s"}


def _stream() -> dict[str, Any]:
    first_s, longest_s = _RECONNECT_S
    pauses = {"base_interval": seconds(first_s), "max_interval": seconds(longest_s)}
    service = {"cluster_name": _DISCOVERY, "retry_policy": {"retry_back_off": pauses}}
    return {
        "api_type": "DELTA_GRPC",
        "transport_api_version": "V3",
        "set_node_on_first_message_only": True,
        "grpc_services": [{"envoy_grpc": service}],
    }


def _discovery(where: str) -> dict[str, Any]:
    path = where.removeprefix("unix:")
    if path != where:
        kind, address = "STATIC", {"pipe": {"path": path}}
    else:
        host, _, port = where.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f"discovery must be HOST:PORT or unix:PATH, found {where!r}")
        kind, address = "STRICT_DNS", _address(host.strip("[]"), int(port))
    alive = {"interval": seconds(_ALIVE_S), "timeout": seconds(_ALIVE_S / 2)}
    protocol = {
        "@type": f"{_TYPE}extensions.upstreams.http.v3.HttpProtocolOptions",
        "explicit_http_config": {"http2_protocol_options": {"connection_keepalive": alive}},
    }
    return {
        "name": _DISCOVERY,
        "type": kind,
        "connect_timeout": seconds(1.0),
        "load_assignment": {
            "cluster_name": _DISCOVERY,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address}}]}],
        },
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": protocol
        },
    }


def seconds(value_s: float) -> str:
    """A duration as Envoy's JSON has it."""
    return f"{value_s:.3f}s"


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def _buckets() -> dict[str, Any]:
    return {"match": {"suffix": "upstream_rq_time"}, "buckets": list(LATENCY_BUCKETS_MS)}


def _listener(settings: config.EdgeSettings, node: Node, public_set: str | None) -> dict[str, Any]:
    manager = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": _connection_manager(settings, node.directory, public_set),
    }
    chain = {
        "filters": [manager],
        "transport_socket_connect_timeout": seconds(settings.headers_s),
        **tls.socket(settings.tls, node.secret or tls.secret_file(node.directory)),
    }
    return {
        "name": "edge",
        "address": _address(settings.listen_host, settings.port),
        "per_connection_buffer_limit_bytes": max(settings.max_body_bytes, 64 * 1024),
        "filter_chains": [chain],
    }


def _connection_manager(
    settings: config.EdgeSettings, directory: Path, public_set: str | None
) -> dict[str, Any]:
    return {
        "@type": f"{_TYPE}extensions.filters.network.http_connection_manager"
        ".v3.HttpConnectionManager",
        "stat_prefix": "edge",
        "rds": {"route_config_name": ROUTE_TABLE, "config_source": by_stream()},
        "use_remote_address": True,
        "server_header_transformation": "PASS_THROUGH",
        "preserve_external_request_id": True,
        "always_set_request_id_in_response": True,
        "normalize_path": True,
        "merge_slashes": True,
        # Replicas take an encoded slash for one, so scopes are judged by it too.
        "path_with_escaped_slashes_action": "UNESCAPE_AND_FORWARD",
        "early_header_mutation_extensions": filters.early_mutations(settings),
        "http2_protocol_options": _HTTP2,
        "request_headers_timeout": seconds(settings.headers_s),
        "request_timeout": seconds(settings.body_s),
        # Every exchange has a longest time (`filters.longest`), and so has its body: a timer that
        # is set again at each of its events would be one of Envoy's larger costs for a request.
        "stream_idle_timeout": "0s",
        "stream_flush_timeout": seconds(settings.request_s),
        "max_request_headers_kb": settings.max_headers_kib,
        "common_http_protocol_options": {"idle_timeout": seconds(settings.idle_s)},
        "local_reply_config": replies.own_errors(),
        "access_log": _access_log(directory, settings.access_log),
        "http_filters": _filters(settings, public_set),
    }


_HTTP2 = {
    "max_concurrent_streams": 100,
    "initial_stream_window_size": 64 * 1024,
    "initial_connection_window_size": 1024 * 1024,
}
"""Bounds on what one connection may hold, as Envoy's guide for edges has them."""


def _filters(settings: config.EdgeSettings, public_set: str | None) -> list[dict[str, Any]]:
    buffer = {
        "@type": f"{_HTTP}buffer.v3.Buffer",
        "max_request_bytes": settings.max_body_bytes,
    }
    router = {"@type": f"{_HTTP}router.v3.Router", "suppress_envoy_headers": True}
    return [
        *filters.before_replicas(settings, public_set),
        {"name": "envoy.filters.http.buffer", "typed_config": buffer},
        {"name": "envoy.filters.http.router", "typed_config": router},
    ]


def _access_log(directory: Path, share: float) -> list[dict[str, Any]]:
    """A line for a share of the requests; Envoy writes them in a thread of their own.

    Of what a caller may write anything in, only the beginning; and no query, where a key or a text
    may have been put.
    """
    if not share:
        return []
    line = {
        "time": "%START_TIME%",
        "method": "%REQ(:METHOD)%",
        "path": "%PATH(NQ):256%",
        "status": "%RESPONSE_CODE%",
        "details": "%RESPONSE_CODE_DETAILS%",
        "flags": "%RESPONSE_FLAGS%",
        "key": f"%REQ({filters.KEY_HEADER})%",
        "cluster": "%UPSTREAM_CLUSTER%",
        "replica": "%UPSTREAM_HOST%",
        "duration_ms": "%DURATION%",
        "request_id": "%REQ(X-REQUEST-ID):128%",
    }
    sampled = {
        "runtime_key": "edge.access_log",
        "percent_sampled": {"numerator": round(share * 1_000_000), "denominator": "MILLION"},
        "use_independent_randomness": True,  # else by the request id, which callers choose
    }
    typed = {
        "@type": f"{_TYPE}extensions.access_loggers.file.v3.FileAccessLog",
        "path": str(directory / "access.log"),
        "log_format": {"json_format": line},
    }
    return [
        {
            "name": "envoy.access_loggers.file",
            "filter": {"runtime_filter": sampled},
            "typed_config": typed,
        }
    ]
