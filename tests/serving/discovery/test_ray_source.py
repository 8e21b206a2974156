"""The reader of the Ray directory against a real Ray and the real directory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from serving import directory, directory_state
from serving.discovery import errors, observation, ray_source
from serving.endpoint import Endpoint, EndpointState

pytestmark = pytest.mark.slow

REPLICA = Endpoint(
    replica_id="r",
    model="grammar",
    version=2,
    digest="d",
    host="127.0.0.1",
    port=9000,
    state=EndpointState.READY,
)


@pytest.fixture
def ray_address() -> Iterator[str]:
    import ray

    context = ray.init(num_cpus=1, include_dashboard=False, namespace=directory.NAMESPACE)
    yield context.address_info["address"]
    ray.shutdown()


async def first_listing(source: ray_source.ChildSource) -> observation.Listing:
    """Importing Ray takes seconds, and a young directory refuses to list."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await source.list()
            except errors.SourceFailed:
                await asyncio.sleep(0.2)


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::FutureWarning")
async def test_endpoints_and_acknowledgements_pass_through(ray_address: str) -> None:
    import ray

    settings = directory_state.DirectorySettings(heartbeat_timeout_s=1.0)
    actor = await asyncio.to_thread(directory.ensure, settings)

    async def heartbeats() -> None:
        while True:
            await asyncio.to_thread(ray.get, actor.publish.remote(REPLICA))
            await asyncio.sleep(0.2)

    source = ray_source.ray_directory(ray_address)
    beating = asyncio.create_task(heartbeats())
    try:
        listing = await first_listing(source)
        assert listing.endpoints == (REPLICA,)
        await source.ack("edge-1", listing.generation)
        acked = await asyncio.to_thread(ray.get, actor.acked.remote())
        assert acked == {"edge-1": listing.generation}
    finally:
        beating.cancel()
        await source.close()
