"""Services and EndpointSlices as JSON become values, or a reason why they cannot be used.

Total over bad input: a field that is wrong costs its endpoint, or its object, and nothing else.
What an endpoint's conditions mean is decided here, as the API's reference defines them: `ready`
counts as true where it is missing, `serving` as `ready`, `terminating` as false.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from registry import model
from serving import endpoint
from serving.discovery.kubernetes import fields, wire
from serving.discovery.kubernetes.settings import AddressType

MODEL, VERSION, DIGEST = "liftlock.io/model", "liftlock.io/version", "liftlock.io/digest"
"""Annotations, or else labels, of a Service. A digest is too long for a label."""
SERVICE_NAME = "kubernetes.io/service-name"
"""The label by which a slice says whose it is."""

_VERSION = re.compile(r"[1-9][0-9]{0,17}", re.ASCII)
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ZONE = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_MAX_PORT = 65_535
_FAULTS_SHOWN = 3
"""How many bad endpoints of one slice are named; the others are counted."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Key:
    """Which object of its resource."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What the replicas behind a Service serve."""

    key: Key
    model: str
    version: int
    digest: str
    created: str
    """UTC time as the API writes it, which sorts as text."""


Address = tuple[str, int]
"""An IP address in its one spelling, and a port."""
Identity = tuple[str, str] | Address
"""A pod and its uid, or the address of what is no pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One endpoint of a slice."""

    address: Address
    pod: str | None
    """Namespace and name; None for an endpoint that is no pod."""
    identity: Identity
    """What two members share that are one replica."""
    state: endpoint.EndpointState | None
    """None for one that must get nothing and holds nothing."""
    zone: str | None
    hints: tuple[str, ...]
    """The zones it is meant for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """A part of the endpoints of a Service, all on one port."""

    key: Key
    service: Key
    address_type: AddressType
    version: str | None
    members: tuple[Member, ...]
    faults: tuple[str, ...] = ()
    """Endpoints that were left out."""


def key_of(body: Mapping[str, Any]) -> Key:
    """Which object this is; raises ValueError."""
    metadata = fields.mapping(body.get("metadata"), "metadata")
    return Key(
        namespace=_name(metadata.get("namespace"), "its namespace"),
        name=_name(metadata.get("name"), "its name"),
    )


def read_service(body: Mapping[str, Any]) -> Service:
    """A Service; raises ValueError with what is wrong about it."""
    metadata = fields.mapping(body.get("metadata"), "metadata")
    created = metadata.get("creationTimestamp")
    named, version, digest = (_said(metadata, name) for name in (MODEL, VERSION, DIGEST))
    if named is None:
        raise ValueError(f"it has no {MODEL}")
    if version is None or not _VERSION.fullmatch(version):
        raise ValueError(f"its {VERSION} is not a whole number from 1: {fields.shown(version)}")
    if digest is not None and not _DIGEST.fullmatch(digest):
        raise ValueError(
            f"its {DIGEST} is not sha256: and 64 hexadecimal digits: {fields.shown(digest)}"
        )
    return Service(
        key=key_of(body),
        model=model.check_model_name(named),
        version=int(version),
        digest=digest or "",
        created=created if isinstance(created, str) else "",
    )


def read_slice(body: Mapping[str, Any], port_name: str | None) -> Slice:
    """An EndpointSlice; raises ValueError with what is wrong about all of it."""
    key = key_of(body)
    metadata = fields.mapping(body.get("metadata"), "metadata")
    labels = fields.mapping(metadata.get("labels"), "labels")
    family = body.get("addressType")
    if family not in list(AddressType):
        raise ValueError(f"its address type {fields.shown(family)} is not IPv4 or IPv6")
    address_type = AddressType(family)
    endpoints = fields.items(body.get("endpoints"), "endpoints")
    # A Service without pods has a slice without ports, which is no fault.
    port = _port(body.get("ports"), port_name) if endpoints else 0
    members, faults = _members(endpoints, address_type, port, key.namespace)
    return Slice(
        key=key,
        service=Key(
            namespace=key.namespace,
            name=_name(labels.get(SERVICE_NAME), f"its label {SERVICE_NAME}"),
        ),
        address_type=address_type,
        version=wire.version_of(body),
        members=members,
        faults=faults,
    )


def _members(
    endpoints: list[Any], address_type: AddressType, port: int, namespace: str
) -> tuple[tuple[Member, ...], tuple[str, ...]]:
    members: list[Member] = []
    faults: list[str] = []
    for position, item in enumerate(endpoints):
        try:
            members.append(_member(fields.mapping(item, "it"), address_type, port, namespace))
        except ValueError as exc:
            faults.append(f"endpoint {position}: {exc}")
    hidden = len(faults) - _FAULTS_SHOWN
    shown_faults = faults[:_FAULTS_SHOWN] + ([f"{hidden} more endpoints"] if hidden > 0 else [])
    return tuple(members), tuple(shown_faults)


def _member(
    item: Mapping[str, Any], address_type: AddressType, port: int, namespace: str
) -> Member:
    addresses = fields.items(item.get("addresses"), "addresses")
    if not addresses:
        raise ValueError("it has no address")
    pod, uid = _pod(fields.mapping(item.get("targetRef"), "targetRef"), namespace)
    hints = fields.mapping(item.get("hints"), "hints")
    # All addresses of an endpoint are equivalent, and clients may use the first.
    address = _host(fields.string(addresses[0], "its address"), address_type), port
    return Member(
        address=address,
        pod=pod,
        identity=address if pod is None else (pod, uid),
        state=_state(fields.mapping(item.get("conditions"), "conditions")),
        zone=_zone(item.get("zone")),
        hints=tuple(_hints(fields.items(hints.get("forZones"), "forZones"))),
    )


def _state(conditions: Mapping[str, Any]) -> endpoint.EndpointState | None:
    """Stricter than `ready` in one case: a Service that publishes addresses that are not ready
    says `ready` of them too, and only `serving` and `terminating` tell."""
    ready = _condition(conditions, "ready", unset=True)
    serving = _condition(conditions, "serving", unset=ready)
    if not serving:
        return None
    if _condition(conditions, "terminating", unset=False):
        return endpoint.EndpointState.DRAINING
    return endpoint.EndpointState.READY if ready else None


def _condition(conditions: Mapping[str, Any], name: str, *, unset: bool) -> bool:
    value = conditions.get(name)
    if value is None:
        return unset
    if not isinstance(value, bool):
        raise ValueError(f"its condition {name} is not true or false: {fields.shown(value)}")
    return value


def _pod(target: Mapping[str, Any], namespace: str) -> tuple[str | None, str]:
    if target.get("kind") != "Pod":
        return None, ""
    where = target.get("namespace")
    pod = Key(
        namespace=namespace if where is None else _name(where, "its pod's namespace"),
        name=_name(target.get("name"), "its pod's name"),
    )
    uid = target.get("uid")
    return str(pod), uid if isinstance(uid, str) else ""


def _port(ports: Any, wanted: str | None) -> int:
    listed = [fields.mapping(port, "a port") for port in fields.items(ports, "ports")]
    tcp = [port for port in listed if port.get("protocol") in (None, "TCP")]
    found = tcp if wanted is None else [port for port in tcp if port.get("name") == wanted]
    if len(found) != 1:
        names = fields.shown(", ".join(str(port.get("name") or "(unnamed)") for port in tcp))
        ask = (
            "more than one TCP port or none; choose one by name"
            if wanted is None
            else (f"no TCP port named {wanted!r}")
        )
        raise ValueError(f"it has {ask}; it has {names}")
    number = found[0].get("port")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _MAX_PORT:
        raise ValueError(f"its port is not 1 to {_MAX_PORT}: {fields.shown(number)}")
    return number


@functools.lru_cache(maxsize=16_384)
def _host(text: str, address_type: AddressType) -> str:
    """An address in its one spelling. What Kubernetes allows in no slice is refused here too: it
    would turn requests to this machine, or to a cloud's metadata server."""
    family = ipaddress.IPv4Address if address_type is AddressType.IPV4 else ipaddress.IPv6Address
    try:
        address = family(text)
    except ValueError:
        raise ValueError(f"its address {fields.shown(text)} is no {address_type} address") from None
    hidden = isinstance(address, ipaddress.IPv6Address) and (
        address.scope_id is not None or address.ipv4_mapped is not None
    )
    special = address.is_loopback or address.is_link_local or address.is_multicast
    if hidden or special or address.is_unspecified or str(address) == "255.255.255.255":
        raise ValueError(f"its address {fields.shown(text)} cannot be that of a pod")
    return str(address)


def _hints(zones: list[Any]) -> Iterator[str]:
    for item in zones:
        zone = _zone(fields.mapping(item, "a zone hint").get("name"))
        if zone is not None:
            yield zone


def _zone(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if not _ZONE.fullmatch(fields.string(value, "its zone")):
        raise ValueError(f"its zone is not a label's value: {fields.shown(value)}")
    return str(value)


def _said(metadata: Mapping[str, Any], name: str) -> str | None:
    for place in ("annotations", "labels"):
        value = fields.mapping(metadata.get(place), place).get(name)
        if value is not None:
            return fields.string(value, f"its {name}")
    return None


def _name(value: Any, what: str) -> str:
    if not _NAME.fullmatch(fields.string(value, what)):
        raise ValueError(f"{what} is not a name of Kubernetes: {fields.shown(value)}")
    return str(value)
