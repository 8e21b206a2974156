"""Several slices and Services become endpoints: each replica once, each address once."""

from __future__ import annotations

from typing import Any

import pytest

from serving.discovery.kubernetes import AddressType, merge, objects
from serving.endpoint import Endpoint, EndpointState
from tests.serving.discovery.kubernetes.build import member, part, ready, service

READY, DRAINING = EndpointState.READY, EndpointState.DRAINING


def merged(
    *bodies: dict[str, Any],
    services: tuple[dict[str, Any], ...] = (service(),),
    prefer: AddressType = AddressType.IPV4,
) -> merge.Merged:
    """The same, whatever order the objects come in."""
    read = [objects.read_service(body) for body in services]
    parts = [objects.read_slice(body, None) for body in bodies]
    merger = merge.Merger(prefer)
    found = merger.merge(read, parts)
    for again in (merger, merge.Merger(prefer)):
        assert again.merge(read[::-1], parts[::-1]) == found
    return found


def zones(endpoints: tuple[Endpoint, ...]) -> list[str | None]:
    return [e.zone for e in endpoints]


def test_the_slices_of_a_service_are_merged() -> None:
    found = merged(
        part(member("10.0.0.2", pod="b", zone="z1")),
        part(member("10.0.0.1", pod="a"), name="grammar-b"),
        part(member("10.0.0.9", pod="x"), name="other-a", of="other"),
    )
    first, second = found.endpoints
    assert (first.host, first.port, first.replica_id) == ("10.0.0.1", 8000, "ns/a")
    assert (second.model, second.version, second.zone) == ("grammar", 3, "z1")
    assert found.refused == ()


def test_an_endpoint_in_two_slices_is_listed_once() -> None:
    one = member("10.0.0.1", pod="a", uid="u")
    found = merged(part(one), part(one, one, name="grammar-b", at=2))
    assert ready(found.endpoints) == ["10.0.0.1"]


@pytest.mark.parametrize("pod", ["a", None])
def test_where_slices_contradict_each_other_the_worst_counts(pod: str | None) -> None:
    well = member("10.0.0.1", pod=pod)
    leaving = member("10.0.0.1", pod=pod, ready=False, serving=True, terminating=True)
    down = member("10.0.0.1", pod=pod, ready=False)
    assert merged(part(well), part(leaving, name="b")).endpoints[0].state is DRAINING
    assert merged(part(well), part(leaving, name="b"), part(down, name="c")).endpoints == ()


def test_an_address_that_two_pods_have_is_listed_once() -> None:
    found = merged(part(member("10.0.0.1", pod="b"), member("10.0.0.1", pod="a")))
    assert [e.replica_id for e in found.endpoints] == ["ns/a"]


def test_a_pod_that_came_back_with_another_address_has_the_one_written_last() -> None:
    old = part(member("10.0.0.1", pod="a", uid="u"), name="grammar-a", at=9)
    new = part(member("10.0.0.2", pod="a", uid="u"), name="grammar-b", at=10)
    assert ready(merged(old, new).endpoints) == ["10.0.0.2"]


def test_a_pod_of_the_same_name_and_another_uid_is_another_replica() -> None:
    found = merged(part(member("10.0.0.1", pod="a", uid="1"), member("10.0.0.2", pod="a", uid="2")))
    assert len(found.endpoints) == 2


@pytest.mark.parametrize(
    ("prefer", "hosts"),
    [(AddressType.IPV4, ["10.0.0.1", "fd00::2"]), (AddressType.IPV6, ["fd00::1", "fd00::2"])],
)
def test_a_dual_stack_pod_is_listed_once_under_the_preferred_family(
    prefer: AddressType, hosts: list[str]
) -> None:
    four = part(member("10.0.0.1", pod="a", uid="1"), at=5)
    six = part(
        member("fd00::1", pod="a", uid="1"),
        member("fd00::2", pod="b", uid="2"),  # has this family alone
        name="grammar-six",
        family="IPv6",
        at=9,
    )
    assert ready(merged(four, six, prefer=prefer).endpoints) == hosts


def test_a_dual_stack_pod_that_leaves_in_one_family_leaves() -> None:
    four = part(member("10.0.0.1", pod="a", uid="1"))
    six = part(
        member("fd00::1", pod="a", uid="1", ready=False, serving=True, terminating=True),
        name="grammar-six",
        family="IPv6",
    )
    assert merged(four, six).endpoints[0].state is DRAINING


def test_addresses_of_no_pod_are_taken_from_one_family() -> None:
    four, six = part(member("10.0.0.1")), part(member("fd00::1"), name="six", family="IPv6")
    assert ready(merged(four, six).endpoints) == ["10.0.0.1"]
    assert ready(merged(six).endpoints) == ["fd00::1"]
    assert merged(four).endpoints[0].replica_id == "ns/grammar/10.0.0.1:8000"


def test_hints_count_when_every_ready_endpoint_has_one() -> None:
    hinted = member("10.0.0.1", zone="a", hints=["b"])
    among = member("10.0.0.2", zone="c", hints=["b", "c"])
    leaving = member("10.0.0.3", zone="d", ready=False, serving=True, terminating=True)
    assert zones(merged(part(hinted, among, leaving)).endpoints) == ["b", "c", "d"]


def test_hints_do_not_count_when_one_is_missing() -> None:
    hinted = member("10.0.0.1", zone="a", hints=["b"])
    assert zones(merged(part(hinted, member("10.0.0.2", zone="c"))).endpoints) == ["a", "c"]


def test_hints_stop_to_count_in_slices_that_did_not_change() -> None:
    first = objects.read_slice(part(member("10.0.0.1", zone="a", hints=["b"])), None)
    merger, known = merge.Merger(AddressType.IPV4), [objects.read_service(service())]
    for hints, zone in ((["c"], "b"), ([], "a"), (["c"], "b")):
        second = objects.read_slice(part(member("10.0.0.2", hints=hints), name="b"), None)
        assert merger.merge(known, [first, second]).endpoints[0].zone == zone


def test_a_second_service_for_the_same_version_adds_nothing_twice() -> None:
    found = merged(
        part(member("10.0.0.1", pod="a")),
        part(member("10.0.0.1", pod="a"), member("10.0.0.2", pod="b"), name="h-a", of="headless"),
        services=(service(), service("headless")),
    )
    assert ready(found.endpoints) == ["10.0.0.1", "10.0.0.2"]
    assert found.refused == ()


def test_an_address_belongs_to_the_service_that_was_there_first() -> None:
    late = service("late", version="4", created="2026-02-01T00:00:00Z")
    found = merged(
        part(member("10.0.0.1")),
        part(member("10.0.0.1"), member("10.0.0.2"), name="late-a", of="late"),
        services=(late, service()),
    )
    assert [(e.host, e.version) for e in found.endpoints] == [("10.0.0.1", 3), ("10.0.0.2", 4)]
    assert len(found.refused) == 1
    assert "Service ns/late" in found.refused[0]
    assert "by Service ns/grammar" in found.refused[0]


def test_a_version_has_one_digest() -> None:
    late = service("late", digest="sha256:" + "b" * 64, created="2026-02-01T00:00:00Z")
    found = merged(
        part(member("10.0.0.1")),
        part(member("10.0.0.2"), name="late-a", of="late"),
        services=(late, service()),
    )
    assert ready(found.endpoints) == ["10.0.0.1"]
    assert "Service ns/late" in found.refused[0]


def test_bad_endpoints_are_named_with_their_slice() -> None:
    assert merged(part("x")).refused == (
        "EndpointSlice ns/grammar-a, endpoint 0: it is not an object: 'x'",
    )
