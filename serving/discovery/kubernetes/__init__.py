"""Kubernetes Services and EndpointSlices as a source of endpoints.

source = kubernetes_source("models", port_name="http")
await source.changed()  # the first lists are complete
listing = await source.list()
"""

from serving.discovery.kubernetes.settings import AddressType, KubernetesSettings, Timing
from serving.discovery.kubernetes.source import (
    KubernetesSource,
    KubernetesStatus,
    kubernetes_source,
)

__all__ = [
    "AddressType",
    "KubernetesSettings",
    "KubernetesSource",
    "KubernetesStatus",
    "Timing",
    "kubernetes_source",
]
