"""A source that watches: what it asks the API server for, and what it makes of the answers."""

from __future__ import annotations

import asyncio

import kmock as km
import pytest

from serving.discovery import errors
from serving.discovery.kubernetes import KubernetesSettings, Timing
from serving.endpoint import EndpointState
from tests.serving.discovery.kubernetes.build import (
    ONE,
    TWO,
    bookmark,
    event,
    gone,
    line,
    member,
    part,
    ready,
    service,
    slices,
)
from tests.serving.discovery.kubernetes.cluster import (
    QUIET,
    SERVICES,
    SLICES,
    Cluster,
    answer,
    becomes,
    settled,
    until,
    watching,
)


async def test_consumers_are_told_when_the_first_lists_are_complete(cluster: Cluster) -> None:
    slow = asyncio.Event()

    async def wait() -> None:
        await slow.wait()

    cluster.lists[SLICES] = [(wait, line(slices(ONE)))]
    async with watching(cluster.url) as source:
        told = asyncio.create_task(source.changed())
        await until(lambda: source.status().services.lists == 1)
        with pytest.raises(errors.SourceFailed, match="on their way"):
            await source.list()
        assert not told.done()
        assert not source.status().is_complete
        slow.set()
        await told
        listing = await source.list()
        assert ready(listing.endpoints) == ["10.0.0.1"]
        assert listing.endpoints[0].model == "grammar"
        assert source.status().is_complete


async def test_it_asks_for_one_namespace_and_selector_and_for_bookmarks(cluster: Cluster) -> None:
    cluster.lists[SLICES] = [slices(ONE, at=77)]
    async with watching(cluster.url) as source:
        await source.changed()
        await cluster.until_watched()
    listed, watched = cluster.asked(SLICES, watch=False)[0], cluster.asked(SLICES, watch=True)[0]
    assert listed.params == {"labelSelector": "liftlock.io/model", "limit": "500"}
    assert 300 <= int(watched.params.pop("timeoutSeconds")) <= 451
    assert watched.params == {
        "labelSelector": "liftlock.io/model",
        "watch": "true",
        "allowWatchBookmarks": "true",
        "resourceVersion": "77",
    }


async def test_an_event_wakes_the_consumers(cluster: Cluster) -> None:
    async with watching(cluster.url) as source:
        first = await settled(source)
        await cluster.until_watched()
        waiting = [asyncio.create_task(settled(source, first.generation)) for _ in range(3)]
        cluster.say(SLICES, event("MODIFIED", TWO))
        for listing in await asyncio.gather(*waiting):
            assert ready(listing.endpoints) == ["10.0.0.1", "10.0.0.2"]


async def test_a_pod_drains_and_goes(cluster: Cluster) -> None:
    async with watching(cluster.url) as source:
        known = await settled(source)
        await cluster.until_watched()
        leaving = member("10.0.0.1", pod="a", ready=False, serving=True, terminating=True)
        cluster.say(SLICES, event("MODIFIED", part(leaving, at=11)))
        known = await settled(source, known.generation)
        assert [e.state for e in known.endpoints] == [EndpointState.DRAINING]
        cluster.say(SLICES, event("MODIFIED", part(at=12)))
        assert (await settled(source, known.generation)).endpoints == ()


async def test_a_service_that_changes_its_version_takes_its_endpoints_along(
    cluster: Cluster,
) -> None:
    async with watching(cluster.url) as source:
        known = await settled(source)
        await cluster.until_watched(SERVICES)
        cluster.say(SERVICES, event("MODIFIED", service(version="4", at=11)))
        known = await settled(source, known.generation)
        assert [e.version for e in known.endpoints] == [4]
        cluster.say(SERVICES, event("MODIFIED", service(version="four", at=12)))
        known = await settled(source, known.generation)
        assert known.endpoints == ()
        assert known.refused == (
            "Service ns/grammar: its liftlock.io/version is not a whole number from 1: 'four'",
        )


async def test_an_event_that_changes_no_endpoint_has_no_generation(cluster: Cluster) -> None:
    async with watching(cluster.url) as source:
        known = await settled(source)
        await cluster.until_watched()
        cluster.say(
            SLICES,
            event("MODIFIED", {**ONE, "metadata": {**ONE["metadata"], "resourceVersion": "12"}}),
        )
        await until(lambda: source.status().slices.events == 1)
        assert (await source.list()).generation == known.generation


async def test_the_port_is_chosen_by_name(cluster: Cluster) -> None:
    ports = ({"name": "metrics", "port": 9}, {"name": "http", "port": 8080})
    cluster.lists[SLICES] = [slices(part(member("10.0.0.1"), ports=ports))]
    named = KubernetesSettings(namespace="ns", port_name="http")
    async with watching(cluster.url, settings=named) as source:
        assert [e.port for e in (await settled(source)).endpoints] == [8080]
    async with watching(cluster.url) as source:
        listing = await settled(source)
        assert listing.endpoints == ()
        assert "choose one by name" in listing.refused[0]


