"""What Envoy is started with: admin interface, one listener, and the files to watch.

The one idea: everything that changes while traffic flows (clusters, endpoints, routes) lies in
watched files and is built in serving.edge.resources; everything here is fixed until Envoy starts
again.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.edge import config

_TYPE = "type.googleapis.com/envoy."
_HTTP = f"{_TYPE}extensions.filters.http."

LATENCY_BUCKETS_MS = (
    *(1.0, 2.0, 5.0, 10.0, 20.0, 35.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0),
    *(650.0, 800.0, 1_000.0, 1_500.0, 2_000.0, 3_000.0, 5_000.0, 10_000.0, 30_000.0, 60_000.0),
)
"""Upper bounds of the latency histogram; dense around the usual objectives of 50 ms to 1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class XdsPaths:
    """Where Envoy finds what changes. Each kind has its own directory, because Envoy reads a file
    again whenever any file is renamed in its directory."""

    root: Path

    @property
    def clusters(self) -> Path:
        """The list of clusters (CDS)."""
        return self.root / "clusters" / "cds.json"

    @property
    def routes(self) -> Path:
        """The routes (RDS)."""
        return self.root / "routes" / "rds.json"

    @property
    def endpoints(self) -> Path:
        """The directory with one file of endpoints (EDS) per cluster."""
        return self.root / "endpoints"


def bootstrap(settings: config.EdgeSettings, paths: XdsPaths, edge_id: str) -> dict[str, Any]:
    """What Envoy is started with: admin, one listener, and the files to watch."""
    return {
        "node": {"id": edge_id, "cluster": "liftlock-edge"},
        "admin": {"address": _address("127.0.0.1", settings.admin_port)},
        "dynamic_resources": {"cds_config": watched(paths.clusters)},
        "static_resources": {"listeners": [_listener(settings, paths)]},
        "stats_flush_interval": "1s",
        "stats_config": {"histogram_bucket_settings": [_buckets()]},
        "overload_manager": {
            "resource_monitors": [
                {
                    "name": "envoy.resource_monitors.global_downstream_max_connections",
                    "typed_config": {
                        "@type": f"{_TYPE}extensions.resource_monitors"
                        ".downstream_connections.v3.DownstreamConnectionsConfig",
                        "max_active_downstream_connections": settings.max_connections,
                    },
                }
            ]
        },
    }


def watched(path: Path) -> dict[str, Any]:
    """A configuration source: a file, read again when something is renamed into its directory."""
    return {
        "resource_api_version": "V3",
        "path_config_source": {
            "path": str(path),
            "watched_directory": {"path": str(path.parent)},
        },
    }


def seconds(value_s: float) -> str:
    """A duration as Envoy's JSON has it."""
    return f"{value_s:.3f}s"


def _address(host: str, port: int) -> dict[str, Any]:
    return {"socket_address": {"address": host, "port_value": port}}


def _buckets() -> dict[str, Any]:
    return {"match": {"suffix": "upstream_rq_time"}, "buckets": list(LATENCY_BUCKETS_MS)}


def _listener(settings: config.EdgeSettings, paths: XdsPaths) -> dict[str, Any]:
    manager = {
        "name": "envoy.filters.network.http_connection_manager",
        "typed_config": _connection_manager(settings, paths),
    }
    return {
        "name": "edge",
        "address": _address(settings.listen_host, settings.port),
        "per_connection_buffer_limit_bytes": max(settings.max_body_bytes, 64 * 1024),
        "filter_chains": [{"filters": [manager]}],
    }


def _connection_manager(settings: config.EdgeSettings, paths: XdsPaths) -> dict[str, Any]:
    return {
        "@type": f"{_TYPE}extensions.filters.network.http_connection_manager"
        ".v3.HttpConnectionManager",
        "stat_prefix": "edge",
        "rds": {"route_config_name": "edge", "config_source": watched(paths.routes)},
        "use_remote_address": True,
        "server_header_transformation": "PASS_THROUGH",
        "preserve_external_request_id": True,
        "always_set_request_id_in_response": True,
        "normalize_path": True,
        "merge_slashes": True,
        "request_headers_timeout": seconds(settings.headers_s),
        "request_timeout": seconds(settings.body_s),
        "stream_idle_timeout": seconds(settings.request_s),
        "max_request_headers_kb": settings.max_headers_kib,
        "common_http_protocol_options": {"idle_timeout": seconds(settings.idle_s)},
        "local_reply_config": _own_errors(),
        "access_log": [_access_log(paths.root.parent)] if settings.access_log else [],
        "http_filters": _filters(settings),
    }


def _filters(settings: config.EdgeSettings) -> list[dict[str, Any]]:
    buffer = {
        "@type": f"{_HTTP}buffer.v3.Buffer",
        "max_request_bytes": settings.max_body_bytes,
    }
    router = {"@type": f"{_HTTP}router.v3.Router", "suppress_envoy_headers": True}
    return [
        {"name": "envoy.filters.http.buffer", "typed_config": buffer},
        {"name": "envoy.filters.http.router", "typed_config": router},
    ]


def _own_errors() -> dict[str, Any]:
    """Errors the edge makes itself look like the replicas': one JSON shape for the caller."""
    body = {
        "error": {
            "message": "%LOCAL_REPLY_BODY%",
            "type": "edge_error",
            "code": "%RESPONSE_CODE_DETAILS%",
            "param": None,
        }
    }
    return {
        "mappers": [
            {"filter": _status_is("EQ", 503), "headers_to_add": [_retry_after()], **_json(body)},
            {"filter": _status_is("GE", 400), **_json(body)},
        ]
    }


def _json(body: dict[str, Any]) -> dict[str, Any]:
    return {"body_format_override": {"json_format": body, "content_type": "application/json"}}


def _status_is(op: str, status: int) -> dict[str, Any]:
    value = {"default_value": status, "runtime_key": f"edge.status_{op.lower()}_{status}"}
    return {"status_code_filter": {"comparison": {"op": op, "value": value}}}


def _retry_after() -> dict[str, Any]:
    return {
        "header": {"key": "retry-after", "value": "1"},
        "append_action": "OVERWRITE_IF_EXISTS_OR_ADD",
    }


def _access_log(directory: Path) -> dict[str, Any]:
    line = {
        "time": "%START_TIME%",
        "method": "%REQ(:METHOD)%",
        "path": "%REQ(:PATH)%",
        "status": "%RESPONSE_CODE%",
        "flags": "%RESPONSE_FLAGS%",
        "cluster": "%UPSTREAM_CLUSTER%",
        "replica": "%UPSTREAM_HOST%",
        "duration_ms": "%DURATION%",
        "request_id": "%REQ(X-REQUEST-ID)%",
    }
    return {
        "name": "envoy.access_loggers.file",
        "typed_config": {
            "@type": f"{_TYPE}extensions.access_loggers.file.v3.FileAccessLog",
            "path": str(directory / "access.log"),
            "log_format": {"json_format": line},
        },
    }
