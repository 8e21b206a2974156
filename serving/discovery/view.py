"""What discovery says of itself, as JSON-ready dictionaries. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from serving import endpoint
from serving.discovery import snapshot as discovery
from serving.discovery.catalog import Catalog
from serving.discovery.xds import Edge


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What is known at one moment."""

    catalog: Catalog | None
    """The latest published; None before the first."""
    endpoints: tuple[endpoint.Endpoint, ...]
    edges: tuple[Edge, ...]
    age_s: float | None
    """Seconds since the source last answered; None when it never did."""
    faults: tuple[str, ...]

    @property
    def epoch(self) -> int | None:
        """Of the traffic plan in force; None before the first."""
        return self.catalog.snapshot.epoch if self.catalog is not None else None

    def behind(self, edge: Edge) -> bool:
        """Whether an edge does not show the latest yet."""
        return edge.shown is None or edge.shown is not self.catalog


def edges(view: View) -> dict[str, Any]:
    """The edges for the SDK: only those that show a catalog, since others may serve nobody.

    With the epoch of the plan, since the SDK refuses what a discovery says that was left behind.
    """
    return {
        "epoch": view.epoch,
        "edges": [
            {
                "id": edge.edge_id,
                "url": edge.url,
                "zone": edge.zone,
                "generation": edge.shown.generation,
                "behind": view.behind(edge),
                "refuses": list(edge.refusals),
            }
            for edge in view.edges
            if edge.shown is not None
        ],
    }


def snapshot(view: View) -> dict[str, Any]:
    """What is served, by model and version; `models` is empty before the first listing."""
    catalog = view.catalog
    found = catalog.snapshot if catalog is not None else None
    return {
        "epoch": view.epoch,
        "generation": catalog.generation if catalog is not None else None,
        "source_age_s": view.age_s,
        "models": _models(found, view.endpoints) if found is not None else [],
        "refused": list(found.refused) if found is not None else [],
        "edges": len(view.edges),
        "edges_behind": sum(map(view.behind, view.edges)),
        "faults": list(view.faults),
    }


def _models(
    found: discovery.Snapshot, replicas: Iterable[endpoint.Endpoint]
) -> list[dict[str, Any]]:
    weights, fractions = found.weights(), found.fractions()
    leaving = discovery.draining(replicas)
    models: dict[str, list[dict[str, Any]]] = {}
    for cluster in found.clusters:
        version = {
            "version": cluster.key.version,
            "weight": weights.get(cluster.key, 0),
            "mirrored": fractions.get(cluster.key, 0.0),
            "ready": len(cluster.addresses),
            "draining": leaving[cluster.key],
            "zones": dict(Counter(address.zone for address in cluster.addresses)),
        }
        models.setdefault(cluster.key.model, []).append(version)
    return [{"model": model, "versions": versions} for model, versions in models.items()]