async def test_every_page_of_a_list_is_read(cluster: Cluster) -> None:
    other = part(member("10.0.0.2"), name="grammar-b")
    cluster.lists[SLICES] = [slices(ONE, more="next"), slices(other)]
    async with watching(cluster.url) as source:
        assert ready((await settled(source)).endpoints) == ["10.0.0.1", "10.0.0.2"]
    assert cluster.asked(SLICES, watch=False)[1].params["continue"] == "next"


async def test_a_watch_goes_on_from_the_last_version_when_it_ends(cluster: Cluster) -> None:
    cluster.watches[SLICES] = [(event("MODIFIED", TWO), bookmark(50)), QUIET]
    async with watching(cluster.url) as source:
        await source.changed()
        await cluster.until_watched(times=2)
        assert ready((await source.list()).endpoints) == ["10.0.0.1", "10.0.0.2"]
    assert cluster.asked(SLICES, watch=True)[1].params["resourceVersion"] == "50"
    assert len(cluster.asked(SLICES, watch=False)) == 1


@pytest.mark.parametrize("said", [(gone(),), answer(410, {"kind": "Status", "code": 410})])
async def test_a_version_that_is_gone_is_listed_anew(cluster: Cluster, said: object) -> None:
    cluster.lists[SLICES] = [slices(ONE), slices(TWO, at=90)]
    cluster.watches[SLICES] = [said, QUIET]
    async with watching(cluster.url) as source:
        await becomes(source, "10.0.0.1", "10.0.0.2")
        await cluster.until_watched(times=2)
    assert cluster.asked(SLICES, watch=True)[1].params["resourceVersion"] == "90"


async def test_what_was_deleted_while_nobody_watched_is_gone_after_the_new_list(
    cluster: Cluster,
) -> None:
    cluster.lists[SLICES] = [slices(TWO), slices(part(member("10.0.0.2"), at=80), at=90)]
    cluster.watches[SLICES] = [(gone(),), QUIET]
    async with watching(cluster.url) as source:
        await becomes(source, "10.0.0.2")


async def test_a_watch_that_says_nothing_is_opened_anew(cluster: Cluster) -> None:
    cluster.watches[SLICES] = [QUIET, (event("MODIFIED", TWO), *QUIET)]
    quiet = Timing(backoff_s=0.002, backoff_max_s=0.01, inactivity_s=0.05)
    async with watching(cluster.url, timing=quiet) as source:
        await becomes(source, "10.0.0.1", "10.0.0.2")
    assert cluster.asked(SLICES, watch=True)[1].params["resourceVersion"] == "10"
    assert len(cluster.asked(SLICES, watch=False)) == 1


async def test_a_watch_that_is_not_ended_as_asked_is_ended(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.discovery.kubernetes.api._END_S", -0.95)
    brief = Timing(backoff_s=0.002, backoff_max_s=0.01, watch_s=0.01)
    async with watching(cluster.url, timing=brief) as source:
        await source.changed()
        await until(lambda: source.status().slices.failures > 0)
        assert "did not end a watch" in " ".join(source.status().faults)


async def test_closing_ends_the_watch_and_those_who_wait(cluster: Cluster) -> None:
    async with watching(cluster.url) as source:
        known = await settled(source)
        waiting = asyncio.create_task(source.changed(known.generation))
        await asyncio.sleep(0)
        await source.ack("edge", known.generation)
        await source.close()
        with pytest.raises(errors.SourceFailed, match="closed"):
            await waiting
        with pytest.raises(errors.SourceFailed, match="closed"):
            await source.list()
    left = [t for t in asyncio.all_tasks() if t.get_name().startswith("kubernetes-")]
    assert left == []


async def test_a_fault_of_our_own_does_not_end_the_watching(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.watches[SLICES] = [(gone(),), QUIET]
    async with watching(cluster.url) as source:
        mirror = source._state.slices
        known = await settled(source)
        replace, calls = mirror.replace, []

        def broken(page: object) -> None:
            calls.append(page)
            if len(calls) < 3:
                raise RuntimeError("a bug")
            replace(page)  # type: ignore[arg-type]

        monkeypatch.setattr(mirror, "replace", broken)
        cluster.lists[SLICES] = [slices(TWO, at=20)]
        assert len((await settled(source, known.generation)).endpoints) == 2


async def test_every_namespace_is_watched_where_none_is_named(kmock: km.KubernetesEmulator) -> None:
    """Against kmock's own emulation, whose versions cannot be compared."""
    kinds = km.resource("v1/services"), km.resource("discovery.k8s.io/v1/endpointslices")
    for kind in kinds:
        kmock.resources[kind] = {}
    kmock.objects[kinds[0], "ns", "grammar"] = service()
    anywhere = KubernetesSettings(namespace=None)
    async with watching(str(kmock.url), settings=anywhere) as source:
        known = await settled(source)
        assert known.endpoints == ()
        await until(lambda: source.status().slices.watches == 1)
        path = "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices"
        await kmock.post(path, json=ONE)
        known = await settled(source, known.generation)
        assert ready(known.endpoints) == ["10.0.0.1"]
        await kmock.delete(f"{path}/grammar-a")
        assert (await settled(source, known.generation)).endpoints == ()
