"""`python -m tests.pipelines.other_process SETTINGS.json`: a command in a process of its own.

Promotes checkpoints one after another against a real tracking server, with recorded answers and a
plane in a file. What it is to do, and where it is to be paused or killed, lies in the settings.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pipelines import promotion, rollback
from pipelines.errors import NotNow
from pipelines.ownership import Timing
from registry.mlflow_store import connect
from serving.errors import ServingError
from tests.fakes import world as worlds
from tests.fakes.crash import PLANE_WRITES, Crash
from tests.fakes.file_plane import FilePlane
from tests.fakes.world import FAST, World

WIDE = {"gates": {"margin_points": 20.0, "tag_margin_points": 20.0}}


@dataclasses.dataclass
class Wanted:
    """What the process is asked to do."""

    uri: str
    model: str
    folder: str
    plane: str
    seeds: list[int]
    verb: str = "promote"
    wrong: int = 0
    beat_s: float = 1.0
    lease_s: float = 30.0
    persist: bool = False
    """Tries again while another owner is at it."""
    signal_after: int | None = None
    """After this many writes the process signals itself."""
    signal: int = signal.SIGKILL
    exclusive: str = ""
    """A file that exists while a promotion is at work; two at once are an error."""
    report: str = ""
    """A file that the writes done are listed in."""


def main() -> int:
    wanted = Wanted(**json.loads(Path(sys.argv[1]).read_text()))
    with pytest.MonkeyPatch.context() as patch:
        return run(wanted, patch)


def run(wanted: Wanted, patch: pytest.MonkeyPatch) -> int:
    world = world_of(wanted, patch)
    crash = Crash(at=None, die=lambda: stop(wanted.signal))
    crash.at = wanted.signal_after
    real = world.place
    place = dataclasses.replace(
        real,
        record=crash.record(real.record),
        plane=lambda epoch: crash.wrap(real.plane(epoch), PLANE_WRITES),
    )
    world = dataclasses.replace(world, place=place)
    try:
        for seed in wanted.seeds:
            one(world, wanted, seed)
    except (NotNow, ServingError) as exc:
        print(f"{type(exc).__name__}: {exc}")
        return 6
    if wanted.report:
        Path(wanted.report).write_text(json.dumps(crash.done))
    return 0


def stop(number: int) -> None:
    os.kill(os.getpid(), number)


def world_of(wanted: Wanted, patch: pytest.MonkeyPatch) -> World:
    folder = Path(wanted.folder)
    folder.mkdir(parents=True, exist_ok=True)
    plane: Any = FilePlane(Path(wanted.plane))
    record = connect(wanted.uri)
    world = worlds.make(folder, patch, record=record, plane=plane, examples=120)
    edge_epoch = lambda: claim.epoch if (claim := plane.state().claim) is not None else 0  # noqa: E731
    place = dataclasses.replace(world.place, edge_epoch=edge_epoch)
    if wanted.exclusive:
        real = promotion._promote

        def alone(*args: Any) -> Any:
            marker = os.open(wanted.exclusive, os.O_CREAT | os.O_EXCL)
            try:
                return real(*args)
            finally:
                os.close(marker)
                os.unlink(wanted.exclusive)

        patch.setattr(promotion, "_promote", alone)
    return dataclasses.replace(world, place=place)


def one(world: World, wanted: Wanted, seed: int) -> None:
    timing = Timing(beat_s=wanted.beat_s, lease_s=wanted.lease_s)
    while True:
        try:
            if wanted.verb == "rollback":
                go_back(world, wanted.model, timing)
            else:
                request = world.request(seed, model=wanted.model, **FAST, **WIDE)
                world.wrong[request.checkpoint.digest] = wanted.wrong
                promotion.promote(request, world.place, timing=timing)
            return
        except NotNow:
            if not wanted.persist:
                raise
            time.sleep(0.05)


def go_back(world: World, model: str, timing: Timing) -> None:
    begun = rollback.interrupted(world.record, model, None)
    target = begun or rollback.target_of(world.record, model, None)
    config = rollback.settings_of(world.record, model, target)
    if begun is not None:
        rollback.restore(begun, config, world.place, timing=timing)
    else:
        rollback.rollback(target, config, world.place, reason="complaints", timing=timing)


if __name__ == "__main__":
    sys.exit(main())
