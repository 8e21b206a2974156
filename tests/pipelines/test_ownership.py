"""One owner at a time: who is refused, who takes over, and what wakes up too late."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pipelines import ownership
from pipelines.errors import Fenced, OwnedByAnother
from pipelines.ownership import Timing
from pipelines.place import Place
from registry.errors import RecordUnavailable
from registry.ledger import MarkKind
from tests.fakes.plane import FakePlane
from tests.fakes.progress import Silent
from tests.fakes.record import memory_record

# The lease outlasts any time that a busy machine may keep a heartbeat waiting.
QUICK = Timing(beat_s=0.02, lease_s=60.0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    plane = FakePlane()
    return Place(
        record=memory_record(),
        plane=lambda epoch: plane,
        edge_epoch=lambda: 0,
        standing=lambda: False,
        cache=tmp_path,
        journal=tmp_path,
        work=tmp_path,
        progress=Silent(),
        now=lambda: "2030-01-01T00:00:00Z",
        actor="tester",
    )


def claim_of(place: Place, owner: str, epoch: int = 1) -> None:
    """A claim by some other process."""
    log = place.record.ledger.read("grammar")
    mark = log.mark(
        MarkKind.CLAIM, owner=owner, actor="rival", reason="promote x", at=place.now(), epoch=epoch
    )
    place.record.ledger.append("grammar", mark)


@pytest.fixture
def ended_process() -> str:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = ownership.this_process(process.pid)
    process.communicate(b"\n")
    return name


@pytest.fixture
def living_process() -> Iterator[str]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield ownership.this_process(process.pid)
    process.communicate(b"\n")


def test_owner_is_known_while_it_works_and_lets_go_at_the_end(place: Place) -> None:
    with ownership.owned(place, "grammar", "promote a", timing=QUICK) as mine:
        claim = place.record.ledger.read("grammar").claim
        assert claim is not None
        assert (claim.epoch, claim.owner, claim.reason) == (1, mine.owner, "promote a")
    assert place.record.ledger.beats("grammar")[1].endswith("released")
    with ownership.owned(place, "grammar", "promote b", timing=QUICK) as mine:
        assert (mine.epoch, mine.took_over) == (2, False)


def test_living_owner_is_named_and_nothing_is_written(place: Place) -> None:
    with ownership.owned(place, "grammar", "promote a", timing=QUICK):
        before = place.record.ledger.read("grammar")
        with (
            pytest.raises(OwnedByAnother, match=r"owned by process \d+ .*tester.*promote a"),
            ownership.owned(place, "grammar", "promote b", timing=QUICK),
        ):
            pytest.fail("two owners")
        assert place.record.ledger.read("grammar") == before


def test_owner_whose_process_is_gone_is_taken_over_at_once(
    place: Place, ended_process: str
) -> None:
    claim_of(place, ended_process, epoch=7)
    never = dataclasses.replace(QUICK, sleep=lambda s: pytest.fail("waited for a dead process"))
    with ownership.owned(place, "grammar", "promote b", timing=never) as mine:
        assert (mine.epoch, mine.took_over) == (8, True)


def test_silent_owner_is_taken_over_after_the_lease(place: Place, living_process: str) -> None:
    claim_of(place, living_process)
    place.record.ledger.beat("grammar", 1, "1 evaluate")
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    timing = Timing(beat_s=5.0, lease_s=20.0, clock=lambda: now[0], sleep=sleep)
    mine = ownership.claim(place, "grammar", "promote b", force=False, timing=timing)
    assert (mine.epoch, mine.took_over) == (2, True)
    assert now[0] >= 20.0


def test_owner_on_another_machine_is_believed_by_its_signs_of_life(place: Place) -> None:
    claim_of(place, "elsewhere/boot/17/0.00")
    count = iter(range(1000))

    def sleep(seconds: float) -> None:
        place.record.ledger.beat("grammar", 1, f"{next(count)} evaluate")

    timing = Timing(beat_s=5.0, lease_s=20.0, clock=lambda: 0.0, sleep=sleep)
    with pytest.raises(OwnedByAnother, match="process 17 on elsewhere"):
        ownership.claim(place, "grammar", "promote b", force=False, timing=timing)


def test_owner_that_lets_go_while_it_is_watched_is_no_hindrance(place: Place) -> None:
    claim_of(place, "elsewhere/boot/17/0.00")

    def sleep(seconds: float) -> None:
        place.record.ledger.beat("grammar", 1, "9 now released")

    timing = Timing(beat_s=5.0, lease_s=20.0, clock=lambda: 0.0, sleep=sleep)
    assert ownership.claim(place, "grammar", "b", force=False, timing=timing).epoch == 2


def test_forced_claim_does_not_wait_and_the_old_owner_hears_of_it(place: Place) -> None:
    with ownership.owned(place, "grammar", "promote a", timing=QUICK) as old:
        never = dataclasses.replace(QUICK, sleep=lambda s: pytest.fail("waited"))
        ownership.claim(place, "grammar", "rollback", force=True, timing=never)
        old.beat()
        with pytest.raises(Fenced, match="taken over by process"):
            old.enter("rollout")


def test_epoch_is_above_what_the_edge_has_seen(place: Place) -> None:
    place = dataclasses.replace(place, edge_epoch=lambda: 41)
    with ownership.owned(place, "grammar", "promote a", timing=QUICK) as mine:
        assert mine.epoch == 42


def test_record_that_is_away_does_not_end_the_owner(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def away(model: str, epoch: int, text: str) -> None:
        asked.set()
        raise RecordUnavailable("away")

    monkeypatch.setattr(place.record.ledger, "beat", away)
    with ownership.owned(place, "grammar", "promote a", timing=QUICK) as mine:
        assert asked.wait(5)
        mine.enter("evaluate")  # goes on: nobody is known to have taken over


def test_owner_that_ends_while_it_is_looked_at_is_not_waited_for(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ownership.owned(place, "grammar", "promote a", timing=QUICK):
        pass
    real = place.record.ledger.beats
    looks = iter(["still at work"])

    def ends(model: str) -> dict[int, str]:
        """Its last word comes between the first look and the second."""
        beats = dict(real(model))
        return {max(beats): next(looks, beats[max(beats)])}

    def waits(seconds: float) -> None:
        raise AssertionError("waited for an owner that is over")

    monkeypatch.setattr(place.record.ledger, "beats", ends)
    impatient = dataclasses.replace(QUICK, sleep=waits)
    with ownership.owned(place, "grammar", "promote b", timing=impatient) as mine:
        assert mine.epoch == 2


def test_of_many_that_race_there_is_never_more_than_one_owner(place: Place) -> None:
    working, most, owned_by = [0], [0], []
    lock = threading.Lock()

    def work(number: int) -> bool:
        try:
            with ownership.owned(place, "grammar", f"promote {number}", timing=QUICK) as mine:
                with lock:
                    working[0] += 1
                    most[0] = max(most[0], working[0])
                    owned_by.append(mine.epoch)
                with lock:
                    working[0] -= 1
        except OwnedByAnother:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(work, range(40)))
    assert most == [1]
    assert len(owned_by) == sum(done) == len(set(owned_by))
    assert owned_by == sorted(owned_by)
