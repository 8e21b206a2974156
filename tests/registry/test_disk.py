"""A disk with too little room is told before, one that runs full is told then."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import pytest

from registry import cache, checkpoint, disk
from registry.errors import OutOfSpace
from tests.fakes import checkpoints
from tests.fakes.full_disk import writing_fails


def test_too_little_room_is_told_with_both_numbers(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(OutOfSpace, match=r"the copies need .* free at .*; free some, or choose"):
        disk.require(tmp_path / "not" / "there", 2 * free, "the copies")
    disk.require(tmp_path, 1, "the copies")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_an_error_that_means_a_full_disk_is_translated(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(OutOfSpace, match="the disk ran full while copying"),
        disk.told("copying", tmp_path),
    ):
        raise OSError(number, os.strerror(number))
    with pytest.raises(PermissionError), disk.told("copying", tmp_path):
        raise PermissionError(errno.EACCES, "no")


def test_the_cache_asks_for_room_before_it_copies(
    tmp_path: Path, checkpoint_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = checkpoint.inspect(checkpoint_dir).manifest
    monkeypatch.setattr(disk, "free_bytes", lambda folder: disk.SPARE_BYTES)
    with pytest.raises(OutOfSpace, match="in the cache need"):
        cache.adopt(manifest, checkpoint_dir, tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("after", range(5))
def test_a_disk_that_fills_up_while_copying_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    directory = checkpoints.make(tmp_path / "ck")
    manifest = checkpoint.inspect(directory).manifest
    with (
        writing_fails(monkeypatch, under=tmp_path / "cache", after_files=after),
        pytest.raises(OutOfSpace, match="ran full while copying a checkpoint into the cache"),
    ):
        cache.adopt(manifest, directory, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    assert cache.adopt(manifest, directory, tmp_path / "cache").is_dir()


def test_a_file_limit_of_the_process_is_met_like_a_full_disk(tmp_path: Path) -> None:
    """A real limit, in a process of its own: the kernel refuses, and the copy is gone."""
    import subprocess
    import sys

    directory = checkpoints.make(tmp_path / "ck")
    code = (
        "import resource, signal, sys; from pathlib import Path; "
        "from registry import cache, checkpoint; "
        "manifest = checkpoint.inspect(Path(sys.argv[1])).manifest; "
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200)); "
        "cache.adopt(manifest, Path(sys.argv[1]), Path(sys.argv[2]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(directory), str(tmp_path / "cache")],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "OutOfSpace: the disk ran full while copying" in ran.stderr
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Path:
    """A real disk of one MiB, where this process may mount one."""
    import subprocess

    where = tmp_path / "small"
    where.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(where)],
        capture_output=True, check=False,
    )  # fmt: skip
    if mounted.returncode != 0:
        pytest.skip(f"mounting is not possible here: {mounted.stderr.decode().strip()}")
    return where


def test_a_real_full_disk_leaves_nothing(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import subprocess

    try:
        directory = checkpoints.make(tmp_path / "ck")
        (directory / "notes.md").write_bytes(b"x" * (2 << 20))
        manifest = checkpoint.inspect(directory).manifest
        with pytest.raises(OutOfSpace, match=r"in the cache need 2\.0 MiB"):
            cache.adopt(manifest, directory, small_disk / "cache")
        assert list(small_disk.iterdir()) == []
        monkeypatch.setattr(disk, "require", lambda *args: None)  # another takes the room meanwhile
        with pytest.raises(OutOfSpace, match="ran full while copying"):
            cache.adopt(manifest, directory, small_disk / "cache")
        assert list((small_disk / "cache").iterdir()) == []
    finally:
        subprocess.run(["umount", str(small_disk)], check=False)
