"""What does it cost discovery to follow a Kubernetes cluster whose pods come and go?

    python -m benchmarks.kubernetes_discovery [ENDPOINTS] [CHANGES]

A Service with so many endpoints (default 1000) in slices of 100, as the control plane makes them.
Each change is one event of a watch, as bytes: a pod stops being ready or becomes ready. Measured is
the CPU of this process from the bytes to a new listing; the socket is left out.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from benchmarks import machine
from serving.discovery.kubernetes import KubernetesSettings, objects, wire
from serving.discovery.kubernetes.state import ClusterState

SLICE_ENDPOINTS = 100
SERVICE = {
    "metadata": {
        "namespace": "models",
        "name": "grammar",
        "labels": {objects.MODEL: "grammar", objects.VERSION: "3"},
    }
}


def endpoint_at(slice_number: int, position: int, *, is_leaving: bool) -> dict[str, Any]:
    """One endpoint as the control plane writes it."""
    return {
        "addresses": [f"10.{slice_number // 250}.{slice_number % 250}.{position + 1}"],
        "conditions": {"ready": not is_leaving, "serving": True, "terminating": is_leaving},
        "nodeName": f"node-{position}",
        "targetRef": {
            "kind": "Pod",
            "namespace": "models",
            "name": f"grammar-7c9d8b5f6-{slice_number}-{position}",
            "uid": f"0f5ad2b4-0000-4000-8000-{slice_number:06d}{position:06d}",
        },
        "zone": f"zone-{position % 3}",
    }


def slice_at(number: int, version: int, leaving: int | None) -> dict[str, Any]:
    """A slice as it is at a version, with one pod that leaves."""
    return {
        "metadata": {
            "namespace": "models",
            "name": f"grammar-{number}",
            "resourceVersion": str(version),
            "labels": {objects.SERVICE_NAME: "grammar", objects.MODEL: "grammar"},
        },
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": [
            endpoint_at(number, position, is_leaving=position == leaving)
            for position in range(SLICE_ENDPOINTS)
        ],
    }


def measure(endpoints: int, changes: int) -> dict[str, Any]:
    """CPU milliseconds for a change, and the number of new listings."""
    state = ClusterState(KubernetesSettings(namespace="models"))
    slices = range(max(endpoints // SLICE_ENDPOINTS, 1))
    state.services.replace(wire.Page(items=(SERVICE,), version="1"))
    state.slices.replace(
        wire.Page(items=tuple(slice_at(number, 1, None) for number in slices), version="1")
    )
    lines = [
        json.dumps(
            {
                "type": "MODIFIED",
                "object": slice_at(n % len(slices), n + 2, n // len(slices) % SLICE_ENDPOINTS),
            }
        ).encode()
        for n in range(changes)
    ]
    first = state.listing(None)
    began_s = time.process_time()
    for line in lines:
        state.slices.take(wire.event(line))
        state.touch()
        state.listing(None)
    cpu_ms = (time.process_time() - began_s) * 1000
    last = state.listing(None)
    if first is None or last is None:
        raise RuntimeError("both lists were given, so there must be a listing")
    return {
        "endpoints": len(first.endpoints),
        "changes": changes,
        "listings": last.generation - first.generation,
        "event_bytes": len(lines[0]),
        "cpu_ms_per_change": round(cpu_ms / changes, 2),
        "core_share_at_50_per_s": round(cpu_ms / changes * 50 / 1000, 3),
    }


def main() -> None:
    """Measures and prints."""
    endpoints = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    changes = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    about = machine.describe()
    figures = measure(endpoints, changes)
    print(machine.result({"benchmark": "kubernetes_discovery", **about, **figures}))


if __name__ == "__main__":
    main()
