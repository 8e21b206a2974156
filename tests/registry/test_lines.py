"""The append-only file: what was acknowledged is there, what was not is not."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from registry.errors import JournalBroken
from registry.lines import LineCorrupt, Lines, write_whole


def filled(path: Path, count: int = 3) -> Lines:
    lines = Lines(path)
    with lines.locked():
        for number in range(count):
            lines.append({"n": number, "text": "ü\n" * number})
    return lines


def numbers(lines: Lines) -> list[int]:
    return [line["n"] for line in lines.read()]


def test_lines_come_back_as_they_were(tmp_path: Path) -> None:
    filled(tmp_path / "new" / "x.jsonl")
    again = Lines(tmp_path / "new" / "x.jsonl")
    assert again.read()[2] == {"n": 2, "text": "ü\nü\n"}
    with again.locked():
        again.append({"n": 3, "value": float("nan")})
    assert numbers(again) == [0, 1, 2, 3]


def test_no_file_is_no_lines(tmp_path: Path) -> None:
    assert Lines(tmp_path / "none.jsonl").read() == []


def test_a_write_is_on_the_disk_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda h: synced.append(os.readlink(f"/proc/self/fd/{h}")))
    filled(tmp_path / "x.jsonl", 1)
    assert synced == [str(tmp_path / "x.jsonl"), str(tmp_path)]


def test_last_line_cut_anywhere_is_ignored_and_overwritten(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole.jsonl").path.read_bytes()
    start = whole[:-1].rfind(b"\n") + 1
    for cut in range(start, len(whole)):
        path = tmp_path / f"cut-{cut}.jsonl"
        path.write_bytes(whole[:cut])
        lines = Lines(path)
        assert numbers(lines) == [0, 1]
        with lines.locked():
            lines.append({"n": 9})
        assert numbers(lines) == [0, 1, 9]
        assert numbers(Lines(path)) == [0, 1, 9]


def test_any_changed_byte_of_a_whole_line_is_found_and_named(tmp_path: Path) -> None:
    whole = filled(tmp_path / "whole.jsonl").path.read_bytes()
    first, second = whole.find(b"\n") + 1, whole.find(b"\n", whole.find(b"\n") + 1)
    path = tmp_path / "changed.jsonl"
    for at in range(first, second):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(LineCorrupt, match=r"changed\.jsonl line 2 "):
            Lines(path).read()


def test_another_process_may_remove_and_begin_anew(tmp_path: Path) -> None:
    reader = filled(tmp_path / "x.jsonl", 1)
    assert numbers(reader) == [0]
    other = Lines(reader.path)
    for count in (1, 3, 2):
        with other.locked():
            other.remove()
        assert reader.read() == []
        filled(other.path, count)
        assert numbers(reader) == list(range(count))


def test_replacing_is_seen_whole(tmp_path: Path) -> None:
    lines = filled(tmp_path / "x.jsonl")
    with lines.locked():
        lines.replace([{"n": 7}])
    assert numbers(lines) == [7]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x.jsonl", "x.jsonl.lock"]


@pytest.mark.parametrize("room", [0, 1, 40])
def test_full_disk_is_said_and_leaves_nothing_half(tmp_path: Path, room: int) -> None:
    lines = filled(tmp_path / "x.jsonl")
    before = lines.path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + room, limits[1]))
    try:
        with lines.locked(), pytest.raises(JournalBroken, match=r"x\.jsonl failed: .*[Mm]ake room"):
            lines.append({"n": 3, "text": "x" * 100})
        with pytest.raises(JournalBroken, match=r"whole\.txt"):
            write_whole(tmp_path / "whole.txt", b"x" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert lines.path.read_bytes() == before
    assert not (tmp_path / "whole.txt").exists()
    with lines.locked():
        lines.append({"n": 3})
    assert numbers(lines) == [0, 1, 2, 3]


def test_only_one_writer_at_a_time(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def write(number: int) -> None:
        mine = Lines(tmp_path / "x.jsonl")
        with mine.locked():
            mine.append({"n": len(mine.read()), "by": number})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(40)))
    assert numbers(Lines(tmp_path / "x.jsonl")) == list(range(40))


WRITER = """
import sys
from pathlib import Path
from registry.lines import Lines
lines = Lines(Path(sys.argv[1]))
n = len(lines.read())
while True:
    with lines.locked():
        lines.append({"n": n, "text": "x" * (n % 5000)})
    print(n, flush=True)
    n += 1
"""


@pytest.mark.slow
def test_writer_killed_outright_has_lost_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    path, acknowledged = tmp_path / "x.jsonl", -1
    for kill_after in (1, 20, 50, 7):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for _ in range(kill_after):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
        found = numbers(Lines(path))
        assert found == list(range(len(found)))
        assert len(found) > acknowledged
