"""What is watched on a Kubernetes cluster, and with how much patience."""

from __future__ import annotations

import enum
import math
import re
from dataclasses import dataclass, fields

SELECTOR = "liftlock.io/model"
"""Services that carry this label, and the slices that Kubernetes copies it to."""

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")


class AddressType(enum.StrEnum):
    """The families of addresses that can be told to Envoy."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubernetesSettings:
    """Which Services are served."""

    namespace: str | None
    """None watches every namespace, which takes a ClusterRole."""
    label_selector: str = SELECTOR
    """Applies to Services and their EndpointSlices alike; empty selects all of them."""
    port_name: str | None = None
    """Which port of a Service answers requests; None where each has only one."""
    prefer: AddressType = AddressType.IPV4
    """Which address of a replica that has one of each family is used."""

    def __post_init__(self) -> None:
        for name in ("namespace", "port_name"):
            value = getattr(self, name)
            if value is not None and not _LABEL.fullmatch(value):
                raise ValueError(
                    f"{name} {value!r} is not a name of Kubernetes: 1-63 lowercase letters, digits "
                    "or inner hyphens"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the API server may take, and how soon it is asked again."""

    connect_s: float = 5.0
    list_s: float = 30.0
    """For all pages of one list."""
    watch_s: float = 300.0
    """After which the server is asked to end a watch, so that load moves between servers; up to
    half as much again is added by chance."""
    inactivity_s: float = 90.0
    """A watch that says nothing for so long is broken; the server sends a bookmark each minute."""
    backoff_s: float = 0.25
    """The first wait after a failure; each further one is twice as long."""
    backoff_max_s: float = 10.0
    retry_after_max_s: float = 60.0
    """Longest wait that a server's Retry-After is granted."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not 0 < value < math.inf:
                raise ValueError(
                    f"{field.name} must be a finite time above 0 seconds, found {value!r}"
                )
