"""Endpoints and a traffic plan become what the edge must do: clusters and weighted routes.

Pure, and total over bad input: one replica with a nonsense address costs that replica its
traffic, not the edge its configuration.

What happens when a version has weight but no ready endpoint: its share goes to the other
versions with weight, in their proportion; if none of them has an endpoint, to the standbys (the
versions the plan lists with 0 percent), in equal shares; if there is none either, the model's
route is empty and the edge answers 503. A version the plan does not list never answers.
A mirrored version without a ready endpoint gets no copies, and nobody notices.
"""

from __future__ import annotations

import functools
import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from serving import endpoint
from serving.discovery import traffic
from serving.keys.rules import KeyRules

_MAX_PORT = 65_535
MIRROR_SUFFIX = "-mirror"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class ClusterKey:
    """What a cluster stands for: one version of one model."""

    model: str
    version: int

    @property
    def name(self) -> str:
        """The cluster's name in Envoy."""
        return f"{self.model}@v{self.version}"

    @property
    def mirror_name(self) -> str:
        """The name of the cluster that carries copies to this version; no `parse` takes it."""
        return f"{self.name}{MIRROR_SUFFIX}"

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
    zone: str = ""


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
class Mirror:
    """A version that gets copies of a fraction of a route's requests."""

    key: ClusterKey
    fraction: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRoute:
    """Where one model's requests go; no share at all means 503."""

    model: str
    shares: tuple[Share, ...]
    mirrors: tuple[Mirror, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """All the edge needs to know. `refused` says which replicas were left out, and why."""

    epoch: int | None
    clusters: tuple[Cluster, ...]
    routes: tuple[ModelRoute, ...]
    refused: tuple[str, ...] = ()
    mirrored: tuple[ClusterKey, ...] = ()
    """Versions that are mirrored as planned, those without a ready replica included."""
    keys: KeyRules = field(default_factory=KeyRules)

    def addresses(self, key: ClusterKey) -> tuple[Address, ...]:
        """The ready replicas of one version; empty when it has none."""
        return next((c.addresses for c in self.clusters if c.key == key), ())

    def weights(self) -> dict[ClusterKey, int]:
        """The weight of each version that answers now."""
        return {share.key: share.weight for route in self.routes for share in route.shares}

    def fractions(self) -> dict[ClusterKey, float]:
        """The fraction of requests that each mirrored version gets copies of now."""
        return {mirror.key: mirror.fraction for route in self.routes for mirror in route.mirrors}


def build(
    endpoints: Iterable[endpoint.Endpoint],
    plan: traffic.TrafficPlan | None,
    retained: Iterable[ClusterKey] = (),
) -> Snapshot:
    """The snapshot for what is known now.

    `retained` clusters exist even without endpoints: a removed cluster resets the requests it
    still carries, so the caller says when one may go (see `retain`).
    """
    refused: list[str] = []
    # By the plain pair, whose hash costs a fraction of a ClusterKey's.
    members: dict[tuple[str, int], dict[tuple[str, int], Address]] = {}
    for replica in endpoints:
        version = (replica.model, replica.version)
        address = _usable_address(replica.host, replica.port, replica.zone or "")
        if address is None or _usable_key(*version) is None:
            refused.append(_fault(replica))
            continue
        known = members.setdefault(version, {})
        if replica.state is endpoint.EndpointState.READY:
            known.setdefault((replica.host, replica.port), address)
    found = {_key(*version): known for version, known in members.items()}
    keys = {*found, *live_keys((), plan), *retained}
    clusters = tuple(_cluster(key, found.get(key, {})) for key in sorted(keys))
    ready = {cluster.key for cluster in clusters if cluster.addresses}
    models = plan.models if plan is not None else ()
    return Snapshot(
        epoch=plan.epoch if plan is not None else None,
        clusters=clusters,
        routes=tuple(_route(model, ready) for model in models),
        refused=tuple(refused),
        mirrored=tuple(sorted(_key(m.model, c.version) for m in models for c in m.mirrors)),
    )


def live_keys(
    endpoints: Iterable[endpoint.Endpoint], plan: traffic.TrafficPlan | None
) -> frozenset[ClusterKey]:
    """The versions that have an endpoint in any state, or a place in the plan."""
    models = plan.models if plan is not None else ()
    planned = {_key(m.model, w.version) for m in models for w in m.weights}
    planned |= {_key(m.model, c.version) for m in models for c in m.mirrors}
    seen = {(e.model, e.version) for e in endpoints}
    return frozenset(planned | {_key(model, version) for model, version in seen})


def draining(endpoints: Iterable[endpoint.Endpoint]) -> Counter[ClusterKey]:
    """How many replicas of each version finish what they hold and get nothing new."""
    return Counter(
        ClusterKey(model=replica.model, version=replica.version)
        for replica in endpoints
        if replica.state is endpoint.EndpointState.DRAINING
    )


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


def _cluster(key: ClusterKey, members: Mapping[tuple[str, int], Address]) -> Cluster:
    return Cluster(key=key, addresses=tuple(map(members.__getitem__, sorted(members))))


# Listings of 1,000 replicas come many times a second and hardly differ.
@functools.lru_cache(maxsize=65_536)
def _usable_address(host: str, port: int, zone: str) -> Address | None:
    """None for what cannot be told to Envoy, which takes IP addresses here, no names."""
    if not 0 < port <= _MAX_PORT or not zone.isprintable() or not _is_ip_address(host):
        return None
    return Address(host=host, port=port, zone=zone)


@functools.lru_cache(maxsize=4_096)
def _usable_key(model: str, version: int) -> ClusterKey | None:
    if not model or not model.isprintable() or version < 1:
        return None
    return _key(model, version)


@functools.lru_cache(maxsize=4_096)
def _key(model: str, version: int) -> ClusterKey:
    return ClusterKey(model=model, version=version)


def _is_ip_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return "%" not in host  # an interface's name means nothing on another machine


def _route(model: traffic.ModelTraffic, ready: set[ClusterKey]) -> ModelRoute:
    answering = [
        Share(key=key, weight=weight.percent)
        for weight in model.weights
        if (key := ClusterKey(model=model.model, version=weight.version)) in ready
    ]
    weighted = tuple(share for share in answering if share.weight > 0)
    standbys = tuple(Share(key=share.key, weight=1) for share in answering)
    shares = weighted or standbys
    return ModelRoute(model=model.model, shares=shares, mirrors=_mirrors(model, shares, ready))


def _mirrors(
    model: traffic.ModelTraffic, shares: tuple[Share, ...], ready: set[ClusterKey]
) -> tuple[Mirror, ...]:
    """Those with a ready endpoint; but not one that has to answer alone, when others are away."""
    if not shares:
        return ()
    alone = shares[0].key if len(shares) == 1 else None
    planned = (Mirror(key=_key(model.model, m.version), fraction=m.fraction) for m in model.mirrors)
    return tuple(mirror for mirror in planned if mirror.key in ready - {alone})


def _fault(replica: endpoint.Endpoint) -> str:
    """Why a replica cannot be told to Envoy."""
    where = f"replica {replica.replica_id!r} of {replica.model!r} at {replica.host}:{replica.port}"
    if _usable_key(replica.model, replica.version) is None:
        return f"{where}: no model or no version"
    if not 0 < replica.port <= _MAX_PORT:
        return f"{where}: the port is not 1 to {_MAX_PORT}"
    if not (replica.zone or "").isprintable():
        return f"{where}: the zone is no name"
    return f"{where}: the host must be an IP address"
