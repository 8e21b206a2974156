"""The serving plane of one model, as whoever changes what serves sees it.

A seam: `serving.ray_plane` is the real one (Ray Serve, Envoy); tests have a fake that passes the
same contract.

A plane is opened by one owner under one epoch (`serving.fence`). Once another has opened it under a
higher one, everything that changes something (`start`, `set_weights`, `retire`) is refused with
StaleEpoch and changes nothing, however long ago it was decided. Looking and asking stay allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from registry.model import ModelVersion
from serving.edge.admin import ClusterStats


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answered probe."""

    version: int
    digest: str
    corrected: str
    seconds: float


class Plane(Protocol):
    """The serving plane of one model, in the hand of one owner."""

    def running(self) -> tuple[int, ...]:
        """Versions that are deployed, ready or not."""
        ...

    def weights(self) -> Mapping[int, int]:
        """Percent of traffic per version, as the edge was told; empty where nothing serves."""
        ...

    def start(self, version: ModelVersion, replicas: int) -> None:
        """Asks for a version's replicas; returns at once. A running one is scaled, a broken one
        replaced; what runs as asked for is left alone.

        Raises:
            StaleEpoch: another owner has taken over.
        """
        ...

    def wait_ready(self, version: int, replicas: int, timeout_s: float) -> None:
        """Returns when the edge knows that many ready replicas.

        Raises:
            ServingError: the replicas failed, with their own reason, or took too long.
        """
        ...

    def ask_replicas(self, version: int, text: str) -> tuple[Answer, ...]:
        """Asks every ready replica of a version directly, past the edge."""
        ...

    def ask(self, text: str) -> Answer:
        """Asks through the edge, as a caller would."""
        ...

    def set_weights(self, weights: Mapping[int, int], timeout_s: float) -> None:
        """Changes the traffic shares and returns when the edge has taken them; none takes the
        model off the edge.

        Raises:
            StaleEpoch: another owner has taken over.
            ServingError: the edge has not taken them in time.
        """
        ...

    def counts(self, version: int) -> ClusterStats | None:
        """What the edge counted of a version, cumulative; None where it cannot be read."""
        ...

    def ready_replicas(self, version: int) -> int | None:
        """Ready replicas as the edge knows them; None where that cannot be read."""
        ...

    def retire(self, version: int, timeout_s: float) -> None:
        """Drains and stops a version; does nothing where it is not deployed.

        Raises:
            StaleEpoch: another owner has taken over.
            ServingError: it still drains after `timeout_s`.
        """
        ...
