"""Whatever happens in whatever order: counts are those of the open leases, ejection has its cap."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from serving import router
from serving.router import Outcome, Phase

NAMES = [f"e{place}" for place in range(8)]
LISTED = st.builds(
    router.Destination,
    id=st.sampled_from(NAMES),
    zone=st.sampled_from(["here", "there", None]),
    draining=st.sampled_from([False, False, True]),
)
TAKES_REQUESTS = {Phase.SERVING, Phase.WARMING, Phase.PROBATION}


class AnyInterleaving(RuleBasedStateMachine):
    """Requests, answers, probes and changes of the fleet, in any order.

    The model: open leases by endpoint and by which time the endpoint is there.
    """

    leases = Bundle("leases")

    def __init__(self) -> None:
        super().__init__()
        self.share = 0.7
        hasty = router.RouterSettings(
            spill_at=3, max_ejected_share=self.share, probation_successes=1, slow_start_s=2.0,
            failure_weight=0.5, eject_at=0.5,  # the first failure ejects
        )  # fmt: skip
        self.fleet = router.Fleet(hasty, zone="here")
        self.rng = random.Random(0)
        self.now = 0.0
        self.listed: dict[str, router.Destination] = {}
        self.incarnation: Counter[str] = Counter()
        self.open: Counter[tuple[str, int]] = Counter()
        self.of: dict[router.Lease, tuple[str, int]] = {}
        self.picks = 0

    @initialize()
    def all_are_there(self) -> None:
        self.discovery_lists([router.Destination(id=name, zone="here") for name in NAMES])

    @rule(listed=st.lists(LISTED, max_size=12))
    def discovery_lists(self, listed: list[router.Destination]) -> None:
        self.fleet.update(listed, self.now)
        new = {destination.id: destination for destination in listed}
        self.incarnation.update(name for name in new if name not in self.listed)
        self.listed = new

    @rule(name=st.sampled_from(NAMES))
    def an_endpoint_dies(self, name: str) -> None:
        self.fleet.remove(name, self.now)
        self.listed.pop(name, None)

    @rule(seconds=st.sampled_from([0.01, 0.5, 3.0, 100.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=leases, requests=st.integers(1, 12))
    def requests_come(self, requests: int) -> object:
        if all(destination.draining for destination in self.listed.values()):
            return multiple()
        return multiple(*(self._pick() for _ in range(requests)))

    @rule(target=leases, tried=st.sets(st.sampled_from(NAMES), min_size=1, max_size=8))
    def a_request_comes_again(self, tried: set[str]) -> object:
        if all(destination.draining for destination in self.listed.values()):
            return multiple()
        lease = self._pick(tried)
        others = {name for name, known in self.listed.items() if not known.draining} - tried
        assert lease.endpoint_id in others or not others
        return lease

    def _pick(self, tried: Collection[str] = ()) -> router.Lease:
        lease = router.pick(self.fleet, self.rng, self.now, tried)
        name = lease.endpoint_id
        assert not self.listed[name].draining
        phase = self.fleet.views()[name].phase
        assert phase in TAKES_REQUESTS or (tried and phase is Phase.EJECTED)
        key = (name, self.incarnation[name])
        self.open[key] += 1
        self.of[lease] = key
        self.picks += 1
        return lease

    @rule(
        lease=consumes(leases),
        outcome=st.sampled_from([*Outcome, Outcome.FAILURE]),
        reported=st.none() | st.integers(0, 9),
        again=st.booleans(),
    )
    def a_request_ends(
        self, lease: router.Lease, outcome: Outcome, reported: int | None, again: bool
    ) -> None:
        assert lease.done(outcome, self.now, reported)
        self.open[self.of.pop(lease)] -= 1
        if again:
            assert not lease.done(outcome, self.now, reported)

    @rule(name=st.sampled_from(NAMES), load=st.integers(0, 9))
    def a_probe_is_answered(self, name: str, load: int) -> None:
        router.next_probe(self.fleet, self.rng)
        self.fleet.report(name, load, self.now)

    @invariant()
    def counts_are_those_of_the_open_leases(self) -> None:
        views = self.fleet.views()
        assert set(views) == set(self.listed)
        for name, view in views.items():
            assert view.in_flight == self.open[name, self.incarnation[name]]

    @invariant()
    def ejection_keeps_its_cap(self) -> None:
        phases = [view.phase for view in self.fleet.views().values()]
        present = len(phases) - phases.count(Phase.DRAINING)
        assert present == sum(not d.draining for d in self.listed.values())
        assert self.fleet.ejections_allowed == max(int(self.share * present), int(present > 1))
        assert phases.count(Phase.EJECTED) <= self.fleet.ejections_allowed

    @invariant()
    def every_choice_was_counted(self) -> None:
        assert self.fleet.picks == self.picks

    @invariant()
    def those_that_take_requests_are_in_the_group_of_their_zone(self) -> None:
        for group, near in ((self.fleet.near, True), (self.fleet.far, False)):
            for place, tracker in enumerate(group.members):
                assert (tracker.group, tracker.place) == (group, place)
                assert (self.listed[tracker.id].zone == "here") is near
        chosen_from = [t.id for g in (self.fleet.near, self.fleet.far) for t in g.members]
        views = self.fleet.views().items()
        assert sorted(chosen_from) == sorted(n for n, v in views if v.phase in TAKES_REQUESTS)

    def teardown(self) -> None:
        """In the end every request is over, and nothing is left."""
        for lease in self.of:
            lease.done(Outcome.CANCELED, self.now)
        assert all(view.in_flight == 0 for view in self.fleet.views().values())


class AnyLongInterleaving(AnyInterleaving):
    """The same for longer."""


AnyInterleaving.TestCase.settings = settings(
    max_examples=20, stateful_step_count=40, deadline=None, derandomize=True
)
AnyLongInterleaving.TestCase.settings = settings(
    max_examples=400, stateful_step_count=80, deadline=None
)
TestAnyInterleaving = AnyInterleaving.TestCase
TestAnyLongInterleaving = pytest.mark.slow(AnyLongInterleaving.TestCase)
