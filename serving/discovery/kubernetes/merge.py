"""Services and their slices become endpoints.

Pure, and the same whatever order the objects came in. An address belongs to the first Service that
claims it, and a version has the digest that its first Service says; first is by creation, then by
name. What contradicts that is refused by name, so that a Service with a wrong label takes nothing
from one that serves.

What was made of a slice is remembered: where slices do not overlap, which is nearly always, a
change costs the endpoints of one slice and not those of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter

from serving import endpoint
from serving.discovery.kubernetes import replicas
from serving.discovery.kubernetes.objects import Key, Service, Slice
from serving.discovery.kubernetes.settings import AddressType

_BY_ADDRESS = attrgetter("host", "port")


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """The endpoints, sorted by address, and what was left out."""

    endpoints: tuple[endpoint.Endpoint, ...]
    refused: tuple[str, ...]


@dataclass(slots=True)
class _Claims:
    """Who serves what, filled Service by Service."""

    versions: dict[tuple[str, int], Service] = field(default_factory=dict)
    addresses: dict[tuple[str, int], Service] = field(default_factory=dict)
    endpoints: list[endpoint.Endpoint] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """What became of a slice, as long as it is this very slice of this very Service."""

    part: Slice
    service: Service
    is_hinted: bool
    endpoints: tuple[endpoint.Endpoint, ...]


class Merger:
    """Merges again and again; remembers, but decides by what it is given alone."""

    def __init__(self, prefer: AddressType) -> None:
        self._prefer = prefer
        self._made: dict[Key, _Made] = {}

    def merge(self, services: Iterable[Service], slices: Iterable[Slice]) -> Merged:
        """All endpoints of all Services. Slices of other Services are passed over."""
        parts: dict[Key, list[Slice]] = {}
        for part in slices:
            parts.setdefault(part.service, []).append(part)
        claims, before = _Claims(), self._made
        self._made = {}
        for service in sorted(services, key=lambda s: (s.created, s.key)):
            own = parts.get(service.key, [])
            if _has_its_digest(claims, service):
                _claim(claims, service, self._of_service(service, own, before))
            for part in sorted((p for p in own if p.faults), key=lambda p: p.key):
                claims.refused.extend(f"EndpointSlice {part.key}, {why}" for why in part.faults)
        return Merged(
            endpoints=tuple(sorted(claims.endpoints, key=_BY_ADDRESS)),
            refused=tuple(claims.refused),
        )

    def _of_service(
        self, service: Service, own: list[Slice], before: dict[Key, _Made]
    ) -> list[endpoint.Endpoint]:
        parts = replicas.without_echo(own, self._prefer)
        if not replicas.is_plain(parts):
            found = replicas.resolve(own, self._prefer)
            is_hinted = _are_hinted((r.member.hints, r.state) for r in found)
            return [
                replicas.endpoint_of(service, r.member, r.state, is_hinted=is_hinted) for r in found
            ]
        is_hinted = _are_hinted((m.hints, m.state) for part in parts for m in part.members)
        made: list[endpoint.Endpoint] = []
        for part in parts:
            known = before.get(part.key)
            if (
                known is None
                or known.part is not part
                or known.service is not service
                or known.is_hinted is not is_hinted
            ):
                known = _make(service, part, is_hinted=is_hinted)
            self._made[part.key] = known
            made.extend(known.endpoints)
        return made


def _make(service: Service, part: Slice, *, is_hinted: bool) -> _Made:
    return _Made(
        part=part,
        service=service,
        is_hinted=is_hinted,
        endpoints=tuple(
            replicas.endpoint_of(service, member, member.state, is_hinted=is_hinted)
            for member in part.members
            if member.state is not None
        ),
    )


def _are_hinted(
    told: Iterable[tuple[Sequence[str], endpoint.EndpointState | None]],
) -> bool:
    """Whether zone hints count: as Kubernetes has it, when every ready replica has one."""
    return all(hints for hints, state in told if state is endpoint.EndpointState.READY)


def _has_its_digest(claims: _Claims, service: Service) -> bool:
    first = claims.versions.setdefault((service.model, service.version), service)
    if first.digest == service.digest:
        return True
    claims.refused.append(
        f"Service {service.key}: {service.model} version {service.version} has the digest "
        f"{first.digest or '(none)'} by Service {first.key}, not {service.digest or '(none)'}"
    )
    return False


def _claim(claims: _Claims, service: Service, found: Iterable[endpoint.Endpoint]) -> None:
    others: dict[Key, Service] = {}
    for replica in found:
        owner = claims.addresses.setdefault((replica.host, replica.port), service)
        if owner is service:
            claims.endpoints.append(replica)
        elif (owner.model, owner.version) != (service.model, service.version):
            others[owner.key] = owner
    claims.refused.extend(
        f"Service {service.key}: some of its addresses serve {owner.model} version "
        f"{owner.version} by Service {owner.key}; make their selectors disjoint"
        for _, owner in sorted(others.items())
    )
