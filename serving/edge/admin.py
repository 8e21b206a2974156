"""Asking Envoy what it really does: which replicas, which routes, what came of the requests.

Discovery knows what Envoy acknowledged; what came of the requests only the admin interface tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from serving import errors
from serving.discovery import shares
from serving.discovery import snapshot as discovery
from serving.edge import mirrors, resources

_OK = 200
_COMPLETED = "upstream_rq_completed"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyBucket:
    """How many requests took at most `le_ms` milliseconds since Envoy started."""

    le_ms: float
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStats:
    """What came of one version's requests since Envoy started; subtract two to get an interval."""

    completed: int
    """Requests answered, by a replica or by the edge in its place."""
    ok: int
    """Answers of 2xx."""
    client_errors: int
    """Answers of 4xx."""
    server_errors: int
    """Answers of 5xx, those the edge gave because no replica did included."""
    retries: int
    """Second tries."""
    timeouts: int
    """Requests the edge gave up on."""
    active: int
    """Requests in flight now."""
    ejections_active: int
    """Replicas left out now because they fail."""
    latency: tuple[LatencyBucket, ...]
    """Histogram of time at the replica; updated once a second."""


class AdminClient:
    """A client of one Envoy's admin interface; use it as an async context manager."""

    def __init__(self, base_url: str, *, timeout_s: float = 2.0) -> None:
        # It is plain HTTP on loopback; loading certificates would cost 50 ms each time.
        self._http = httpx.AsyncClient(
            base_url=base_url, timeout=timeout_s, trust_env=False, verify=False
        )

    async def __aenter__(self) -> AdminClient:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection."""
        await self._http.aclose()

    async def ready(self) -> bool:
        """Whether Envoy has loaded its configuration and takes requests; False when it is away."""
        try:
            response = await self._http.get("/ready")
        except httpx.HTTPError:
            return False
        return response.status_code == _OK

    async def endpoints(self) -> dict[str, frozenset[discovery.Address]]:
        """The replicas Envoy uses, by the name of a version's cluster."""
        data = await self._json("/clusters", {"format": "json"})
        return {
            cluster["name"]: frozenset(_address(h) for h in cluster.get("host_statuses", ()))
            for cluster in data.get("cluster_statuses", ())
            if _is_version(cluster["name"])
        }

    async def route_weights(self) -> dict[str, dict[int, int]]:
        """Per model the weight of each version in the routes in use; a model without is empty."""
        found = [route for route in await self._routes() if "prefix" in route["match"]]
        return dict(_model_weights(route) for route in found if _model(route) is not None)

    async def route_mirrors(self) -> dict[str, dict[int, float]]:
        """Per model the fraction of its requests that each mirrored version gets copies of; models
        without mirrors are left out."""
        found = ((_model(r), r.get("route", {})) for r in await self._routes())
        return {
            model: dict(map(_mirror, action["request_mirror_policies"]))
            for model, action in found
            if model is not None and "request_mirror_policies" in action
        }

    async def stats(self, cluster: str) -> ClusterStats:
        """The counters of one cluster; all zero for a cluster without requests."""
        data = await self._stats(re.escape(cluster))
        return _cluster_stats(data, prefix=f"cluster.{cluster}.")

    async def totals(self) -> dict[str, ClusterStats]:
        """The counters of every version's cluster, by the cluster's name."""
        data = await self._stats(r".+@v\d+")
        ends = f".{_COMPLETED}"  # Envoy has this one from the beginning
        names = [n.removesuffix(ends) for n in _scalars(data) if n.endswith(ends)]
        return {
            name.removeprefix("cluster."): _cluster_stats(data, prefix=f"{name}.") for name in names
        }

    async def _stats(self, clusters: str) -> dict[str, Any]:
        pattern = rf"^cluster\.{clusters}\.(upstream_rq_|outlier_detection\.ejections_active)"
        return await self._json(
            "/stats", {"format": "json", "histogram_buckets": "cumulative", "filter": pattern}
        )

    async def active_requests(self) -> int:
        """Callers' requests in flight at the edge."""
        name = "http.edge.downstream_rq_active"
        data = await self._json("/stats", {"format": "json", "filter": f"^{re.escape(name)}$"})
        return _scalars(data).get(name, 0)

    async def drain(self) -> None:
        """Ask callers to close their connections, then stop listening."""
        await self._request("POST", "/drain_listeners?graceful", None)

    async def _routes(self) -> list[dict[str, Any]]:
        data = await self._json("/config_dump", {"resource": "dynamic_route_configs"})
        tables = data.get("configs", ())[:1]
        hosts = [host for t in tables for host in t["route_config"]["virtual_hosts"]]
        return [route for host in hosts for route in host["routes"]]

    async def _json(self, path: str, params: Mapping[str, str]) -> dict[str, Any]:
        response = await self._request("GET", path, params)
        try:
            data = json.loads(response.content)
        except ValueError as exc:
            raise errors.EdgeError(f"Envoy's admin interface gave no JSON at {path}") from exc
        return dict(data)

    async def _request(
        self, method: str, path: str, params: Mapping[str, str] | None
    ) -> httpx.Response:
        try:
            response = await self._http.request(method, path, params=params)
        except httpx.HTTPError as exc:
            raise errors.EdgeError(
                f"Envoy's admin interface at {self._http.base_url} does not answer {path}: "
                f"{type(exc).__name__} {exc}. Is the edge running?"
            ) from exc
        if response.status_code != _OK:
            raise errors.EdgeError(
                f"Envoy's admin interface answered {path} with {response.status_code}: "
                f"{response.text[:200]!r}"
            )
        return response


