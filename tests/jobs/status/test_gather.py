"""One look: what is found, and what is said where nothing can be found."""

from __future__ import annotations

import threading
import time

import pytest

from jobs.status import show
from jobs.status.facts import OwnerState, Waiting, WorkState
from jobs.status.ports import Kept, Unfinished
from registry.ledger import Log
from registry.model import Tag
from tests.jobs.status import world as worlds
from tests.jobs.status.world import (
    NOW_MS,
    World,
    attempt,
    claim,
    config,
    freeze,
    run,
    serving,
    version,
)


def test_interval_is_measured_and_what_was_before_is_not_counted() -> None:
    world = serving()
    status = world.look()
    assert world.slept_s == [pytest.approx(1.2)]
    assert status.now is not None
    assert (status.now.requests, status.now.faults, status.now.seconds) == (100, 2, 1.2)
    assert status.now.fault_share == 0.02
    # All hundred of the interval took 100 to 1,000 ms, whatever the thousand before took.
    assert status.now.latency_ms == pytest.approx(100 + 900 * 0.99)
    assert status.edge is not None
    assert status.edge.versions[0].now == status.now


def test_no_traffic_is_none_and_not_zero() -> None:
    world = serving()
    world.on_sleep = lambda: None
    status = world.look()
    assert status.now is not None
    assert (status.now.requests, status.now.fault_share, status.now.latency_ms) == (0, None, None)


def test_who_looks_again_compares_with_the_look_before_without_waiting() -> None:
    world = serving()
    observer = world.observer()
    observer.look()
    world.time_s += 5.0
    world.on_sleep()
    status = observer.look()
    assert len(world.slept_s) == 1
    assert status.now is not None
    assert (status.now.requests, status.now.seconds) == (100, 5.0)


def test_an_edge_that_does_not_run_is_none_and_nothing_is_waited_for() -> None:
    world = serving()
    world.edge_runs = False
    status = world.look()
    assert (status.edge, status.now, world.slept_s) == (None, None, [])
    assert status.champion is not None
    assert status.unread == {}


def test_a_record_that_is_away_is_named_and_the_edge_is_shown() -> None:
    world = serving()
    world.away = "MLflow at http://mlflow does not answer"
    status = world.look()
    assert status.unread == {"record": world.away}
    assert (status.record, status.entries, status.champion, status.known) == (None,) * 4
    assert status.now is not None
    assert not status.is_unknown


def test_without_the_record_what_this_machine_last_knew_is_shown_and_said_so() -> None:
    world = serving()
    world.away = "MLflow does not answer"
    world.counted_lately = worlds.counted((300.0, 1000, 1))
    world.copy = Kept(log=Log(items=(*world.entries, freeze())), config=world.config)
    status = world.look()
    assert status.champion is not None
    assert (status.champion.version, status.is_copy, status.entries) == (2, True, None)
    assert status.frozen is not None
    assert status.budget[0].burns[0].rate == pytest.approx(1.0)
    assert list(status.unread) == ["record"]
    world.away = None
    assert not world.look().is_copy


def test_rollback_made_without_the_record_is_in_charge_and_no_disagreement() -> None:
    world = serving()
    world.versions = (version(1, 100),)
    assert "the ledger says version 2" in world.look().problems[0]
    world.pending = (Waiting(text="rollback to version 1 by ana@host", version=1),)
    status = world.look()
    assert status.problems == ()
    assert status.in_charge == 1
    assert "waits for MLflow" in status.waiting[0]
    told = show.as_text(status)
    assert "in charge version 1, gone back to without the ledger, which says 2" in told


def test_evidence_that_mlflow_refused_is_a_problem_and_waits_for_nobody() -> None:
    world = serving()
    world.pending = (
        Waiting(text="2 writes refused by MLflow kept in aside.jsonl", is_refused=True),
    )
    status = world.look()
    assert status.problems == ("2 writes refused by MLflow kept in aside.jsonl",)
    assert status.waiting == ()


def test_one_hung_source_costs_its_own_lines_only(monkeypatch: pytest.MonkeyPatch) -> None:
    world, stuck = serving(), threading.Event()
    monkeypatch.setattr(worlds._OfRecord, "attempts", lambda self, model: stuck.wait() or [])
    began_s = time.monotonic()
    status = world.observer(limit_s=0.2).look()
    stuck.set()
    assert time.monotonic() - began_s < 1.5
    assert list(status.unread) == ["last"]
    assert status.unread["last"].startswith("no answer for")
    assert status.champion is not None
    assert status.now is not None


