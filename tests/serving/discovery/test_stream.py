"""What one Envoy is told, in which order, whatever it answers; without gRPC and without Envoy."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serving.discovery import errors, stream, traffic
from serving.discovery import snapshot as discovery
from serving.discovery.catalog import Catalog, Encoder, Kind, Resource
from serving.discovery.stream import Stream
from serving.discovery.subscription import Request, Response
from serving.edge import config, resources
from tests.serving.discovery.running import replica

CLUSTERS, ENDPOINTS, ROUTES = (kind.type_url for kind in Kind)
NO_SNAPSHOT = discovery.Snapshot(epoch=None, clusters=(), routes=())


def catalog(number: int, replicas: dict[str, int], *routed: str) -> Catalog:
    """Clusters with so many replicas each, and one route table that leads to some of them."""
    clusters = {n: Resource(name=n, version="c", part=b"") for n in replicas}
    endpoints = {
        name: Resource(name=name, version=f"e{count}", part=b"", empty=count == 0)
        for name, count in replicas.items()
    }
    needs = frozenset(routed)
    table = Resource(name="edge", version=f"r{sorted(needs)}", part=b"", needs=needs)
    return Catalog(
        number=number,
        generation=number,
        snapshot=NO_SNAPSHOT,
        resources={
            Kind.CLUSTERS: clusters,
            Kind.ENDPOINTS: endpoints,
            Kind.ROUTES: {"edge": table},
        },
    )


class Envoy:
    """Does as Envoy does: asks for the endpoints of its clusters, then for its routes."""

    def __init__(self, **had: dict[str, str]) -> None:
        self.stream = Stream()
        self.clusters = dict(had.get("clusters", {}))
        self.endpoints = dict(had.get("endpoints", {}))
        self.routes = dict(had.get("routes", {}))
        self.needs: frozenset[str] = frozenset()
        self.told: list[Response] = []
        self.hear(Request(type_url=CLUSTERS, has=self.clusters))
        if self.clusters:
            names = tuple(self.clusters)
            self.hear(Request(type_url=ENDPOINTS, subscribe=names, has=self.endpoints))
        self.hear(Request(type_url=ROUTES, subscribe=("edge",), has=self.routes))

    def hear(self, request: Request) -> None:
        self.stream.receive(request)

    def step(self, wanted: Catalog, now_s: float = 0.0) -> tuple[Response, ...]:
        found = self.stream.responses(wanted, now_s)
        self.told += found
        return found

    def answer(self, response: Response, refusal: str | None = None) -> None:
        if refusal is None:
            self._take(response)
        self.hear(Request(type_url=response.type_url, nonce=response.nonce, refusal=refusal))
        if response.type_url == CLUSTERS and refusal is None:
            new = tuple(r.name for r in response.resources)
            self.hear(
                Request(type_url=ENDPOINTS, subscribe=new, unsubscribe=tuple(response.removed))
            )

    def _take(self, response: Response) -> None:
        held = {CLUSTERS: self.clusters, ENDPOINTS: self.endpoints, ROUTES: self.routes}
        for resource in response.resources:
            held[response.type_url][resource.name] = resource.version
            if response.type_url == ROUTES:
                self.needs = resource.needs
        for name in response.removed:
            held[response.type_url].pop(name, None)
            if response.type_url == CLUSTERS:
                self.endpoints.pop(name, None)

    def settle(self, wanted: Catalog, now_s: float = 0.0) -> None:
        for _ in range(20):
            for response in (found := self.step(wanted, now_s)):
                self.answer(response)
            if not found:
                return
        pytest.fail("it never has enough")

    def broken(self) -> list[str]:
        """Clusters that it routes to and cannot serve from."""
        return [
            name
            for name in self.needs
            if name not in self.clusters or self.endpoints.get(name, "e0") == "e0"
        ]


def kinds(responses: tuple[Response, ...]) -> list[str]:
    return [r.type_url.rpartition(".")[2] for r in responses]


def test_a_new_envoy_gets_clusters_then_endpoints_then_routes_and_shows_it() -> None:
    envoy, wanted = Envoy(), catalog(1, {"a": 2}, "a")
    clusters = envoy.step(wanted)
    assert kinds(clusters) == ["Cluster"]
    envoy.answer(clusters[0])
    endpoints = envoy.step(wanted)
    assert kinds(endpoints) == ["ClusterLoadAssignment"]
    assert envoy.stream.shown is None
    envoy.answer(endpoints[0])
    routes = envoy.step(wanted)
    assert kinds(routes) == ["RouteConfiguration"]
    assert envoy.stream.shown is None
    envoy.answer(routes[0])
    assert envoy.stream.shown is wanted
    assert envoy.step(wanted) == ()


def test_who_asks_for_all_hears_that_there_is_nothing() -> None:
    envoy = Envoy()
    assert kinds(envoy.step(catalog(0, {}))) == ["Cluster", "RouteConfiguration"]


def test_only_the_assignment_that_changed_is_sent() -> None:
    envoy = Envoy()
    envoy.settle(catalog(1, {"a": 2, "b": 2}, "a", "b"))
    (response,) = envoy.step(catalog(2, {"a": 3, "b": 2}, "a", "b"))
    assert [r.name for r in response.resources] == ["a"]


def test_a_slow_envoy_has_one_unanswered_response_of_a_kind_and_then_gets_the_latest() -> None:
    envoy = Envoy()
    envoy.settle(catalog(1, {"a": 1}, "a"))
    (late,) = envoy.step(catalog(2, {"a": 2}, "a"))
    for number in range(3, 9):
        assert envoy.step(catalog(number, {"a": number}, "a")) == ()
    envoy.answer(late)
    assert envoy.stream.shown is not None
    assert envoy.stream.shown.number == 2
    (response,) = envoy.step(catalog(9, {"a": 9}, "a"))
    assert response.resources[0].version == "e9"


def test_a_change_taken_back_while_it_travels_is_not_taken_for_shown() -> None:
    envoy, first = Envoy(), catalog(1, {"a": 1}, "a")
    envoy.settle(first)
    (there,) = envoy.step(catalog(2, {"a": 2}, "a"))
    back = catalog(3, {"a": 1}, "a")
    assert envoy.step(back) == ()
    envoy.answer(there)
    assert envoy.stream.shown is not back
    envoy.settle(back)
    assert envoy.stream.shown is back
    assert envoy.endpoints == {"a": "e1"}


def test_a_route_leaves_a_cluster_before_its_last_endpoint_goes() -> None:
    envoy = Envoy()
    envoy.settle(catalog(1, {"a": 1, "b": 1}, "a"))
    wanted = catalog(2, {"a": 0, "b": 1}, "b")
    (routes,) = envoy.step(wanted)
    assert kinds((routes,)) == ["RouteConfiguration"]
    envoy.answer(routes)
    assert kinds(envoy.step(wanted)) == ["ClusterLoadAssignment"]


def test_endpoints_leave_at_last_even_if_the_routes_are_refused() -> None:
    envoy = Envoy()
    envoy.settle(catalog(1, {"a": 1, "b": 1}, "a"))
    wanted = catalog(2, {"a": 0, "b": 1}, "b")
    (routes,) = envoy.step(wanted, 10.0)
    envoy.answer(routes, refusal="no")
    assert envoy.step(wanted, 10.0) == ()
    at_s = envoy.stream.recheck_at_s(10.0)
    assert at_s == 10.0 + stream.ORDER_S
    assert kinds(envoy.step(wanted, at_s)) == ["ClusterLoadAssignment"]
    assert envoy.stream.recheck_at_s(at_s) is None


def test_a_cluster_goes_only_after_the_routes_left_it() -> None:
    envoy = Envoy()
    envoy.settle(catalog(1, {"a": 1, "b": 1}, "a"))
    wanted = catalog(2, {"b": 1}, "b")
    (routes,) = envoy.step(wanted)
    assert kinds((routes,)) == ["RouteConfiguration"]
    envoy.answer(routes)
    removals = [r for r in envoy.step(wanted) if r.type_url == CLUSTERS]
    assert [r.removed for r in removals] == [("a",)]


def test_a_refused_response_is_tried_one_by_one_and_what_is_refused_alone_is_left() -> None:
    envoy = Envoy()
    envoy.settle(catalog(1, {"a": 1, "b": 1}, "a"))
    wanted = catalog(2, {"a": 2, "b": 2}, "a")
    (both,) = envoy.step(wanted)
    envoy.answer(both, refusal="b is odd")
    assert envoy.stream.refusals == {Kind.ENDPOINTS: "b is odd"}
    (first,) = envoy.step(wanted)
    assert [r.name for r in first.resources] == ["a"]
    envoy.answer(first)
    (second,) = envoy.step(wanted)
    envoy.answer(second, refusal="b is odd")
    assert envoy.step(wanted) == ()
    assert envoy.stream.shown is not wanted
    mended = catalog(3, {"a": 2, "b": 3}, "a")
    envoy.settle(mended)
    assert envoy.stream.shown is mended
    assert envoy.stream.refusals == {}


def test_a_refusal_is_over_once_what_was_refused_is_not_wanted_any_more() -> None:
    envoy, good = Envoy(), catalog(1, {"a": 1}, "a")
    envoy.settle(good)
    (bad,) = envoy.step(catalog(2, {"a": 2}, "a"))
    envoy.answer(bad, refusal="no")
    assert envoy.step(good) == ()
    assert envoy.stream.refusals == {}


def test_an_envoy_that_comes_back_with_everything_is_sent_nothing() -> None:
    wanted = catalog(7, {"a": 2}, "a")
    routes = {"edge": wanted.resources[Kind.ROUTES]["edge"].version}
    envoy = Envoy(clusters={"a": "c"}, endpoints={"a": "e2"}, routes=routes)
    assert not envoy.stream.fresh
    assert envoy.stream.has() == {"a"}
    assert envoy.step(wanted) == ()
    assert envoy.stream.shown is wanted


def test_an_envoy_with_routes_that_nobody_knows_keeps_its_endpoints_until_it_has_new_ones() -> None:
    envoy = Envoy(clusters={"a": "c"}, endpoints={"a": "e2"}, routes={"edge": "older"})
    wanted = catalog(1, {"a": 0, "b": 1}, "b")
    (clusters,) = envoy.step(wanted)
    assert kinds((clusters,)) == ["Cluster"]
    envoy.answer(clusters)
    envoy.settle(wanted)
    assert envoy.endpoints == {"a": "e0", "b": "e1"}
    order = kinds(tuple(envoy.told))
    assert order.index("RouteConfiguration") < len(order) - 1
    assert order[-1] == "ClusterLoadAssignment"


def test_names_that_do_not_exist_are_answered_once() -> None:
    envoy, wanted = Envoy(), catalog(1, {"a": 1}, "a")
    envoy.settle(wanted)
    envoy.hear(Request(type_url=ENDPOINTS, subscribe=("nobody",)))
    (response,) = envoy.step(wanted)
    assert response.removed == ("nobody",)
    envoy.answer(response)
    assert envoy.step(wanted) == ()


def test_a_name_asked_for_again_is_sent_again() -> None:
    envoy, wanted = Envoy(), catalog(1, {"a": 1}, "a")
    envoy.settle(wanted)
    envoy.hear(Request(type_url=ENDPOINTS, subscribe=("a",)))
    (response,) = envoy.step(wanted)
    assert [r.name for r in response.resources] == ["a"]


def test_unknown_kinds_are_answered_with_nothing_and_cost_the_stream_nothing() -> None:
    envoy, wanted = Envoy(), catalog(1, {"a": 1}, "a")
    for _ in range(100):
        envoy.hear(Request(type_url="type.googleapis.com/a.Secret", subscribe=("x", "*")))
    envoy.hear(Request(type_url="", nonce="5"))
    unknown = [r for r in envoy.step(wanted) if r.type_url.endswith("Secret")]
    assert {r.removed for r in unknown} == {("x",)}
    assert len(unknown) < 20
    envoy.settle(wanted)


@pytest.mark.parametrize("nonce", ["", "0", "99", "-1", "x", "1"])
def test_answers_to_nothing_that_is_open_change_nothing(nonce: str) -> None:
    envoy, wanted = Envoy(), catalog(1, {"a": 1}, "a")
    envoy.settle(wanted)
    for kind in (CLUSTERS, ENDPOINTS, ROUTES):
        envoy.hear(Request(type_url=kind, nonce=nonce, refusal="no"))
    assert envoy.step(wanted) == ()
    assert envoy.stream.refusals == {}


def test_names_without_end_are_refused() -> None:
    names = tuple(str(number) for number in range(stream.MOST_NAMES + 1))
    with pytest.raises(errors.RequestRefused, match="at most"):
        Stream().receive(Request(type_url=ENDPOINTS, subscribe=names))
    with pytest.raises(errors.RequestRefused, match="at most"):
        Stream().receive(Request(type_url=CLUSTERS, has=dict.fromkeys(names, "v")))


def mirroring(number: int, *ports: int, fractions: dict[int, float]) -> Catalog:
    """What discovery really says of a mirrored version 2 with so many replicas."""
    plan = traffic.steer(None, "m", traffic.whole("m", 1), epoch=1)
    known = [replica(9, version=1), *(replica(port, version=2) for port in ports)]
    named = [dataclasses.replace(found, model="m") for found in known]
    made = discovery.build(named, traffic.mirror(plan, "m", fractions, epoch=1))
    documents = resources.documents(made, config.EdgeSettings())
    return Catalog(
        number=number,
        generation=number,
        snapshot=made,
        resources=Encoder().encode(documents),
    )


def test_a_mirror_exists_before_the_route_that_names_it_and_goes_after_it() -> None:
    envoy = Envoy()
    envoy.settle(mirroring(1, 1, fractions={}))
    envoy.told.clear()
    envoy.settle(mirroring(2, 1, fractions={2: 0.5}))
    assert kinds(tuple(envoy.told)) == ["Cluster", "ClusterLoadAssignment", "RouteConfiguration"]
    assert [r.name for told in envoy.told[:2] for r in told.resources] == ["m@v2-mirror"] * 2
    assert envoy.needs == {"m@v1", "m@v2-mirror"}
    envoy.told.clear()
    envoy.settle(mirroring(3, 1, fractions={}))
    assert kinds(tuple(envoy.told))[:2] == ["RouteConfiguration", "Cluster"]
    assert envoy.told[1].removed == ("m@v2-mirror",)
    assert envoy.clusters.keys() == {"m@v1", "m@v2"}


def test_routes_do_not_wait_for_a_mirror_without_replicas_and_leave_it_before_its_last() -> None:
    envoy = Envoy()
    envoy.settle(mirroring(1, fractions={2: 0.5}))
    assert envoy.needs == {"m@v1"}
    envoy.settle(mirroring(2, 1, fractions={2: 0.5}))
    assert envoy.needs == {"m@v1", "m@v2-mirror"}
    envoy.told.clear()
    envoy.settle(mirroring(3, fractions={2: 0.5}))
    assert envoy.needs == {"m@v1"}
    last = [r.name for told in envoy.told[-1:] for r in told.resources]
    assert "m@v2-mirror" in last
    assert kinds(tuple(envoy.told)).index("RouteConfiguration") < len(envoy.told) - 1


NAMES = st.sampled_from("abc")


@st.composite
def worlds(draw: st.DrawFn) -> list[Catalog]:
    """What discovery may publish: routes lead only to clusters with endpoints."""
    found = []
    for number in range(1, draw(st.integers(2, 6))):
        replicas = draw(st.dictionaries(NAMES, st.integers(0, 3)))
        filled = [name for name, count in replicas.items() if count]
        routed = draw(st.sets(st.sampled_from(filled))) if filled else set()
        found.append(catalog(number, replicas, *routed))
    return found


@settings(max_examples=300, deadline=None)
@given(worlds(), st.randoms(use_true_random=False), st.booleans())
def test_no_route_ever_leads_to_a_cluster_without_endpoints(
    wanted: list[Catalog], rng: object, refuses: bool
) -> None:
    """Answers come late and in any order between kinds, catalogs change meanwhile, some are
    refused; time stands still, so that the order is never given up."""
    envoy = Envoy()
    open_: dict[str, Response] = {}
    for now in wanted:
        for _ in range(rng.randrange(6)):  # type: ignore[attr-defined]
            open_ |= {r.type_url: r for r in envoy.step(now)}
            if open_:
                kind = rng.choice(sorted(open_))  # type: ignore[attr-defined]
                refused = refuses and rng.random() < 0.2  # type: ignore[attr-defined]
                envoy.answer(open_.pop(kind), "no" if refused else None)
            assert envoy.broken() == []
    last = wanted[-1]
    for _ in range(40):
        open_ |= {r.type_url: r for r in envoy.step(last)}
        for kind in list(open_):
            envoy.answer(open_.pop(kind))
        assert envoy.broken() == []
    if not refuses:
        assert envoy.stream.shown is last
        assert envoy.clusters.keys() == last.resources[Kind.CLUSTERS].keys()
