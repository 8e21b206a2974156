"""Looking again and again."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence

import pytest

from jobs.status import watch
from jobs.status.facts import Status
from tests.jobs.status import world as worlds
from tests.jobs.status.world import World, serving


class Watched:
    """A look that lets things happen and is interrupted after the last one."""

    def __init__(self, world: World, *happen: Callable[[World], None]) -> None:
        self.world = world
        self.observer = world.observer()
        self.happen = list(happen)

    def __call__(self) -> Sequence[Status]:
        if not self.happen:
            raise KeyboardInterrupt
        self.happen.pop(0)(self.world)
        self.world.time_s += 2.0
        return (self.observer.look(),)


def nothing(world: World) -> None:
    pass


def requests(world: World) -> None:
    world.on_sleep()


def freeze(world: World) -> None:
    world.frozen = worlds.freeze()


@pytest.fixture
def pace(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Sleeps are kept instead of slept."""
    slept: list[float] = []
    monkeypatch.setattr("jobs.status.watch.time.sleep", slept.append)
    return slept


def test_piped_it_prints_one_line_per_change_and_ends_quietly(
    pace: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    look = Watched(serving(), nothing, requests, requests, freeze, nothing)
    watch.watch(look, every_s=2.0, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("2026-11-29T18:00:00Z  grammar version 2 is champion")
    assert "frozen" in lines[1]
    assert all(1.0 < seconds <= 2.0 for seconds in pace)


def test_json_is_one_line_per_look(pace: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    watch.watch(Watched(serving(), nothing, requests), every_s=2.0, as_json=True)
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [f["model"] for f in found] == ["grammar", "grammar"]


def test_on_a_terminal_it_redraws_in_place(
    pace: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    watch.watch(Watched(serving(), nothing, freeze), every_s=2.0, as_json=False)
    drawn = terminal.getvalue()
    first, again = drawn.split("\x1b[2K", 1)  # what clears a line of the drawing before
    assert "version 2 (000000000000)" in first
    assert "frozen" not in first
    assert "\x1b[1A" in again
    assert "frozen    by bob@host" in again
