"""Whatever a cluster does or says: the same end, each address once, and only good addresses."""

from __future__ import annotations

import contextlib
import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.discovery import errors, observation
from serving.discovery.kubernetes import (
    AddressType,
    KubernetesSettings,
    merge,
    objects,
    replicas,
    wire,
)
from serving.discovery.kubernetes.state import ClusterState
from serving.endpoint import EndpointState
from tests.serving.discovery.kubernetes.build import event, line, member, part, service

HOSTS = st.sampled_from([f"10.0.0.{n}" for n in range(1, 5)])
PODS = st.sampled_from([None, "a", "b", "c"])
CONDITION = st.sampled_from([None, True, False])
ZONES = st.sampled_from([None, "z1", "z2"])

members = st.builds(
    member,
    HOSTS,
    pod=PODS,
    uid=st.sampled_from(["1", "2"]),
    ready=CONDITION,
    serving=CONDITION,
    terminating=CONDITION,
    zone=ZONES,
    hints=st.lists(st.sampled_from(["z1", "z3"]), max_size=1),
)
names = st.sampled_from(["s1", "s2", "s3"])
slice_bodies = st.builds(
    lambda name, of, ends: part(*ends, name=name, of=of),
    names,
    st.sampled_from(["grammar", "late"]),
    st.lists(members, max_size=3),
)
plain_members = st.builds(
    member, HOSTS, pod=PODS, ready=CONDITION, terminating=CONDITION, zone=ZONES
)
two_families = st.builds(
    lambda name, ends, is_six: part(
        *([{**e, "addresses": [e["addresses"][0].replace("10.0.0.", "fd00::")]} for e in ends])
        if is_six
        else ends,
        name=f"{name}-6" if is_six else name,
        family="IPv6" if is_six else "IPv4",
    ),
    names,
    st.lists(members | plain_members, max_size=2),
    st.booleans(),
)
FIELDS = [
    "metadata", "name", "namespace", "labels", "annotations", "resourceVersion", "kind",
    "endpoints", "ports", "port", "addresses", "addressType", "conditions", "ready", "targetRef",
    "hints", "forZones", "zone", objects.MODEL, objects.VERSION, objects.SERVICE_NAME,
]  # fmt: skip
garbage = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 99) | st.text(max_size=3) | HOSTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
SERVICES = (service(), service("late", version="4", created="2026-02-01T00:00:00Z"))


def cluster(*, at: int = 1) -> ClusterState:
    state = ClusterState(KubernetesSettings(namespace="ns"))
    state.services.replace(wire.Page(items=SERVICES, version=str(at)))
    return state


def listing(state: ClusterState) -> observation.Listing:
    state.touch()
    found = state.listing(0.0)
    assert found is not None
    return found


def at(body: dict[str, Any], version: int) -> dict[str, Any]:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version)}}


@given(st.lists(st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), slice_bodies)))
def test_events_come_to_the_same_end_as_a_list(story: list[tuple[str, dict[str, Any]]]) -> None:
    watched, truth = cluster(), {}
    watched.slices.replace(wire.Page(items=(), version="1"))
    for version, (kind, body) in enumerate(story, start=2):
        watched.slices.take(wire.event(line(event(kind, at(body, version)))))
        name = body["metadata"]["name"]
        truth[name] = at(body, version)
        if kind == "DELETED":
            del truth[name]
    listed = cluster()
    listed.slices.replace(wire.Page(items=tuple(truth.values()), version="99"))
    assert listing(watched).endpoints == listing(listed).endpoints


@given(st.lists(slice_bodies, max_size=4))
def test_each_address_and_each_pod_of_a_service_is_listed_once(
    bodies: list[dict[str, Any]],
) -> None:
    state = cluster()
    state.slices.replace(wire.Page(items=tuple(bodies), version="1"))
    endpoints = listing(state).endpoints
    assert len({(e.host, e.port) for e in endpoints}) == len(endpoints)
    for e in endpoints:
        said = [
            state_of
            for known in state.slices.objects.values()
            for m in known.members
            if m.address[0] == e.host
            and known.service.name == ("grammar" if e.version == 3 else "late")
            for state_of in [m.state]
        ]
        assert None not in said, "somebody says that it is down"
        assert e.state is EndpointState.DRAINING or EndpointState.DRAINING not in said


@given(st.lists(st.lists(two_families, max_size=3), max_size=4), st.sampled_from(AddressType))
def test_what_is_remembered_and_the_short_ways_change_no_endpoint(
    story: list[list[dict[str, Any]]], prefer: AddressType
) -> None:
    merger = merge.Merger(prefer)
    known = [objects.read_service(body) for body in SERVICES]
    parts: dict[objects.Key, objects.Slice] = {}
    for bodies in story:
        parts |= {part.key: part for part in (objects.read_slice(b, None) for b in bodies)}
        fast = merger.merge(known, parts.values())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(replicas, "is_plain", lambda _: False)
            assert merge.Merger(prefer).merge(known, parts.values()) == fast


@given(st.lists(slice_bodies, min_size=1, max_size=6), st.data())
def test_events_in_a_wrong_order_never_set_anything_back(
    bodies: list[dict[str, Any]], data: st.DataObject
) -> None:
    state = cluster()
    state.slices.replace(wire.Page(items=(), version="1"))
    told = [at(body, version) for version, body in enumerate(bodies, start=2)]
    for body in data.draw(st.permutations(told * 2)):
        before = int(state.slices.version or 0)
        try:
            state.slices.take(wire.event(line(event("MODIFIED", body))))
        except errors.SourceFailed:
            assert int(state.slices.version or 0) == before
        else:
            assert int(state.slices.version or 0) > before
    for known in state.slices.objects.values():
        same = [b for b in told if b["metadata"]["name"] == known.key.name]
        assert known.version in [b["metadata"]["resourceVersion"] for b in same]


@given(
    st.lists(garbage | slice_bodies, max_size=4),
    st.lists(garbage, max_size=3),
    st.lists(st.tuples(st.sampled_from(["ADDED", "DELETED", "BOOKMARK", "ERROR"]), garbage)),
    st.sampled_from(AddressType),
)
def test_garbage_is_refused_and_never_served(
    parts: list[Any], services: list[Any], said: list[tuple[str, Any]], prefer: AddressType
) -> None:
    state = ClusterState(KubernetesSettings(namespace="ns", prefer=prefer))
    state.services.replace(wire.Page(items=(*services, service()), version="1"))
    state.slices.replace(wire.Page(items=tuple(parts), version="1"))
    for kind, body in said:
        for mirror in (state.services, state.slices):
            with contextlib.suppress(errors.SourceFailed):
                mirror.take(wire.event(line({"type": kind, "object": body})))
    for e in listing(state).endpoints:
        assert str(ipaddress.ip_address(e.host)) == e.host
        assert 0 < e.port < 65_536
        assert (e.model, e.version) == ("grammar", 3)


@given(st.lists(slice_bodies, max_size=4))
def test_a_listing_has_a_new_generation_only_when_its_endpoints_differ(
    bodies: list[dict[str, Any]],
) -> None:
    state = cluster()
    state.slices.replace(wire.Page(items=(), version="1"))
    known = listing(state)
    for version, body in enumerate(bodies, start=2):
        state.slices.take(wire.event(line(event("MODIFIED", at(body, version)))))
        found = listing(state)
        assert (found.generation == known.generation) is (found.endpoints == known.endpoints)
        assert found.generation >= known.generation
        known = found
