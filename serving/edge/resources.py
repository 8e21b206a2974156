"""What Envoy reads while traffic flows: clusters, endpoints and routes, built from a snapshot.

Pure: a snapshot and settings in, JSON-ready dictionaries out; serving.discovery.catalog encodes
them.
"""

from __future__ import annotations

import dataclasses
import functools
import textwrap
from collections.abc import Sequence
from typing import Any

from serving.discovery import catalog
from serving.discovery import snapshot as discovery
from serving.discovery.shares import WHOLE_PERCENT
from serving.edge import bootstrap, config, filters, mirrors

_TYPE = "type.googleapis.com/envoy."
_HTTP_OPTIONS = f"{_TYPE}extensions.upstreams.http.v3.HttpProtocolOptions"
_NEAR_ENDLESS = 1_000_000
_MOST_CHARACTERS = 1_000
"""Characters of an answer of the edge's own."""
_OTHER_REPLICA_TRIES = 32
"""Picks made to find a replica not tried yet. The failed one looks idle, so of two replicas it
wins three picks in four; after this many the chance to be left with it is one in ten thousand."""

STATUS_PATH = "/edge/healthz"
"""Answered by Envoy itself: says that the edge is up, nothing about the replicas."""
MODEL_HEADER = "x-liftlock-model"
"""Chooses the model when several live behind one edge."""
VERSION_HEADER = "x-liftlock-version-pin"
"""Asks for one version while several share the traffic; one that has none is left to the replica,
which refuses it."""


def documents(snapshot: discovery.Snapshot, settings: config.EdgeSettings) -> catalog.Documents:
    """Everything an edge with these settings is told of a snapshot."""
    copied = [found for found in snapshot.clusters if found.key in snapshot.mirrored]
    return catalog.Documents(
        clusters=(
            *(cluster(found.key, settings) for found in snapshot.clusters),
            *(mirrors.cluster(c.key, cluster(c.key, settings), settings) for c in copied),
        ),
        assignments=(
            *map(endpoints, snapshot.clusters),
            *(mirrors.endpoints(found.key, endpoints(found)) for found in copied),
        ),
        routes=(routes(snapshot, settings),),
    )


def endpoints(found: discovery.Cluster) -> dict[str, Any]:
    """The endpoints of one cluster (EDS), all of equal weight, grouped by zone."""
    zones: dict[str, list[dict[str, Any]]] = {}
    for address in found.addresses:
        zones.setdefault(address.zone, []).append(_endpoint(address.host, address.port))
    return {
        "cluster_name": found.key.name,
        "endpoints": [
            {"locality": {"zone": zone}, "lb_endpoints": zones[zone]} for zone in sorted(zones)
        ],
    }


@functools.lru_cache(maxsize=65_536)
def _endpoint(host: str, port: int) -> dict[str, Any]:
    where = {"address": host, "port_value": port}
    return {"endpoint": {"address": {"socket_address": where}}}


def routes(snapshot: discovery.Snapshot, settings: config.EdgeSettings) -> dict[str, Any]:
    """The route table of a snapshot (RDS): by model header, else to the first model."""
    ordered = [_own_status(settings)]
    for route in snapshot.routes:
        named = _named(route, settings)
        ordered += [*_pinned(route, named, settings), *mirrors.copying(route, named), named]
    ordered += [_unknown_model([route.model for route in snapshot.routes]), _NO_TUNNEL]
    default = _default(snapshot, settings)
    if snapshot.routes:
        first = snapshot.routes[0]
        ordered += [*_pinned(first, default, settings), *mirrors.copying(first, default)]
    ordered.append(default)
    host = {
        "name": "edge",
        "domains": ["*"],
        "routes": ordered,
        **filters.for_all_routes(settings, snapshot.keys),
    }
    return {
        "name": bootstrap.ROUTE_TABLE,
        "virtual_hosts": [host],
        "request_headers_to_remove": [filters.TIMER_HEADER, mirrors.MIRROR_HEADER],
    }


def cluster(key: discovery.ClusterKey, settings: config.EdgeSettings) -> dict[str, Any]:
    """One version's cluster (CDS); its endpoints come by the same stream."""
    return {
        "name": key.name,
        "type": "EDS",
        "eds_cluster_config": {
            "service_name": key.name,
            "eds_config": bootstrap.by_stream(),
        },
        "connect_timeout": bootstrap.seconds(settings.connect_s),
        "lb_policy": "LEAST_REQUEST",
        # Drawn with replacement: of n replicas the busiest still gets 1/n^2 of the requests.
        "least_request_lb_config": {"choice_count": 2},
        "outlier_detection": _ejection(settings.ejection),
        "circuit_breakers": {"thresholds": [_limits(settings)]},
        "typed_extension_protocol_options": {
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": _replica_protocol(settings)
        },
    }


def _replica_protocol(settings: config.EdgeSettings) -> dict[str, Any]:
    return {
        "@type": _HTTP_OPTIONS,
        "common_http_protocol_options": {
            "idle_timeout": bootstrap.seconds(settings.replica_idle_s)
        },
        "explicit_http_config": {"http_protocol_options": {}},
    }