def test_burn_is_share_of_faults_over_the_share_that_may_fail() -> None:
    world = serving()
    world.counted_lately = worlds.counted((3300.0, 0, 0), (300.0, 1000, 4))
    availability, latency = world.look().budget
    assert [b.rate for b in availability.burns[:3]] == [pytest.approx(4.0)] * 3  # 0.4 % of 0.1 %
    assert latency.burns[0].rate == 0.0


def test_what_was_never_counted_is_not_known_and_not_zero() -> None:
    world = serving()
    (availability, _) = world.look().budget
    assert availability.budget_left is None
    assert {b.rate for b in availability.burns} == {None}


def test_asked_ready_and_draining_replicas_per_version() -> None:
    world = serving()
    world.config = config(replicas=3)
    world.versions = (version(1, 0, ready=0, draining=2), version(2, 100, ready=2))
    status = world.look()
    assert status.edge is not None
    old, new = status.edge.versions
    assert (old.asked, old.ready, old.draining) == (None, 0, 2)
    assert (new.asked, new.ready, new.draining) == (3, 2, 0)
    assert any("2 of 3 replicas ready" in problem for problem in status.problems)


def test_failing_replicas_are_a_problem() -> None:
    world = serving()
    world.totals = {2: worlds.stats(10, ejections_active=1)}
    world.on_sleep = lambda: None
    assert any("left out for a while" in problem for problem in world.look().problems)


@pytest.mark.parametrize(
    ("before", "after", "lives", "waited_s", "state"),
    [
        ("1 x promote", "2 x promote", None, 0.0, OwnerState.LIVES),
        ("1 x promote", "1 x promote", None, 0.0, OwnerState.UNSEEN),
        ("1 x promote", "1 x promote", None, 19.0, OwnerState.SILENT),
        ("1 x promote", "1 x promote", True, 99.0, OwnerState.LIVES),
        ("1 x promote", "1 x promote", False, 0.0, OwnerState.GONE),
        ("1 x promote", "2 x released", True, 0.0, OwnerState.RELEASED),
        ("", "", None, 0.0, OwnerState.UNSEEN),
    ],
)
def test_owner_is_judged_by_its_signs_of_life_as_watched(
    before: str, after: str, lives: bool | None, waited_s: float, state: OwnerState
) -> None:
    world = serving()
    world.claim, world.heard, world.lives = claim(), {6: "of an older owner", 7: before}, lives
    observer = world.observer()
    world.on_sleep = lambda: world.heard.update({7: after})
    owner = observer.look().owner
    if waited_s:
        world.time_s += waited_s
        owner = observer.look().owner
    assert owner is not None
    assert (owner.state, owner.said) == (state, after)
    assert owner.watched_s == pytest.approx(1.2 + waited_s)
    seen = before != after
    assert owner.beat_age_s == (pytest.approx(waited_s) if seen else None)


def test_a_new_owner_is_watched_from_the_start() -> None:
    world = serving()
    world.claim, world.heard = claim(), {7: "1"}
    observer = world.observer()
    observer.look()
    world.time_s += 60.0
    world.claim, world.heard = claim(epoch=8, actor="eve@host"), {7: "1", 8: "1"}
    owner = observer.look().owner
    assert owner is not None
    assert (owner.actor, owner.epoch, owner.state) == ("eve@host", 8, OwnerState.UNSEEN)
    assert owner.watched_s == 0.0


def at_work(world: World, **params: str) -> None:
    world.claim, world.heard, world.lives = claim(), {7: "1 promote"}, True
    world.work = Unfinished(
        run=run("promotion", since_s=90, **params),
        stages=(run("register", since_s=80, running=False), run("evaluate", since_s=34)),
        config=config(steps=(10, 50, 100), replicas=2),
    )


def test_running_promotion_shows_its_stage_and_since_when() -> None:
    world = serving()
    at_work(world, actor="bob@host")
    work = world.look().work
    assert work is not None
    assert (work.state, work.actor, work.stage) == (WorkState.RUNNING, "bob@host", "evaluate")
    assert (work.seconds, work.stage_since) == (34.0, "2026-11-29T17:59:26Z")
    assert work.started_at == "2026-11-29T17:58:30Z"


