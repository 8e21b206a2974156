"""Objects as an API server writes them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from serving import endpoint
from serving.discovery.kubernetes import Timing

DIGEST = "sha256:" + "a" * 64
QUICK = Timing(backoff_s=0.002, backoff_max_s=0.01, inactivity_s=5.0)


def service(
    name: str = "grammar",
    *,
    model: Any = "grammar",
    version: Any = "3",
    digest: Any = DIGEST,
    at: int = 1,
    created: str = "2026-01-01T00:00:00Z",
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "resourceVersion": str(at),
            "creationTimestamp": created,
            "labels": {"liftlock.io/model": model, "liftlock.io/version": version},
            "annotations": {"liftlock.io/digest": digest},
        },
    }


def member(
    host: Any,
    *,
    pod: str | None = None,
    uid: str = "",
    ready: Any = True,
    serving: Any = None,
    terminating: Any = None,
    zone: Any = None,
    hints: Sequence[str] = (),
) -> dict[str, Any]:
    made: dict[str, Any] = {
        "addresses": [host],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
    }
    if pod is not None:
        made["targetRef"] = {"kind": "Pod", "name": pod, "namespace": "ns", "uid": uid}
    if zone is not None:
        made["zone"] = zone
    if hints:
        made["hints"] = {"forZones": [{"name": name} for name in hints]}
    return made


def part(
    *members: Any,
    name: str = "grammar-a",
    of: str = "grammar",
    family: Any = "IPv4",
    ports: Any = ({"name": "http", "port": 8000, "protocol": "TCP"},),
    at: int = 1,
) -> dict[str, Any]:
    """An EndpointSlice."""
    return {
        "metadata": {
            "name": name,
            "namespace": "ns",
            "resourceVersion": str(at),
            "labels": {"kubernetes.io/service-name": of, "liftlock.io/model": "grammar"},
        },
        "addressType": family,
        "ports": list(ports) if isinstance(ports, tuple) else ports,
        "endpoints": list(members),
    }


def listed(kind: str, *items: Any, at: Any = 10, more: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": str(at), **({"continue": more} if more else {})}
    return {"kind": kind, "metadata": metadata, "items": list(items)}


def services(*items: Any, at: Any = 10, more: str = "") -> dict[str, Any]:
    return listed("ServiceList", *items, at=at, more=more)


def slices(*items: Any, at: Any = 10, more: str = "") -> dict[str, Any]:
    return listed("EndpointSliceList", *items, at=at, more=more)


def event(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    return {"type": kind, "object": body}


def bookmark(at: Any) -> dict[str, Any]:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(at)}})


def gone() -> dict[str, Any]:
    return event("ERROR", {"kind": "Status", "code": 410, "message": "too old"})


def line(said: object) -> bytes:
    return json.dumps(said).encode() + b"\n"


def ready(endpoints: Sequence[endpoint.Endpoint]) -> list[str]:
    """The addresses that may take traffic."""
    return [e.host for e in endpoints if e.state is endpoint.EndpointState.READY]


ONE = part(member("10.0.0.1", pod="a"), at=9)
TWO = part(member("10.0.0.1", pod="a"), member("10.0.0.2", pod="b"), at=11)