def _limits(settings: config.EdgeSettings) -> dict[str, Any]:
    return {
        "max_connections": _NEAR_ENDLESS,
        "max_pending_requests": settings.max_inflight,
        "max_requests": settings.max_inflight,
        "retry_budget": {
            "budget_percent": {"value": settings.retry.budget_percent},
            "min_retry_concurrency": settings.retry.budget_floor,
        },
    }


def _ejection(settings: config.EjectionSettings) -> dict[str, Any]:
    """Ejection by failures in a row only; statistics over the fleet need volume each may lack."""
    return {
        "consecutive_5xx": settings.failures,
        "enforcing_consecutive_5xx": 100,
        "split_external_local_origin_errors": True,
        "consecutive_local_origin_failure": settings.failures,
        "enforcing_consecutive_local_origin_failure": 100,
        "enforcing_consecutive_gateway_failure": 0,
        "enforcing_success_rate": 0,
        "enforcing_local_origin_success_rate": 0,
        "interval": "1s",
        "base_ejection_time": bootstrap.seconds(settings.base_s),
        "max_ejection_time": bootstrap.seconds(settings.max_s),
        "max_ejection_percent": settings.max_percent,
        "always_eject_one_host": True,
    }


def _named(route: discovery.ModelRoute, settings: config.EdgeSettings) -> dict[str, Any]:
    header = {"name": MODEL_HEADER, "string_match": {"exact": route.model}}
    return {
        "name": route.model,
        "match": {"prefix": "/", "headers": [header]},
        **_action(route, settings),
    }


def _pinned(
    route: discovery.ModelRoute, like: dict[str, Any], settings: config.EdgeSettings
) -> list[dict[str, Any]]:
    """One route per version that has traffic, for requests that ask for it."""
    found = []
    for share in route.shares:
        if not share.weight:
            continue
        pin = {"name": VERSION_HEADER, "string_match": {"exact": str(share.key.version)}}
        match = {**like["match"], "headers": [*like["match"].get("headers", []), pin]}
        name = f"{like['name']}-{share.key.version}"
        alone = discovery.Share(key=share.key, weight=WHOLE_PERCENT)
        only = dataclasses.replace(route, shares=(alone,))
        found.append({"name": name, "match": match, **_action(only, settings)})
    return found


def _default(snapshot: discovery.Snapshot, settings: config.EdgeSettings) -> dict[str, Any]:
    match = {"prefix": "/"}
    if not snapshot.routes:
        refusal = "no model is served here yet; publish a traffic plan (run a promotion)"
        return {"name": "default", "match": match, **_refuse(503, refusal)}
    return {"name": "default", "match": match, **_action(snapshot.routes[0], settings)}


def _unknown_model(known: list[str]) -> dict[str, Any]:
    names = ", ".join(known) or "none"
    header = {"name": MODEL_HEADER, "present_match": True}
    return {
        "name": "unknown-model",
        "match": {"prefix": "/", "headers": [header]},
        **_refuse(404, f"no such model behind this edge; {MODEL_HEADER} may name: {names}"),
    }


def _own_status(settings: config.EdgeSettings) -> dict[str, Any]:
    return {
        "name": "edge-status",
        "match": {"path": STATUS_PATH},
        "direct_response": {"status": 200, "body": {"inline_string": "ok\n"}},
        **filters.for_anybody(settings),
    }


def _refuse(status: int, message: str) -> dict[str, Any]:
    # Of more than 4 KiB, such as the names of many models, Envoy would refuse the whole table.
    body = textwrap.shorten(message, _MOST_CHARACTERS, placeholder=" ...")
    return {"direct_response": {"status": status, "body": {"inline_string": body}}}


_NO_TUNNEL = {
    "name": "connect",
    "match": {"connect_matcher": {}},
    **_refuse(403, "the edge opens no tunnels"),
}
"""Refused before keys are asked for. Without a route its body would be awaited first."""


def _action(route: discovery.ModelRoute, settings: config.EdgeSettings) -> dict[str, Any]:
    if not route.shares:
        return _refuse(503, f"no version of {route.model} has a ready replica; try again soon")
    return {
        **filters.names_model(route.model),
        "route": {
            **_where(route.shares),
            "timeout": bootstrap.seconds(settings.request_s),
            "max_stream_duration": filters.longest(settings),
            "retry_policy": _retries(settings.retry),
        },
    }


def _where(shares: Sequence[discovery.Share]) -> dict[str, Any]:
    """Where a route leads; not drawn by weight where there is nothing to draw."""
    if len(shares) == 1 and shares[0].weight == WHOLE_PERCENT:
        return {"cluster": shares[0].key.name}
    weighted = [{"name": share.key.name, "weight": share.weight} for share in shares]
    return {"weighted_clusters": {"clusters": weighted}}


def _retries(settings: config.RetrySettings) -> dict[str, Any]:
    predicate = {
        "name": "envoy.retry_host_predicates.previous_hosts",
        "typed_config": {
            "@type": f"{_TYPE}extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
        },
    }
    return {
        "retry_on": "connect-failure,refused-stream,reset-before-request",
        "num_retries": settings.retries,
        "retry_host_predicate": [predicate],
        "host_selection_retry_max_attempts": _OTHER_REPLICA_TRIES,
        "retry_back_off": {
            "base_interval": bootstrap.seconds(settings.backoff_ms / 1000),
            "max_interval": bootstrap.seconds(settings.backoff_ms / 100),
        },
    }
