"""A field that is wrong costs its endpoint or its object, is named, and costs nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from serving.discovery.kubernetes import AddressType, objects
from serving.endpoint import EndpointState
from tests.serving.discovery.kubernetes.build import DIGEST, member, part, service


def read(body: dict[str, Any], port_name: str | None = None) -> objects.Slice:
    return objects.read_slice(body, port_name)


def test_a_service_says_what_its_replicas_serve() -> None:
    found = objects.read_service(service())
    assert (found.model, found.version, found.digest) == ("grammar", 3, DIGEST)
    assert str(found.key) == "ns/grammar"


def test_an_annotation_is_believed_before_a_label() -> None:
    body = service(version="3")
    body["metadata"]["annotations"]["liftlock.io/version"] = "4"
    assert objects.read_service(body).version == 4


def test_a_service_without_a_digest_has_none() -> None:
    body = service()
    body["metadata"]["annotations"] = None
    assert objects.read_service(body).digest == ""


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"model": None}, r"no liftlock\.io/model"),
        ({"model": "Not A Name"}, "model name"),
        ({"model": 3}, r"liftlock\.io/model is not a text"),
        ({"version": None}, r"liftlock\.io/version is not a whole number"),
        ({"version": "0"}, "whole number"),
        ({"version": "v3"}, "whole number"),
        ({"version": "٣"}, "whole number"),
        ({"version": "9" * 400}, "whole number"),
        ({"digest": "sha256:abc"}, r"liftlock\.io/digest is not sha256"),
        ({"digest": ["x"]}, "is not a text"),
    ],
)
def test_a_service_with_a_bad_label_says_which(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        objects.read_service(service(**wrong))


@pytest.mark.parametrize(
    ("ready", "serving", "terminating", "state"),
    [
        (True, None, None, EndpointState.READY),
        (None, None, None, EndpointState.READY),
        (True, True, False, EndpointState.READY),
        (False, True, True, EndpointState.DRAINING),
        (False, False, True, None),
        (False, None, None, None),
        (False, True, None, None),
        # a Service that publishes addresses that are not ready says that all are
        (True, False, False, None),
        (True, True, True, EndpointState.DRAINING),
        (True, False, True, None),
    ],
)
def test_conditions_become_a_state(
    ready: bool | None, serving: bool | None, terminating: bool | None, state: EndpointState | None
) -> None:
    body = part(member("10.0.0.1", ready=ready, serving=serving, terminating=terminating))
    assert read(body).members[0].state is state


def test_an_endpoint_without_conditions_is_ready() -> None:
    assert read(part({"addresses": ["10.0.0.1"]})).members[0].state is EndpointState.READY


@pytest.mark.parametrize(
    ("garbage", "named"),
    [
        ("text", "it is not an object"),
        ({}, "no address"),
        ({"addresses": "10.0.0.1"}, "addresses is not a list"),
        ({"addresses": [7]}, "address is not a text"),
        (member("10.0.0.1.2"), "no IPv4 address"),
        (member("fd00::1"), "no IPv4 address"),
        (member("10.0.0.01"), "no IPv4 address"),
        (member("127.0.0.1"), "cannot be that of a pod"),
        (member("169.254.169.254"), "cannot be that of a pod"),
        (member("0.0.0.0"), "cannot be that of a pod"),
        (member("224.0.0.1"), "cannot be that of a pod"),
        (member("10.0.0.2", ready="yes"), "condition ready is not true or false"),
        (member("10.0.0.2", zone={"a": 1}), "zone is not a text"),
        (member("10.0.0.2", zone="a\nb"), "zone is not a label"),
        ({**member("10.0.0.2"), "conditions": [1]}, "conditions is not an object"),
        ({**member("10.0.0.2"), "hints": {"forZones": [3]}}, "zone hint is not an object"),
        ({**member("10.0.0.2"), "targetRef": {"kind": "Pod", "name": "../x"}}, "pod's name"),
    ],
)
def test_a_bad_endpoint_is_left_out_and_named_and_its_neighbors_stay(
    garbage: Any, named: str
) -> None:
    found = read(part(member("10.0.0.9"), garbage))
    assert [m.address[0] for m in found.members] == ["10.0.0.9"]
    assert len(found.faults) == 1
    assert "endpoint 1" in found.faults[0]
    assert named in found.faults[0]


def test_many_bad_endpoints_are_counted() -> None:
    found = read(part(*["x"] * 50, member("10.0.0.9")))
    assert len(found.members) == 1
    assert found.faults[-1] == "47 more endpoints"
    assert len(found.faults) == 4


@pytest.mark.parametrize("address", ["::1", "fe80::1", "fd00::1%eth0", "::ffff:127.0.0.1", "::"])
def test_ipv6_addresses_that_lead_elsewhere_are_left_out(address: str) -> None:
    assert read(part(member(address), family="IPv6")).members == ()


def test_an_ipv6_address_has_one_spelling() -> None:
    body = part(member("FD00:0:0::00AB"), family="IPv6")
    assert read(body).members[0].address[0] == "fd00::ab"
    assert read(body).address_type is AddressType.IPV6


@pytest.mark.parametrize(
    ("ports", "wanted", "port"),
    [
        ([{"port": 80}], None, 80),
        ([{"name": "http", "port": 80}, {"name": "metrics", "port": 81}], "metrics", 81),
        ([{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}], None, 80),
    ],
)
def test_the_port_is_the_only_one_or_the_one_named(
    ports: Any, wanted: str | None, port: int
) -> None:
    found = read(part(member("10.0.0.1"), ports=ports), wanted)
    assert found.members[0].address == ("10.0.0.1", port)


@pytest.mark.parametrize(
    ("ports", "wanted", "named"),
    [
        (None, None, "choose one by name"),
        ([{"name": "a", "port": 1}, {"name": "b", "port": 2}], None, "it has 'a, b'"),
        ([{"name": "a", "port": 1}], "http", "no TCP port named 'http'"),
        ([{"name": "http", "port": 1, "protocol": "UDP"}], "http", "no TCP port"),
        ([{"name": "http"}], "http", "its port is not 1 to 65535"),  # null means all ports
        ([{"port": 0}], None, "its port is not"),
        ([{"port": 65536}], None, "its port is not"),
        ([{"port": True}], None, "its port is not"),
        ([{"port": "80"}], None, "its port is not"),
        (["x"], None, "a port is not an object"),
        ("x", None, "ports is not a list"),
    ],
)
def test_a_slice_without_that_port_is_refused(ports: Any, wanted: str | None, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read(part(member("10.0.0.1"), ports=ports), wanted)


def test_a_slice_without_endpoints_needs_no_port() -> None:
    assert read({**part(ports=None), "endpoints": None}, "http").members == ()


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("addressType", "FQDN", "is not IPv4 or IPv6"),
        ("addressType", None, "is not IPv4 or IPv6"),
        ("addressType", {}, "is not IPv4 or IPv6"),
        ("endpoints", "many", "endpoints is not a list"),
        ("endpoints", {"a": 1}, "endpoints is not a list"),
        ("metadata", None, "its namespace is not a text"),
        ("metadata", {"namespace": "ns", "name": "../secrets"}, "its name is not a name"),
        ("metadata", {"namespace": "ns", "name": "a", "labels": []}, "labels is not an object"),
        ("metadata", {"namespace": "ns", "name": "a"}, "service-name is not a text"),
    ],
)
def test_a_slice_that_is_wrong_as_a_whole_says_why(field: str, value: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        read({**part(member("10.0.0.1")), field: value})
