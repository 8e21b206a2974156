"""What a cluster is known to serve: two mirrors in, listings out.

Pure but for being told the time. Endpoints are merged when they are asked for, so that a burst of
events costs one merge; a listing has a new generation only where its endpoints differ.
"""

from __future__ import annotations

from serving import endpoint
from serving.discovery import observation
from serving.discovery.kubernetes import merge, objects
from serving.discovery.kubernetes.mirror import Mirror
from serving.discovery.kubernetes.settings import KubernetesSettings

_REFUSED_SHOWN = 100


class ClusterState:
    """Services and slices as they are known. Whoever changes a mirror says so with `touch`."""

    def __init__(self, settings: KubernetesSettings) -> None:
        self._merger = merge.Merger(settings.prefer)
        self.services = Mirror(objects.read_service)
        self.slices = Mirror(lambda body: objects.read_slice(body, settings.port_name))
        self._is_stale = True
        self._generation = 0
        self._endpoints: tuple[endpoint.Endpoint, ...] | None = None
        self._refused: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether both resources were listed once, so that what is missing does not exist."""
        return self.services.version is not None and self.slices.version is not None

    def touch(self) -> None:
        """A mirror has changed."""
        self._is_stale = True

    def listing(self, as_of_s: float | None) -> observation.Listing | None:
        """What is served, known to be so at `as_of_s`; None before it is complete."""
        if not self.is_complete:
            return None
        if self._is_stale:
            self._merge()
        return observation.Listing(
            generation=self._generation,
            endpoints=self._endpoints or (),
            as_of_s=as_of_s,
            refused=self._refused,
        )

    def _merge(self) -> None:
        merged = self._merger.merge(self.services.objects.values(), self.slices.objects.values())
        if merged.endpoints != self._endpoints:
            self._generation += 1
            self._endpoints = merged.endpoints
        self._refused = _shortened(
            [f"Service {key}: {why}" for key, why in sorted(self.services.refused.items())]
            + [f"EndpointSlice {key}: {why}" for key, why in sorted(self.slices.refused.items())]
            + list(merged.refused)
        )
        self._is_stale = False


def _shortened(refused: list[str]) -> tuple[str, ...]:
    hidden = len(refused) - _REFUSED_SHOWN
    return (*refused[:_REFUSED_SHOWN], *([f"and {hidden} more"] if hidden > 0 else []))