def _address(host_status: dict[str, Any]) -> discovery.Address:
    socket = host_status["address"]["socket_address"]
    return discovery.Address(host=socket["address"], port=socket["port_value"])


def _is_version(name: str) -> bool:
    try:
        discovery.ClusterKey.parse(name)
    except ValueError:
        return False
    return True


def _model(route: dict[str, Any]) -> str | None:
    """The model that a route is for; None for the edge's own and for those of pinned requests."""
    headers = route["match"].get("headers", ())
    if [header["name"] for header in headers] != [resources.MODEL_HEADER]:
        return None
    found = headers[0].get("string_match", {}).get("exact")
    return str(found) if found is not None else None


def _mirror(policy: dict[str, Any]) -> tuple[int, float]:
    name = policy["cluster"].removesuffix(discovery.MIRROR_SUFFIX)
    return discovery.ClusterKey.parse(name).version, mirrors.fraction_of(policy)


def _model_weights(route: dict[str, Any]) -> tuple[str, dict[int, int]]:
    action = route.get("route", {})
    if (only := action.get("cluster")) is not None:
        return route["name"], {discovery.ClusterKey.parse(only).version: shares.WHOLE_PERCENT}
    weighted = action.get("weighted_clusters", {}).get("clusters", ())
    weights = {discovery.ClusterKey.parse(c["name"]).version: int(c["weight"]) for c in weighted}
    return route["name"], weights


def _scalars(data: dict[str, Any]) -> dict[str, int]:
    return {item["name"]: int(item["value"]) for item in data["stats"] if "value" in item}


def _cluster_stats(data: dict[str, Any], *, prefix: str) -> ClusterStats:
    values = {name.removeprefix(prefix): value for name, value in _scalars(data).items()}
    return ClusterStats(
        completed=values.get(_COMPLETED, 0),
        ok=values.get("upstream_rq_2xx", 0),
        client_errors=values.get("upstream_rq_4xx", 0),
        server_errors=values.get("upstream_rq_5xx", 0),
        retries=values.get("upstream_rq_retry", 0),
        timeouts=values.get("upstream_rq_timeout", 0),
        active=values.get("upstream_rq_active", 0),
        ejections_active=values.get("outlier_detection.ejections_active", 0),
        latency=_latency(data, name=f"{prefix}upstream_rq_time"),
    )


def _latency(data: dict[str, Any], *, name: str) -> tuple[LatencyBucket, ...]:
    groups = [item["histograms"] for item in data["stats"] if "histograms" in item]
    histograms = [h for group in groups for h in group if h["name"] == name]
    return tuple(
        LatencyBucket(le_ms=float(bucket["upper_bound"]), count=int(bucket["cumulative"]))
        for histogram in histograms
        for bucket in histogram["buckets"]
    )
