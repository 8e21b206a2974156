"""Files are opened as what they are, up to a limit; nothing waits and nothing fills the memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from registry import reading


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("é")
    assert reading.read_text(tmp_path / "a", 2) == "é"
    assert reading.read_bytes(tmp_path / "a", 2) == "é".encode()


def test_a_pipe_that_nobody_writes_to_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    started_s = time.monotonic()
    with pytest.raises(reading.Unreadable, match="not a regular file"):
        reading.read_text(tmp_path / "pipe", 10)
    assert time.monotonic() - started_s < 5


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/dev/zero", "not a regular file"),
        ("/", "not a regular file"),
        ("/no/such/file", "does not exist"),
        ("/etc/hostname/x", "Not a directory"),
        ("x" * 5_000, "too long"),
        ("nul\0", "null"),
        ("/proc/self/environ", "more than 3 bytes"),
    ],
)
def test_what_is_no_file_to_read_is_told(path: str, told: str) -> None:
    with pytest.raises(reading.Unreadable, match=told):
        reading.read_bytes(Path(path), 3)


def test_what_passes_the_limit_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as handle:
        handle.truncate(1 << 40)
    with pytest.raises(reading.Unreadable, match=r"more than 1\.0 MiB"):
        reading.read_bytes(tmp_path / "sparse", 1 << 20)


def test_a_disk_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __enter__(self) -> Failing:
            return self

        def __exit__(self, *exc: object) -> None:
            pass

        def fileno(self) -> int:
            return 0

        def read(self, count: int) -> bytes:
            raise OSError(5, "Input/output error")

    (tmp_path / "a").write_text("a")
    monkeypatch.setattr(reading, "open_regular", lambda path: Failing())
    with pytest.raises(reading.Unreadable, match="Input/output error"):
        reading.read_bytes(tmp_path / "a", 1 << 40)
