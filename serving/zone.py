"""The availability zone of this node, as Ray knows it.

Ray takes it from RAY_NODE_ZONE in the environment of the node, which KubeRay sets from the node's
`topology.kubernetes.io/zone`. Serve's own notion of zones stays empty without a cloud plugin, so
replicas tell theirs in their metadata.
"""

from __future__ import annotations

_LABEL = "ray.io/availability-zone"


def local() -> str | None:
    """The zone's name; None where the node has none. Call it in a process on a cluster."""
    import ray

    found = ray.get_runtime_context().get_node_labels().get(_LABEL)
    return str(found) if found else None
