"""Endpoints and a traffic plan become what the edge must do: clusters and weighted routes.

Pure, and total over bad input: one replica with a nonsense address costs that replica its
traffic, not the edge its configuration.

What happens when a version has weight but no ready endpoint: its share goes to the other
versions with weight, in their proportion; if none of them has an endpoint, to the standbys (the
versions the plan lists with 0 percent), in equal shares; if there is none either, the model's
route is empty and the edge answers 503. A version the plan does not list never answers.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from serving import endpoint
from serving.discovery import traffic

_MAX_PORT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ClusterKey:
    """What a cluster stands for: one version of one model."""

    model: str
    version: int

    @property
    def name(self) -> str:
        """The cluster's name in Envoy."""
        return f"{self.model}@v{self.version}"

    @classmethod
    def parse(cls, name: str) -> ClusterKey:
        """The key behind a cluster's name; raises ValueError for a foreign one."""
        model, separator, version = name.rpartition("@v")
        if not separator or not model or not version.isdecimal():
            raise ValueError(f"{name!r} is not the name of a model's cluster")
        return cls(model=model, version=int(version))


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Address:
    """Where a replica listens; `host` is an IP address."""

    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The ready replicas of one version, sorted, each once, all of equal weight.

    Equal on purpose: unequal weights make Envoy's least-request leave two choices.
    """

    key: ClusterKey
    addresses: tuple[Address, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A cluster's part of a route: `weight` out of the sum over the route."""

    key: ClusterKey
    weight: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """Where one model's requests go; no share at all means 503."""

    model: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All the edge needs to know. `refused` says which replicas were left out, and why."""

    epoch: int | None
    clusters: tuple[Cluster, ...]
    routes: tuple[ModelRoute, ...]
    refused: tuple[str, ...] = ()

    def addresses(self, key: ClusterKey) -> tuple[Address, ...]:
        """The ready replicas of one version; empty when it has none."""
        return next((c.addresses for c in self.clusters if c.key == key), ())


def build(
    endpoints: Iterable[endpoint.Endpoint],
    plan: traffic.TrafficPlan | None,
    retained: Iterable[ClusterKey] = (),
) -> Snapshot:
    """The snapshot for what is known now.

    `retained` clusters exist even without endpoints: a removed cluster resets the requests it
    still carries, so the caller says when one may go (see `retain`).
    """
    listed = tuple(endpoints)
    refused = tuple(reason for reason in map(_fault, listed) if reason is not None)
    usable = [e for e in listed if _fault(e) is None]
    keys = {*live_keys(usable, plan), *retained}
    clusters = tuple(_cluster(key, usable) for key in sorted(keys))
    ready = {cluster.key for cluster in clusters if cluster.addresses}
    models = plan.models if plan is not None else ()
    return Snapshot(
        epoch=plan.epoch if plan is not None else None,
        clusters=clusters,
        routes=tuple(_route(model, ready) for model in models),
        refused=refused,
    )


def live_keys(
    endpoints: Iterable[endpoint.Endpoint], plan: traffic.TrafficPlan | None
) -> frozenset[ClusterKey]:
    """The versions that have an endpoint in any state, or a place in the plan."""
    models = plan.models if plan is not None else ()
    planned = {ClusterKey(model=m.model, version=w.version) for m in models for w in m.weights}
    return frozenset(planned | {ClusterKey(model=e.model, version=e.version) for e in endpoints})


def retain(
    last_live_s: Mapping[ClusterKey, float],
    live: Iterable[ClusterKey],
    now_s: float,
    linger_s: float,
) -> dict[ClusterKey, float]:
    """When each cluster was last of use; those unused for `linger_s` are dropped.

    `linger_s` must exceed the longest request, since dropping a cluster resets what it carries.
    """
    kept = {key: seen for key, seen in last_live_s.items() if now_s - seen < linger_s}
    return kept | dict.fromkeys(live, now_s)


def _cluster(key: ClusterKey, endpoints: Iterable[endpoint.Endpoint]) -> Cluster:
    addresses = {
        Address(host=e.host, port=e.port)
        for e in endpoints
        if e.state is endpoint.EndpointState.READY
        and e.model == key.model
        and e.version == key.version
    }
    return Cluster(key=key, addresses=tuple(sorted(addresses)))


def _route(model: traffic.ModelTraffic, ready: set[ClusterKey]) -> ModelRoute:
    answering = [
        Share(key=key, weight=weight.percent)
        for weight in model.weights
        if (key := ClusterKey(model=model.model, version=weight.version)) in ready
    ]
    weighted = tuple(share for share in answering if share.weight > 0)
    standbys = tuple(Share(key=share.key, weight=1) for share in answering)
    return ModelRoute(model=model.model, shares=weighted or standbys)


def _fault(replica: endpoint.Endpoint) -> str | None:
    """Why a replica cannot be told to Envoy, or None. Envoy takes IP addresses here, no names."""
    where = f"replica {replica.replica_id!r} of {replica.model!r} at {replica.host}:{replica.port}"
    if not replica.model or replica.version < 1:
        return f"{where}: no model or no version"
    if not 0 < replica.port <= _MAX_PORT:
        return f"{where}: the port is not 1 to {_MAX_PORT}"
    try:
        ipaddress.ip_address(replica.host)
    except ValueError:
        return f"{where}: the host must be an IP address"
    return None
