"""An API server that lies, stammers or is none: what is served stays good, the fault is named."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from serving.discovery import errors
from serving.discovery.kubernetes import KubernetesSource, Timing
from serving.discovery.kubernetes.access import Material
from tests.serving.discovery.kubernetes.build import (
    ONE,
    bookmark,
    event,
    gone,
    line,
    member,
    part,
    ready,
    service,
    services,
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

HTML = b"<html><body>Please log in</body></html>"


def two(at: int) -> dict[str, Any]:
    return part(member("10.0.0.1", pod="a"), member("10.0.0.2", pod="b"), at=at)


async def hosts(source: KubernetesSource) -> list[str]:
    return ready((await source.list()).endpoints)


@pytest.mark.parametrize(
    "said",
    [
        HTML,
        b"",
        b'{"kind": "EndpointSliceList", "items": [',
        {},
        {"kind": "EndpointSliceList", "metadata": {}, "items": []},
        {"kind": "Status", "metadata": {"resourceVersion": "99"}, "items": []},
        answer(302, HTML, location="http://127.0.0.1:9/login"),
        answer(404, HTML),
        answer(500, HTML),
        answer(200, b"\x1f\x8b nonsense", content_encoding="gzip"),
    ],
)
async def test_what_is_no_list_empties_nothing(cluster: Cluster, said: Any) -> None:
    cluster.lists[SLICES] = [slices(ONE), said]
    cluster.watches[SLICES] = [(gone(),)]
    async with watching(cluster.url) as source:
        await source.changed()
        await until(lambda: source.status().slices.failures > 4)
        assert await hosts(source) == ["10.0.0.1"]
        assert source.status().faults
        cluster.lists[SLICES][:] = [slices(two(20), at=20)]
        cluster.watches[SLICES][:] = [QUIET]
        await until(lambda: source.status().slices.lists > 1)
        assert await hosts(source) == ["10.0.0.1", "10.0.0.2"]


async def test_what_is_no_list_is_never_a_first_listing(cluster: Cluster) -> None:
    cluster.lists[SLICES] = [HTML]
    async with watching(cluster.url) as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await until(lambda: source.status().slices.failures > 1)
        with pytest.raises(errors.SourceFailed, match=r"Please log in.*a login page or a proxy"):
            await source.list()


async def test_a_token_is_not_carried_to_where_a_server_points(cluster: Cluster) -> None:
    cluster.lists[SERVICES] = [answer(302, HTML, location=f"{cluster.url}/elsewhere")]
    async with watching(cluster.url, token=Material(data=b"secret")) as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await until(lambda: source.status().services.failures > 1)
        assert "secret" not in " ".join(source.status().faults)
    assert cluster.paths() == {
        "/api/v1/namespaces/ns/services",
        "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices",
    }


async def test_a_truncated_line_is_not_taken_and_not_lost(cluster: Cluster) -> None:
    whole = line(event("MODIFIED", two(11)))
    cluster.watches[SLICES] = [(whole[:-40],), (whole, *QUIET)]
    async with watching(cluster.url) as source:
        await becomes(source, "10.0.0.1", "10.0.0.2")
    assert [r.params["resourceVersion"] for r in cluster.asked(SLICES, watch=True)] == ["10", "10"]
    assert len(cluster.asked(SLICES, watch=False)) == 1


async def test_a_line_in_pieces_is_one_line(cluster: Cluster) -> None:
    whole = line(event("MODIFIED", two(11)))
    pieces = tuple(whole[at : at + 50] for at in range(0, len(whole), 50))
    cluster.watches[SLICES] = [(*pieces, *QUIET)]
    async with watching(cluster.url) as source:
        await becomes(source, "10.0.0.1", "10.0.0.2")


@pytest.mark.parametrize(
    "said",
    [
        HTML + b"\n",
        b'{"type": "MODIFIED", "object"\n',
        line({"type": "MODIFIED", "object": None}),
        line(event("EXPLODED", two(11))),
        line(event("MODIFIED", {"metadata": {"resourceVersion": "11"}})),
        line(event("MODIFIED", two(3))),
        line(event("DELETED", part(at=9))),
        line(bookmark(3)),
        line(event("ERROR", {"message": "no code"})),
    ],
)
async def test_a_watch_that_makes_no_sense_ends_in_a_new_list(cluster: Cluster, said: Any) -> None:
    late = line(event("MODIFIED", part(at=12)))
    cluster.watches[SLICES] = [(said, late, *QUIET), QUIET]
    cluster.lists[SLICES] = [slices(ONE), slices(two(20), at=20)]
    async with watching(cluster.url) as source:
        await becomes(source, "10.0.0.1", "10.0.0.2")  # what followed is not believed
        await cluster.until_watched(times=2)
    assert cluster.asked(SLICES, watch=True)[1].params["resourceVersion"] == "20"


async def test_older_objects_after_newer_ones_set_nothing_back(cluster: Cluster) -> None:
    cluster.lists[SLICES] = [slices(ONE), slices(two(15), at=15)]
    cluster.watches[SLICES] = [
        (event("MODIFIED", two(15)), event("MODIFIED", {**ONE, **part(at=12)})),
        QUIET,
    ]
    async with watching(cluster.url) as source:
        await source.changed()
        await until(lambda: source.status().slices.lists == 2)
        assert await hosts(source) == ["10.0.0.1", "10.0.0.2"]


async def test_a_list_from_the_past_is_refused_until_it_is_clear_that_it_is_the_truth(
    cluster: Cluster,
) -> None:
    past = slices(part(member("10.0.0.7"), at=3), at=3)
    cluster.lists[SLICES] = [slices(two(9)), past]
    cluster.watches[SLICES] = [(gone(),), QUIET]
    steady = Timing(backoff_s=0.05, backoff_max_s=0.05)  # long enough to be looked at in between
    async with watching(cluster.url, timing=steady) as source:
        await source.changed()
        await until(lambda: source.status().slices.failures == 3)
        assert "lags" in " ".join(source.status().faults)
        assert await hosts(source) == ["10.0.0.1", "10.0.0.2"]
        await becomes(source, "10.0.0.7")
    assert len(cluster.asked(SLICES, watch=False)) == 5


async def test_a_version_out_of_the_blue_is_got_over(cluster: Cluster) -> None:
    cluster.watches[SLICES] = [(bookmark(10**30), event("MODIFIED", two(11))), QUIET]
    cluster.lists[SLICES] = [slices(ONE), slices(two(12), at=12)]
    async with watching(cluster.url) as source:
        await becomes(source, "10.0.0.1", "10.0.0.2")


async def test_a_watch_that_never_brings_anything_is_checked_by_a_list(cluster: Cluster) -> None:
    cluster.watches[SLICES] = [answer(504, b"Too large resource version")] * 3 + [QUIET]
    cluster.lists[SLICES] = [slices(ONE, at=10**30), slices(two(12), at=10**30)]
    async with watching(cluster.url) as source:
        await becomes(source, "10.0.0.1", "10.0.0.2")


async def test_a_server_that_hangs_up_at_once_is_not_asked_without_pause(cluster: Cluster) -> None:
    cluster.watches[SLICES] = [(b"",)]
    patient = Timing(backoff_s=0.04, backoff_max_s=5.0)
    async with watching(cluster.url, timing=patient) as source:
        await source.changed()
        await asyncio.sleep(0.3)
        assert 1 <= len(cluster.asked(SLICES, watch=True)) <= 4


async def test_a_line_above_any_object_is_not_held(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.discovery.kubernetes.api._LINE_BYTES", 10_000)
    cluster.watches[SLICES] = [(b'{"type": "' + b"x" * 20_000, *QUIET), QUIET]
    cluster.lists[SLICES] = [slices(ONE), slices(two(20), at=20)]
    async with watching(cluster.url) as source:
        await becomes(source, "10.0.0.1", "10.0.0.2")
        assert source.status().slices.failures == 1


async def test_a_list_above_any_cluster_is_not_held(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.discovery.kubernetes.api._LIST_BYTES", 10_000)
    cluster.lists[SLICES] = [slices(ONE, "x" * 20_000)]
    async with watching(cluster.url) as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await until(lambda: source.status().slices.failures > 0)
        assert "above 10000 bytes; select fewer" in " ".join(source.status().faults)


async def test_pages_without_end_are_given_up(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("serving.discovery.kubernetes.api._LIST_BYTES", 10_000)
    numbers = itertools.count()
    cluster.lists[SLICES] = [lambda: slices(ONE, more=str(next(numbers)))]
    cluster.lists[SERVICES] = [services(service(), more="same")]
    async with watching(cluster.url) as source:
        with pytest.raises(errors.SourceFailed):
            await source.list()
        await until(lambda: len(source.status().faults) == 2)
        assert "same page" in source.status().faults[0]
        assert "above 10000 bytes" in source.status().faults[1]


async def test_a_list_that_never_ends_is_given_up(cluster: Cluster) -> None:
    cluster.lists[SLICES] = [(line(slices(ONE))[:-30], *QUIET), slices(ONE)]
    brief = Timing(backoff_s=0.002, backoff_max_s=0.01, list_s=0.1)
    async with watching(cluster.url, timing=brief) as source:
        assert ready((await settled(source)).endpoints) == ["10.0.0.1"]
        assert source.status().slices.failures == 1


async def test_garbage_among_good_objects_is_named_and_the_good_are_served(
    cluster: Cluster,
) -> None:
    cluster.lists[SERVICES] = [services(service(), service("odd", version="x"), "text", {})]
    cluster.lists[SLICES] = [
        slices(ONE, part("x", name="b"), part(name="c", family="FQDN"), {"metadata": {"name": 3}})
    ]
    async with watching(cluster.url) as source:
        listing = await settled(source)
    assert ready(listing.endpoints) == ["10.0.0.1"]
    named = "\n".join(listing.refused)
    for what in ("Service ns/odd", "item 2", "item 3", "ns/b, endpoint 0", "ns/c", "FQDN"):
        assert what in named


async def test_many_refusals_are_counted(cluster: Cluster) -> None:
    odd = [service(f"odd-{n}", version="x") for n in range(150)]
    cluster.lists[SERVICES] = [services(service(), *odd)]
    async with watching(cluster.url) as source:
        listing = await settled(source)
    assert len(listing.refused) == 101
    assert listing.refused[-1] == "and 50 more"
    assert ready(listing.endpoints) == ["10.0.0.1"]


async def test_deeply_nested_garbage_is_survived(cluster: Cluster) -> None:
    deep = b'{"a":' * 900 + b"1" + b"}" * 900
    body = line(slices(ONE, {"metadata": "HERE"})).replace(b'"HERE"', deep)
    body = body.replace(b'"10.0.0.1"', b'"10.0.0.1", ' + deep)
    cluster.lists[SLICES] = [body]
    async with watching(cluster.url) as source:
        assert ready((await settled(source)).endpoints) == ["10.0.0.1"]
