"""A switch ends with the new version in charge, or with everything as it was."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.errors import Fenced, RolloutReverted
from pipelines.rollout import Move, Terms
from pipelines.rollout_policy import RolloutPolicy
from pipelines.switch import Step, Switch
from registry.errors import RecordConflict
from registry.manifest import Generation, Manifest, Prompt
from registry.model import ModelVersion
from serving.errors import DeploymentFailed, StaleEpoch
from serving.plane import Answer
from serving.slo import SLO
from tests.fakes.plane import FakePlane


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def version(number: int) -> ModelVersion:
    manifest = Manifest(
        files=(), prompt=Prompt(template=f"{number} {{text}}"), generation=Generation(max_tokens=8)
    )
    return ModelVersion(
        model="grammar", version=number, digest=manifest.digest, source="models:/m-1",
        model_id="m-1", manifest=manifest,
    )  # fmt: skip


def terms(policy: RolloutPolicy | None = None) -> Terms:
    return Terms(policy=policy or RolloutPolicy(), slo=SLO())


def switch(
    plane: FakePlane,
    policy: RolloutPolicy | None = None,
    *,
    keep: Callable[[Step], None] = lambda step: None,
) -> Switch:
    clock = Clock()
    return Switch(
        plane, terms(policy), note=lambda _: None, keep=keep, clock=clock, sleep=clock.sleep
    )


def serving(number: int) -> FakePlane:
    return FakePlane(deployed={number: version(number)}, shares={number: 100})


def nothing(answer: Answer) -> None:
    """A commit that writes nothing."""


def refuse(answer: Answer) -> None:
    raise RecordConflict("another promotion was first")


def interrupt(answer: Answer) -> None:
    raise KeyboardInterrupt


def test_first_version_takes_all_traffic_at_once() -> None:
    plane = FakePlane()
    result = switch(plane).to(version(1), nothing, in_charge=lambda: None)
    assert plane.events == ["start 1 x1", "weights {1: 100}"]
    assert result.replaced is None
    assert result.answer.version == 1


def test_new_version_goes_through_every_step_and_the_old_one_drains_last() -> None:
    plane = serving(1)
    result = switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.events == [
        "start 2 x1",
        "weights {1: 90, 2: 10}",
        "weights {1: 50, 2: 50}",
        "weights {2: 100}",
        "retire 1",
    ]
    assert result.replaced == 1


def test_commit_happens_with_all_traffic_on_the_new_version_and_the_old_still_there() -> None:
    plane, seen = serving(1), []

    def commit(answer: Answer) -> None:
        seen.append((dict(plane.shares), plane.running(), answer.version))

    switch(plane).to(version(2), commit, in_charge=lambda: 1)
    assert seen == [({2: 100}, (1, 2), 2)]


@pytest.mark.parametrize("raised", [refuse, interrupt])
def test_commit_that_fails_gives_the_traffic_back(raised: Callable[[Answer], None]) -> None:
    plane = serving(1)
    with pytest.raises((RecordConflict, KeyboardInterrupt)):
        switch(plane).to(version(2), raised, in_charge=lambda: 1)
    assert plane.shares == {1: 100}
    assert plane.running() == (1,)


def test_first_version_whose_commit_fails_leaves_nothing_behind() -> None:
    plane = FakePlane()
    with pytest.raises(RecordConflict):
        switch(plane).to(version(1), refuse, in_charge=lambda: None)
    assert plane.shares == {}
    assert plane.running() == ()


def test_version_that_never_gets_ready_takes_no_traffic_and_is_removed() -> None:
    plane = serving(1)
    plane.never_ready.add(2)
    with pytest.raises(DeploymentFailed, match="out of memory"):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.events == ["start 2 x1", "retire 2"]
    assert plane.shares == {1: 100}


def test_faults_at_the_first_step_take_it_back() -> None:
    plane = serving(1)
    plane.faulty.add(2)
    with pytest.raises(RolloutReverted, match="server faults"):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {1: 100}
    assert plane.running() == (1,)


def test_slowness_at_the_first_step_takes_it_back() -> None:
    plane = serving(1)
    plane.slow.add(2)
    with pytest.raises(RolloutReverted, match=r"10 % of traffic: latency: .* slower than 1000 ms"):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {1: 100}
    assert plane.running() == (1,)


def test_old_version_s_counts_are_told_beside() -> None:
    plane = serving(1)
    plane.faulty |= {1, 2}
    with pytest.raises(RolloutReverted, match=r"the old version at the same time: availability \d"):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)


def test_each_step_is_kept_with_what_it_was_decided_by() -> None:
    kept: list[Step] = []
    switch(serving(1), keep=kept.append).to(version(2), nothing, in_charge=lambda: 1)
    assert [step.share_percent for step in kept] == [10, 50, 100]
    assert all(len(step.decision.trials) == 2 for step in kept)
    assert min(t.requests for step in kept for t in step.decision.trials) >= 5


def test_step_that_takes_it_back_is_kept_too() -> None:
    plane, kept = serving(1), list[Step]()
    plane.faulty.add(2)
    with pytest.raises(RolloutReverted):
        switch(plane, keep=kept.append).to(version(2), nothing, in_charge=lambda: 1)
    assert [(step.share_percent, step.decision.move) for step in kept] == [(10, Move.REVERT)]


def test_requests_before_a_restart_of_envoy_are_not_forgotten() -> None:
    plane = serving(1)
    plane.restarts = set(range(5, 1000, 4))  # at every other look
    policy = RolloutPolicy(min_answers=12)
    switch(plane, policy).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {2: 100}


def test_replicas_lost_during_the_rollout_take_it_back() -> None:
    plane = serving(1)
    plane.dead.add(2)
    with pytest.raises(RolloutReverted, match="no ready replica"):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {1: 100}


def test_a_replica_whose_sign_of_life_is_late_is_waited_for() -> None:
    plane = FakePlane()
    plane.absent_looks = 8  # 4 s
    switch(plane).to(version(2), nothing, in_charge=lambda: None)
    assert plane.shares == {2: 100}


def test_the_version_in_charge_is_waited_for_too_and_keeps_its_share_meanwhile() -> None:
    plane = serving(1)
    plane.absent_looks = 8
    switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert "weights {1: 90, 2: 10}" in plane.events


def test_wrong_bytes_behind_the_right_number_are_noticed() -> None:
    plane = serving(1)
    plane.lying.add(2)
    with pytest.raises(RolloutReverted, match="answered with version 2"):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {1: 100}


def test_without_counts_there_is_no_decision_and_it_gives_up() -> None:
    plane = serving(1)
    plane.counts_readable = False
    with pytest.raises(RolloutReverted, match="no decision within"):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {1: 100}


def test_version_already_in_charge_is_left_alone() -> None:
    plane = serving(1)
    switch(plane).to(version(1), nothing, in_charge=lambda: 1)
    assert plane.running() == (1,)
    assert plane.shares == {1: 100}


def test_plan_of_before_a_reboot_does_not_hold_up_a_promotion() -> None:
    plane = FakePlane(shares={1: 100})
    result = switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {2: 100}
    assert result.replaced is None


def test_failed_promotion_after_a_reboot_leaves_no_plan_that_cannot_be() -> None:
    plane = FakePlane(shares={1: 100}, faulty={2})
    with pytest.raises(RolloutReverted):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {}
    assert plane.running() == ()


def test_leftover_of_an_interrupted_rollout_is_retired() -> None:
    plane = serving(1)
    plane.deployed[7] = version(7)
    switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.running() == (2,)


def test_unrecorded_version_with_traffic_loses_it_when_the_next_rollout_fails() -> None:
    """A rollout that was killed at 10 % had left version 2 with traffic."""
    plane = serving(1)
    plane.deployed[2] = version(2)
    plane.shares = {1: 90, 2: 10}
    plane.faulty.add(2)
    with pytest.raises(RolloutReverted):
        switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {1: 100}
    assert plane.running() == (1,)


def test_champion_without_replicas_is_replaced_at_once() -> None:
    plane = serving(1)
    plane.dead.add(1)
    switch(plane).to(version(2), nothing, in_charge=lambda: 1)
    assert "weights {2: 100}" in plane.events
    assert not any("1: 90" in event for event in plane.events)


def test_slow_drain_after_the_commit_is_told_and_not_a_failure() -> None:
    plane, told = serving(1), []
    plane.never_drains.add(1)
    clock = Clock()
    changed = Switch(plane, terms(), note=told.append, clock=clock, sleep=clock.sleep).to(
        version(2), nothing, in_charge=lambda: 1
    )
    assert changed.version == 2
    assert any("still draining" in line for line in told)


def test_replicas_that_cannot_be_asked_take_no_traffic() -> None:
    plane = serving(1)
    with pytest.raises(DeploymentFailed, match="1 of 2 replicas"):
        switch(plane, RolloutPolicy(replicas=2)).to(version(2), nothing, in_charge=lambda: 1)
    assert plane.shares == {1: 100}


def test_rival_that_was_recorded_meanwhile_keeps_the_traffic() -> None:
    """Another promotion put 3 in charge and drained 1 while 2 was on its way."""
    plane, ledger_says = serving(1), [1]

    def overtaken(answer: Answer) -> None:
        plane.deployed = {2: version(2), 3: version(3)}
        ledger_says[0] = 3
        raise RecordConflict("what serves has changed")

    with pytest.raises(RecordConflict):
        switch(plane).to(version(2), overtaken, in_charge=lambda: ledger_says[0])
    assert plane.shares == {3: 100}
    assert plane.running() == (3,)


@pytest.mark.parametrize("moment", ["ready", "step", "retire"])
def test_owner_that_was_replaced_meanwhile_undoes_nothing(moment: str) -> None:
    shared = serving(1)
    plane = shared.open(1, "first")
    notes: list[str] = []

    def take_over() -> None:
        shared.open(2, "second")
        shared.deployed, shared.shares = {3: version(3)}, {3: 100}

    clock = Clock()
    made = Switch(
        Interrupted(plane, moment, take_over), terms(), note=notes.append, clock=clock,
        sleep=clock.sleep,
    )  # fmt: skip
    if moment == "retire":  # it had committed: what it decided holds, the rest is the other's
        made.to(version(2), nothing, in_charge=lambda: 1)
    else:
        with pytest.raises(StaleEpoch, match="second has taken grammar over"):
            made.to(version(2), nothing, in_charge=lambda: 1)
    assert (shared.running(), shared.shares) == ((3,), {3: 100})
    assert any("another owner has taken over" in note for note in notes)


class Interrupted:
    """A plane whose owner is replaced just before it acts in one named way."""

    def __init__(self, plane: object, moment: str, take_over: Callable[[], None]) -> None:
        self._plane = plane
        self._call = {"ready": "start", "step": "set_weights", "retire": "retire"}[moment]
        self._take_over = take_over

    def __getattr__(self, name: str) -> object:
        if name == self._call:
            self._take_over()
        return getattr(self._plane, name)


def test_owner_that_hears_of_its_successor_stops_and_leaves_everything_to_it() -> None:
    plane = serving(1)
    asked = [0]

    def check() -> None:
        asked[0] += 1
        if asked[0] > 1:
            raise Fenced("taken over")

    clock, notes = Clock(), list[str]()
    made = Switch(
        plane, terms(RolloutPolicy(bake_s=60.0)), note=notes.append, check=check, clock=clock,
        sleep=clock.sleep,
    )  # fmt: skip
    with pytest.raises(Fenced):
        made.to(version(2), nothing, in_charge=lambda: 1)
    assert plane.running() == (1, 2)
    assert clock.now < 60.0
    assert any("leaving everything to it" in note for note in notes)
