"""What is believed of a source that answers, fails, or says that there is nobody."""

from __future__ import annotations

from serving.discovery import observation
from serving.endpoint import Endpoint, EndpointState

REPLICA = Endpoint(
    replica_id="r",
    model="m",
    version=1,
    digest="d",
    host="127.0.0.1",
    port=1,
    state=EndpointState.READY,
)
NOTHING = observation.Observation()


def test_a_failed_listing_leaves_the_last_good_one_and_lets_it_age() -> None:
    listing = observation.Listing(generation=1, endpoints=(REPLICA,))
    known = observation.observe(NOTHING, listing, now_s=100.0)
    later = observation.observe(known, None, now_s=130.0)
    assert later.endpoints == (REPLICA,)
    assert later.age_s(130.0) == 30.0


def test_an_empty_listing_that_succeeded_is_believed() -> None:
    known = observation.Observation(
        listing=observation.Listing(generation=2, endpoints=(REPLICA,)), listed_at_s=0.0
    )
    empty = observation.Listing(generation=1, endpoints=())
    assert observation.observe(known, empty, now_s=1.0).endpoints == ()


def test_before_the_first_listing_nothing_is_known() -> None:
    still = observation.observe(NOTHING, None, now_s=5.0)
    assert still.listing is None
    assert still.age_s(5.0) is None
