"""A real Ray for the tests of a module; one at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from serving.cluster import RayCluster


@pytest.fixture(scope="module")
def ray_cluster(request: pytest.FixtureRequest) -> Iterator[RayCluster]:
    """With as many CPUs as the module says under RAY_CPUS."""
    import ray
    from ray import serve

    ray.init(
        num_cpus=getattr(request.module, "RAY_CPUS", 4), include_dashboard=False,
        namespace="liftlock", log_to_driver=False, object_store_memory=100 * 2**20,
    )  # fmt: skip
    try:
        yield RayCluster.connect(ray.get_runtime_context().gcs_address)
    finally:
        serve.shutdown()
        ray.shutdown()
