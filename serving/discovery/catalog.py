"""What Envoy is told, encoded: every cluster, assignment and route table with its version.

The one idea is that nothing is encoded twice. A version is a digest of the encoded bytes, so two
services (or one before and after a restart) give the same content the same version, and an Envoy
that has it is sent nothing. A fleet of 1,000 endpoints costs 6 ms to encode from dictionaries and
half a millisecond from the endpoints encoded before.
"""

from __future__ import annotations

import enum
import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from serving.discovery import protos
from serving.discovery import snapshot as discovery

_LOCALITY = "envoy.config.endpoint.v3.LocalityLbEndpoints"
_MOST_ENDPOINTS = 50_000
"""Encoded endpoints kept, used or not, since replicas come back at new ports; above it all are
dropped."""


class Kind(enum.StrEnum):
    """The kinds of resource, by the type Envoy asks for them under; in the order of sending."""

    CLUSTERS = "envoy.config.cluster.v3.Cluster"
    """CDS: which versions of which models there are."""
    ENDPOINTS = "envoy.config.endpoint.v3.ClusterLoadAssignment"
    """EDS: which replicas each has."""
    ROUTES = "envoy.config.route.v3.RouteConfiguration"
    """RDS: which share of which requests each gets."""

    @functools.cached_property
    def type_url(self) -> str:
        """The type as it stands in requests."""
        return protos.TYPE_PREFIX + self.value

    @classmethod
    def of(cls, type_url: str) -> Kind | None:
        """The kind that is asked for so; None for what is not ours."""
        return _BY_TYPE_URL.get(type_url)


KINDS = tuple(Kind)
"""Iterating an enumeration takes longer than what is done for each."""
_BY_TYPE_URL = {kind.type_url: kind for kind in KINDS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """JSON-ready dictionaries of one snapshot. `assignments` has one for each cluster."""

    clusters: tuple[dict[str, Any], ...]
    assignments: tuple[dict[str, Any], ...]
    routes: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One encoded resource. `part` is a whole discovery response that holds nothing else: encoded
    messages of one type may be joined end to end, and the joined bytes hold the fields of all."""

    name: str
    version: str
    part: bytes
    needs: frozenset[str] = frozenset()
    """Clusters that a route table leads to."""
    empty: bool = False
    """Whether an assignment has no endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All there is to tell at one moment. A higher `number` is a later moment."""

    number: int
    generation: int | None
    """The source's generation it was built from; None when no source was asked."""
    snapshot: discovery.Snapshot
    resources: Mapping[Kind, Mapping[str, Resource]]


@dataclass(slots=True)
class Encoder:
    """Turns dictionaries into resources and remembers those that did not change."""

    _known: dict[tuple[Kind, str], tuple[object, Resource]] = field(default_factory=dict)
    _endpoints: dict[int, tuple[dict[str, Any], bytes]] = field(default_factory=dict)
    """By the identity of an endpoint's dictionary, which is kept so that no other can have it: the
    encoded locality that holds this endpoint and nothing else."""

    def encode(self, documents: Documents) -> Mapping[Kind, Mapping[str, Resource]]:
        """The resources of a snapshot; raises ResourceInvalid when one fits no message."""
        found = {
            Kind.CLUSTERS: [self._resource(Kind.CLUSTERS, d) for d in documents.clusters],
            Kind.ROUTES: [self._resource(Kind.ROUTES, d) for d in documents.routes],
        }
        versions = {cluster.name: cluster.version for cluster in found[Kind.CLUSTERS]}
        found[Kind.ENDPOINTS] = [self._assignment(d, versions) for d in documents.assignments]
        self._forget(found)
        return {kind: {r.name: r for r in listed} for kind, listed in found.items()}

    def _resource(self, kind: Kind, document: dict[str, Any]) -> Resource:
        name = document["name"]
        known = self._known.get((kind, name))
        if known is not None and known[0] == document:
            return known[1]
        made = _encoded(name, protos.message(kind.value, document), needs=_needs(document))
        self._known[kind, name] = (document, made)
        return made

    def _assignment(self, document: dict[str, Any], versions: Mapping[str, str]) -> Resource:
        """A changed cluster wants its endpoints again, so its version is part of theirs."""
        name = document["cluster_name"]
        known = self._known.get((Kind.ENDPOINTS, name))
        mark = (document, versions.get(name, ""))
        if known is not None and known[0] == mark:
            return known[1]
        assignment = protos.message(Kind.ENDPOINTS.value, {"cluster_name": name})
        for group in document["endpoints"]:
            locality = assignment.endpoints.add()
            locality.MergeFromString(self._joined(group["lb_endpoints"]))
            locality.locality.zone = group.get("locality", {}).get("zone", "")
        made = _encoded(name, assignment, salt=mark[1], empty=not document["endpoints"])
        self._known[Kind.ENDPOINTS, name] = (mark, made)
        return made

    def _joined(self, documents: list[dict[str, Any]]) -> bytes:
        """Endpoints as one encoded locality: joined messages hold the fields of all."""
        return b"".join([self._endpoint(document) for document in documents])

    def _endpoint(self, document: dict[str, Any]) -> bytes:
        known = self._endpoints.get(id(document))
        if known is None:
            made = protos.plain(_LOCALITY, lb_endpoints=[document])
            known = self._endpoints[id(document)] = (document, made.SerializeToString())
        return known[1]

    def _forget(self, found: Mapping[Kind, Iterable[Resource]]) -> None:
        used = {(kind, resource.name) for kind, listed in found.items() for resource in listed}
        self._known = {key: known for key, known in self._known.items() if key in used}
        if len(self._endpoints) > _MOST_ENDPOINTS:
            self._endpoints.clear()


def _encoded(
    name: str,
    content: Any,
    *,
    salt: str = "",
    needs: frozenset[str] = frozenset(),
    empty: bool = False,
) -> Resource:
    box = protos.packed(content)
    version = hashlib.sha256(salt.encode() + box.value).hexdigest()[:16]
    messages = protos.discovery()
    resource = messages.Resource(name=name, version=version, resource=box)
    part = messages.DeltaDiscoveryResponse(resources=[resource]).SerializeToString()
    return Resource(name=name, version=version, part=part, needs=needs, empty=empty)


def _needs(document: dict[str, Any]) -> frozenset[str]:
    """The clusters that the routes of a table lead to."""
    hosts = document.get("virtual_hosts", ())
    actions = [route.get("route", {}) for host in hosts for route in host["routes"]]
    shares = [s for a in actions for s in a.get("weighted_clusters", {}).get("clusters", ())]
    whole = [action["cluster"] for action in actions if "cluster" in action]
    mirrors = [m["cluster"] for a in actions for m in a.get("request_mirror_policies", ())]
    return frozenset([*(share["name"] for share in shares), *whole, *mirrors])
