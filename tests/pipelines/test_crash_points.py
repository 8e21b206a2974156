"""A promotion or a rollback killed after each of its writes, and the same command run again.

Whatever the moment, the second run ends where an undisturbed one does: the same ledger, the same
traffic, no version made twice, no run left open, no scratch left behind.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pipelines import ownership, rollback, worker
from pipelines.ownership import Timing
from pipelines.promotion import promote
from tests.fakes import world as worlds
from tests.fakes.crash import PLANE_WRITES, Crash, Killed
from tests.fakes.record import MemoryEvidence, MemoryRun, MemoryVersions
from tests.fakes.world import FAST, World

NO_BEATS = Timing(beat_s=1000.0, lease_s=0.0, sleep=lambda s: pytest.fail("waited for the dead"))
SETTINGS: Mapping[str, Any] = {**FAST, "gates": {"margin_points": 20.0, "tag_margin_points": 20.0}}


@dataclass(frozen=True)
class Seen:
    """What is left of a command, for people and for callers."""

    ledger: tuple[tuple[str, int, str], ...]
    traffic: Mapping[int, int]
    running: tuple[int, ...]
    versions: tuple[str, ...]
    aliases: Mapping[str, int]
    open_runs: tuple[str, ...]
    scratch: tuple[str, ...]


def look(world: World) -> Seen:
    versions, evidence = world.record.versions, world.record.evidence
    assert isinstance(versions, MemoryVersions)
    assert isinstance(evidence, MemoryEvidence)
    entries = world.record.ledger.read("grammar").entries
    work = world.place.work
    return Seen(
        ledger=tuple((str(e.kind), e.version, e.digest) for e in entries),
        traffic=dict(world.plane.shares),
        running=world.plane.running(),
        versions=tuple(v.digest for v in versions.stored["grammar"]),
        aliases=dict(versions.aliases["grammar"]),
        open_runs=tuple(r for r, run in evidence.runs.items() if is_open(run)),
        scratch=tuple(p.name for p in work.iterdir()) if work.exists() else (),
    )


def is_open(run: MemoryRun) -> bool:
    return run.status == "RUNNING"


def command_of(world: World, name: str) -> Callable[[World], object]:
    """One of the commands that change what serves."""
    if name == "rollback":
        return roll_back
    wrong = {"promote": 0, "refused": 100, "first": 0}[name]
    request = world.request(1 if name == "first" else 2, **SETTINGS)
    world.wrong[request.checkpoint.digest] = wrong
    return lambda w: promote(request, w.place, timing=NO_BEATS)


def roll_back(world: World) -> None:
    begun = rollback.interrupted(world.record, "grammar", None)
    target = begun or rollback.target_of(world.record, "grammar", None)
    config = rollback.settings_of(world.record, "grammar", target)
    if begun is not None:
        rollback.restore(begun, config, world.place, timing=NO_BEATS)
    else:
        rollback.rollback(target, config, world.place, reason="complaints", timing=NO_BEATS)


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> World:
    """A world as it is before the command."""
    folder.mkdir()
    world = worlds.make(folder, monkeypatch, examples=120)
    for seed in {"first": (), "rollback": (1, 2)}.get(name, (1,)):
        request = world.request(seed, **SETTINGS)
        world.wrong[request.checkpoint.digest] = 0
        promote(request, world.place, timing=NO_BEATS)
    return world


def run_dying(world: World, command: Callable[[World], object], at: int | None) -> Crash:
    """Runs the command as a process of its own would run, killed after write `at`."""
    crash = Crash(at=None)
    crash.at = at
    real_work = worker.run
    place = dataclasses.replace(
        world.place,
        record=crash.record(world.record),
        plane=lambda epoch: crash.wrap(world.place.plane(epoch), PLANE_WRITES),
    )

    def work(*args: Any, **kwargs: Any) -> None:
        crash.write("worker", lambda: real_work(*args, **kwargs))

    worker.run = work  # type: ignore[assignment]
    try:
        if at == 0:
            raise Killed
        command(dataclasses.replace(world, place=place))
    except Killed:
        pass
    finally:
        worker.run = real_work
    return crash


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Every command counts as a process of its own; all but the newest are gone."""
    numbers = [0]
    monkeypatch.setattr(ownership, "this_process", lambda: f"here/boot/{numbers[0]}/0")
    monkeypatch.setattr(ownership, "is_gone", lambda owner: owner.split("/")[2] != str(numbers[0]))
    return numbers


@pytest.mark.parametrize("name", ["first", "promote", "refused", "rollback"])
def test_command_killed_after_any_write_ends_the_same_when_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: list[int], name: str
) -> None:
    calm = prepared(tmp_path / "calm", monkeypatch, name)
    crash = run_dying(calm, command_of(calm, name), None)
    wanted, writes = look(calm), crash.done
    assert len(writes) > 15
    assert wanted.open_runs == wanted.scratch == ()
    for at in range(len(writes)):
        world = prepared(tmp_path / f"{at}", monkeypatch, name)
        command = command_of(world, name)
        processes[0] += 1
        killed = run_dying(world, command, at)
        assert killed.done == writes[:at]
        processes[0] += 1
        command(world)
        after = f"killed after write {at} ({writes[at - 1] if at else 'none'})"
        assert look(world) == wanted, after
