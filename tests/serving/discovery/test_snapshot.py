"""From endpoints and weights to clusters and routes, whatever the input looks like."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.discovery import snapshot, traffic
from serving.endpoint import Endpoint, EndpointState


def replica(
    version: int,
    port: int = 9000,
    *,
    host: str = "127.0.0.1",
    state: EndpointState = EndpointState.READY,
) -> Endpoint:
    return Endpoint(
        replica_id=f"{version}-{host}-{port}",
        model="m",
        version=version,
        digest="d",
        host=host,
        port=port,
        state=state,
    )


def plan_of(*weights: tuple[int, int]) -> traffic.TrafficPlan:
    pairs = tuple(traffic.Weight(version=v, percent=p) for v, p in weights)
    return traffic.TrafficPlan(epoch=4, models=(traffic.ModelTraffic(model="m", weights=pairs),))


def mirrored(plan: traffic.TrafficPlan, *versions: int) -> traffic.TrafficPlan:
    return traffic.mirror(plan, "m", dict.fromkeys(versions, 0.25), epoch=4)


def copies(*args: object, plan: traffic.TrafficPlan) -> list[int]:
    built = snapshot.build(args, plan)  # type: ignore[arg-type]
    return sorted(mirror.key.version for mirror in built.routes[0].mirrors)


def shares(*args: object, plan: traffic.TrafficPlan) -> dict[int, int]:
    built = snapshot.build(args, plan)  # type: ignore[arg-type]
    return {share.key.version: share.weight for share in built.routes[0].shares}


def test_ready_replicas_form_a_sorted_cluster_without_repetition() -> None:
    built = snapshot.build([replica(1, 9002), replica(1, 9001), replica(1, 9002)], None)
    assert built.addresses(snapshot.ClusterKey(model="m", version=1)) == (
        snapshot.Address(host="127.0.0.1", port=9001),
        snapshot.Address(host="127.0.0.1", port=9002),
    )


def test_a_draining_replica_gets_nothing_but_its_cluster_stays() -> None:
    built = snapshot.build([replica(1, state=EndpointState.DRAINING)], plan_of((1, 100)))
    assert built.clusters[0].addresses == ()
    assert built.routes[0].shares == ()


def test_weights_are_taken_as_planned_when_every_version_can_answer() -> None:
    assert shares(replica(1), replica(2), plan=plan_of((1, 90), (2, 10))) == {1: 90, 2: 10}


def test_the_share_of_a_version_without_replicas_goes_to_the_others() -> None:
    plan = plan_of((1, 60), (2, 30), (3, 10))
    assert shares(replica(1), replica(3), plan=plan) == {1: 60, 3: 10}


def test_standbys_answer_only_when_nobody_with_weight_can() -> None:
    plan = plan_of((1, 0), (2, 100))
    assert shares(replica(1), replica(2), plan=plan) == {2: 100}
    assert shares(replica(1), plan=plan) == {1: 1}


def test_a_version_outside_the_plan_never_answers() -> None:
    assert shares(replica(1), plan=plan_of((2, 100))) == {}


def test_only_mirrored_versions_with_replicas_get_copies_but_all_have_a_cluster() -> None:
    plan = mirrored(plan_of((1, 100)), 2, 3)
    built = snapshot.build([replica(1), replica(2, 9001)], plan)
    second, third = (snapshot.ClusterKey(model="m", version=v) for v in (2, 3))
    assert built.fractions() == {second: 0.25}
    assert built.mirrored == (second, third)
    assert {cluster.key for cluster in built.clusters} >= {second, third}
    assert [share.key.version for share in built.routes[0].shares] == [1]


def test_a_version_that_must_answer_alone_is_not_burdened_with_copies_too() -> None:
    plan = mirrored(plan_of((1, 90), (2, 10)), 2)
    assert copies(replica(1), replica(2), plan=plan) == [2]
    assert copies(replica(2), plan=plan) == []
    assert copies(replica(3), plan=plan) == []


def test_without_a_plan_there_are_clusters_and_no_routes() -> None:
    built = snapshot.build([replica(1)], None)
    assert built.epoch is None
    assert built.routes == ()
    assert len(built.clusters) == 1


def test_retained_clusters_exist_without_endpoints() -> None:
    key = snapshot.ClusterKey(model="m", version=9)
    built = snapshot.build([], None, [key])
    assert built.clusters == (snapshot.Cluster(key=key, addresses=()),)


@pytest.mark.parametrize(
    "bad",
    [
        replica(1, host="localhost"),
        replica(1, host=""),
        replica(1, host="127.0.0.1; drop"),
        replica(1, port=0),
        replica(1, port=70_000),
        replica(0),
    ],
)
def test_a_replica_that_publishes_nonsense_is_left_out_alone(bad: Endpoint) -> None:
    built = snapshot.build([bad, replica(2, 9001)], plan_of((2, 100)))
    assert [len(cluster.addresses) for cluster in built.clusters] == [1]
    assert len(built.refused) == 1
    assert repr(bad.replica_id) in built.refused[0]


def test_a_cluster_outlives_its_last_use_by_the_lingering_time() -> None:
    key = snapshot.ClusterKey(model="m", version=1)
    seen = snapshot.retain({}, [key], now_s=0.0, linger_s=10.0)
    seen = snapshot.retain(seen, [], now_s=9.0, linger_s=10.0)
    assert key in seen
    seen = snapshot.retain(seen, [key], now_s=9.5, linger_s=10.0)
    assert key in snapshot.retain(seen, [], now_s=19.0, linger_s=10.0)
    assert key not in snapshot.retain(seen, [], now_s=20.0, linger_s=10.0)


@given(st.text(min_size=1), st.integers(1, 10**9))
def test_a_cluster_is_found_again_by_its_name(model: str, version: int) -> None:
    key = snapshot.ClusterKey(model=model, version=version)
    assert snapshot.ClusterKey.parse(key.name) == key
    with pytest.raises(ValueError, match="is not the name"):
        snapshot.ClusterKey.parse(key.mirror_name)


@pytest.mark.parametrize("name", ["", "grammar", "@v1", "grammar@v", "grammar@vx"])
def test_foreign_names_are_no_clusters_of_ours(name: str) -> None:
    with pytest.raises(ValueError, match="is not the name"):
        snapshot.ClusterKey.parse(name)


@given(
    st.lists(
        st.builds(
            replica,
            st.integers(0, 4),
            st.integers(-1, 70_000),
            host=st.sampled_from(["127.0.0.1", "::1", "x"]),
            state=st.sampled_from(EndpointState),
        )
    ),
    st.sampled_from(
        [
            mirrored(plan_of((1, 100)), 2, 3),
            mirrored(plan_of((1, 50), (2, 50)), 1, 2),
            mirrored(plan_of((1, 0), (2, 100)), 1, 3),
        ]
    ),
)
def test_a_route_never_names_an_empty_cluster(
    endpoints: list[Endpoint], plan: traffic.TrafficPlan
) -> None:
    built = snapshot.build(endpoints, plan)
    for route in built.routes:
        assert all(share.weight > 0 for share in route.shares)
        assert all(built.addresses(share.key) for share in route.shares)
        assert all(built.addresses(mirror.key) for mirror in route.mirrors)
        assert len(route.shares) != 1 or route.shares[0].key not in {m.key for m in route.mirrors}
