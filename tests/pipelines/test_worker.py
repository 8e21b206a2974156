"""A worker on a full disk is stopped, told, and nothing of it is left."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from pipelines import worker
from pipelines.errors import StageFailed
from registry.errors import OutOfSpace
from tests.fakes.full_disk import writing_fails

FAILING = "tests.pipelines.failing_worker"


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def started_since(before: set[int]) -> set[int]:
    return children() - before


@pytest.mark.parametrize("after", [0, 1])  # its request, its log
def test_no_room_for_a_worker_s_files_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    before = children()
    with (
        writing_fails(monkeypatch, under=tmp_path, after_files=after),
        pytest.raises(OutOfSpace, match=f"the disk ran full while running {FAILING}"),
    ):
        worker.run(FAILING, {"how": "sleep"}, tmp_path / "out", lambda _: None)
    assert started_since(before) == set()


def test_a_log_that_cannot_grow_stops_the_worker(tmp_path: Path) -> None:
    before = children()

    def full(line: str) -> None:
        raise OSError(28, os.strerror(28))

    with pytest.raises(OutOfSpace, match="ran full while running"):
        worker.run(FAILING, {"how": "sleep"}, tmp_path / "out", full)
    assert started_since(before) == set()


@pytest.mark.parametrize(
    ("how", "told"),
    [("memory", "ran out of memory"), ("full disk", "the disk ran full in"), ("abort", "SIGABRT")],
)
def test_how_a_worker_ends_is_told(tmp_path: Path, how: str, told: str) -> None:
    with pytest.raises(StageFailed, match=told):
        worker.run(FAILING, {"how": how}, tmp_path / "out", lambda _: None)


def test_a_real_limit_on_memory_is_told(tmp_path: Path) -> None:
    with pytest.raises(StageFailed, match=r"ran out of memory \(MemoryError\)"):
        worker.run(FAILING, {"how": "allocate"}, tmp_path / "out", lambda _: None)


def test_no_room_for_scratch_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object, **more: object) -> str:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr("tempfile.mkdtemp", full)
    with (
        pytest.raises(OutOfSpace, match="making a folder for a worker"),
        worker.scratch(tmp_path / "work", "evaluate"),
    ):
        raise AssertionError("there is no folder to work in")
    assert list((tmp_path / "work").iterdir()) == []