def test_rollout_under_way_is_no_disagreement() -> None:
    world = serving()
    at_work(world, candidate_version="3")
    world.versions = (version(2, 50), version(3, 50))
    status = world.look()
    assert status.problems == ()
    assert status.work is not None
    assert (status.work.version, status.work.steps) == (3, (10, 50, 100))
    assert status.edge is not None
    assert [(v.version, v.weight, v.asked) for v in status.edge.versions] == [
        (2, 50, 1),
        (3, 50, 2),
    ]


def test_interrupted_promotion_waits_for_the_same_command_and_its_traffic_is_a_problem() -> None:
    world = serving()
    at_work(world, candidate_version="3")
    world.lives = False
    world.versions = (version(2, 50), version(3, 50))
    status = world.look()
    assert status.work is not None
    assert status.work.state is WorkState.INTERRUPTED
    assert "run the same command again" in status.waiting[0]
    assert "version 3 has traffic, the ledger says version 2" in status.problems[0]
    assert "`liftlock serve grammar`" in status.problems[0]


def test_work_left_by_a_killed_command_is_forgotten_once_another_has_ended() -> None:
    world = serving()
    at_work(world)
    world.lives = False
    world.ended = [attempt(ended_ms=NOW_MS - 1000)]
    assert world.look().work is None
    world.lives = True
    assert world.look().work is not None


@pytest.mark.parametrize(
    ("ended", "ending", "why"),
    [
        (attempt(tags={Tag.ENDING: "refused"}, params={"verdict_reason": "2 of 12 gates failed"}),
         "refused", "2 of 12 gates failed"),
        (attempt(tags={Tag.ERROR: "StageFailed: out of memory"}),
         "failed", "StageFailed: out of memory"),
        (attempt(tags={Tag.ERROR: "interrupted"}), "interrupted", "interrupted"),
        (attempt(tags={Tag.ENDING: "promoted"}, run_id="run-2"),
         "promoted", "all 12 gates passed"),
        (attempt("rollback", run_id="run-2"), "rolled back", "all 12 gates passed"),
        (attempt(), "ended", ""),
    ],
)  # fmt: skip
def test_last_attempt_is_told_with_its_ending_and_why(ended: object, ending: str, why: str) -> None:
    world = serving()
    earlier = attempt(ended_ms=NOW_MS - 10_000, tags={Tag.ENDING: "promoted"})
    world.ended = [earlier, ended]  # type: ignore[list-item]
    last = world.look().last
    assert last is not None
    assert (last.ending, last.why) == (ending, why)
    assert last.url == f"http://mlflow/{last.run_id}"


def test_undecided_candidate_waits_for_a_person() -> None:
    world = serving()
    params = {"verdict": "underpowered", "candidate_version": "5"}
    world.ended = [attempt(tags={Tag.ENDING: "refused"}, params=params)]
    assert "version 5 waits for a person" in world.look().waiting[0]


def test_freeze_and_journal_are_what_others_wait_for() -> None:
    world = serving()
    world.frozen = freeze(actor="ana@host")
    world.pending = (Waiting(text="3 writes of evidence kept"),)
    status = world.look()
    assert status.frozen is not None
    assert status.frozen.reason == "holidays"
    assert "wait for `liftlock thaw grammar`" in status.waiting[0]
    assert "waits for MLflow" in status.waiting[1]


def test_nobody_answering_is_a_problem() -> None:
    world = serving()
    world.versions = (version(2, 100, ready=0),)
    assert "callers get errors" in world.look().problems[0]


@pytest.mark.parametrize(
    ("known", "versions", "pending", "unknown"),
    [
        ((), (), (), True),
        (("grammar",), (), (), False),
        ((), (version(1, 100),), (), False),
        ((), (), (Waiting(text="rollback"),), False),
    ],
)
def test_a_model_is_unknown_where_nobody_has_heard_of_it(
    known: tuple[str, ...],
    versions: tuple[object, ...],
    pending: tuple[Waiting, ...],
    unknown: bool,
) -> None:
    world = World(known=known, versions=versions, pending=pending)  # type: ignore[arg-type]
    assert world.look().is_unknown is unknown
