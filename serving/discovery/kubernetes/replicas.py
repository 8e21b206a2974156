"""The slices of one Service become its replicas: each replica once, each address once.

Pure, and the same whatever order the slices came in. A replica is a pod, or an address that belongs
to none. Where slices contradict each other about a replica or an address, the worst state counts:
moving an endpoint from one slice to another takes the control plane two writes, and what either of
them no longer calls ready must get nothing. A replica with addresses of both families is listed
under the preferred one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from serving import endpoint
from serving.discovery.kubernetes import versions
from serving.discovery.kubernetes.objects import Address, Identity, Member, Service, Slice
from serving.discovery.kubernetes.settings import AddressType

_READY, _DRAINING, _OUT = 2, 1, 0
_RANK = {
    endpoint.EndpointState.READY: _READY,
    endpoint.EndpointState.DRAINING: _DRAINING,
    None: _OUT,
}
_STATE = {rank: state for state, rank in _RANK.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A member that stands for one replica, and the worst that is said of it."""

    member: Member
    state: endpoint.EndpointState


@dataclass(slots=True)  # positional and not frozen: one for each endpoint at each change
class _Place:
    """A member in its slice."""

    member: Member
    part: Slice


def is_plain(parts: Iterable[Slice]) -> bool:
    """Whether no replica and no address is in these slices twice, so that each member is one."""
    members = [member for part in parts for member in part.members]
    return (
        len({member.address for member in members}) == len(members)
        and len({member.identity for member in members}) == len(members)
        and len({part.address_type for part in parts if part.members}) <= 1
    )


def without_echo(parts: list[Slice], prefer: AddressType) -> list[Slice]:
    """The slices of the preferred family, where the others say the same of the same pods."""
    preferred = [part for part in parts if part.address_type is prefer]
    if len(preferred) == len(parts):
        return parts
    said = {(m.identity, m.state) for part in preferred for m in part.members}
    others = (part for part in parts if part.address_type is not prefer)
    echoes = all((m.identity, m.state) in said for part in others for m in part.members)
    return preferred if echoes else parts


def resolve(parts: Iterable[Slice], prefer: AddressType) -> list[Replica]:
    """The replicas of slices that may contradict each other."""
    places = [_Place(member, part) for part in parts for member in part.members]
    ranks = _worst_ranks(place.member for place in places)
    found: list[Replica] = []
    for member in _one_each(places, prefer):
        state = _STATE[min(ranks[member.address], ranks[member.identity])]
        if state is not None:
            found.append(Replica(member=member, state=state))
    return found


def _worst_ranks(members: Iterable[Member]) -> dict[Identity, int]:
    """The worst that is said of each address, and of each replica."""
    ranks: dict[Identity, int] = {}
    for member in members:
        rank = _RANK[member.state]
        for name in (member.address, member.identity):
            ranks[name] = min(rank, ranks.get(name, rank))
    return ranks


def _one_each(places: list[_Place], prefer: AddressType) -> Iterable[Member]:
    """One member for each replica, and of those one for each address."""
    by_identity: dict[Identity, _Place] = {}
    for place in _of_one_family(places, prefer):
        known = by_identity.setdefault(place.member.identity, place)
        if known is not place and _is_better(place, known, prefer):
            by_identity[place.member.identity] = place
    by_address: dict[Address, Member] = {}
    for place in by_identity.values():
        member = by_address.setdefault(place.member.address, place.member)
        if member is not place.member and _name(place.member) < _name(member):
            by_address[member.address] = place.member
    return by_address.values()


def _of_one_family(places: list[_Place], prefer: AddressType) -> Iterator[_Place]:
    """All but the lone addresses of the other family, where there are lone ones of the preferred:
    what is no pod cannot be told to be one replica under two addresses."""
    families = {place.part.address_type for place in places if place.member.pod is None}
    for place in places:
        is_preferred = place.part.address_type is prefer
        if place.member.pod is not None or is_preferred or prefer not in families:
            yield place


def _is_better(place: _Place, known: _Place, prefer: AddressType) -> bool:
    """Whether a replica is rather listed under this place: the preferred family, then the slice
    that was written last, then the lower address."""
    families = place.part.address_type, known.part.address_type
    if families[0] is not families[1]:
        return families[0] is prefer
    if versions.is_older(known.part.version, place.part.version):
        return True
    if versions.is_older(place.part.version, known.part.version):
        return False
    return (place.member.address, place.part.key) < (known.member.address, known.part.key)


def _name(member: Member) -> tuple[bool, tuple[str, str]]:
    """Two pods with one address: one of them is gone, and nothing tells which."""
    first, second = member.identity
    return member.pod is None, (first, str(second))


def endpoint_of(
    service: Service, member: Member, state: endpoint.EndpointState, *, is_hinted: bool
) -> endpoint.Endpoint:
    """The endpoint of a replica; `is_hinted` says whether zone hints count."""
    host, port = member.address
    return endpoint.Endpoint(
        replica_id=member.pod or f"{service.key}/{host}:{port}",
        model=service.model,
        version=service.version,
        digest=service.digest,
        host=host,
        port=port,
        state=state,
        zone=_zone(member, is_hinted=is_hinted),
    )


def _zone(member: Member, *, is_hinted: bool) -> str | None:
    """The zone to prefer a replica from; among several hints the own zone is chosen."""
    if not is_hinted or not member.hints or member.zone in member.hints:
        return member.zone
    return member.hints[0]
