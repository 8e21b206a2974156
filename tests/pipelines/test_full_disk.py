"""A disk that is full from any one file on: a clean error, nothing half left; later it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import PipelineError
from pipelines.promotion import Ending
from registry import disk
from registry.errors import RegistryError
from serving.errors import ServingError
from tests.fakes import world as worlds
from tests.fakes.full_disk import writing_fails
from tests.fakes.record import MemoryVersions
from tests.fakes.world import FAST, World

MOST_FILES = 40


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return worlds.make(tmp_path, monkeypatch)


def attempt(world: World, monkeypatch: pytest.MonkeyPatch, folder: Path, after: int) -> bool:
    """Whether a promotion came through with room for so many files; its error must be clean."""
    with writing_fails(monkeypatch, under=folder, after_files=after):
        try:
            world.promote(1, **FAST)
        except (RegistryError, PipelineError, ServingError):
            return False
        except OSError as exc:  # the stand-in worker's own; a real one is a process of its own
            if not disk.is_full(exc):
                raise
            return False
    return True


@pytest.mark.parametrize("name", ["cache", "work"])
def test_wherever_the_disk_fills_up_the_next_command_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    world.request(1)
    folder = world.folder / name
    failed = 0
    for after in range(MOST_FILES):
        if attempt(world, monkeypatch, folder, after):
            break
        failed += 1
        assert [p.name for p in folder.glob("part-*")] == []
        # An evaluation goes on where it was stopped; nothing else may be left.
        left = [p.name for p in (world.folder / "work").glob("*")]
        assert all(n.startswith("evaluate-") and n.count("-") == 1 for n in left), left
        assert len(world.record.ledger.read("grammar").entries) == 0
        assert world.plane.shares == {}
    assert 0 < failed < MOST_FILES
    assert list((world.folder / "work").glob("*")) == []
    versions = world.record.versions
    assert isinstance(versions, MemoryVersions)
    assert [v.version for v in versions.stored["grammar"]] == [1]
    assert world.plane.shares == {1: 100}
    assert world.promote(1, **FAST).ending is Ending.ALREADY_CHAMPION
