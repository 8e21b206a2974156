"""A backup file is whole and ours, or refused with the reason; nothing in it becomes a path."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.backup import Archive, layout, take, writer
from registry.errors import BackupInvalid
from tests.fakes import vault as vaults

NOW = "2026-11-29T18:00:00Z"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    path = tmp_path / "record.zip"
    take(vaults.filled(tmp_path), path, ["grammar"], now=NOW)
    return path


def test_what_was_taken_is_read_back(made: Path, tmp_path: Path) -> None:
    source = vaults.filled(tmp_path / "again")
    with Archive.open(made) as archive:
        assert archive.index.models == ("grammar",)
        assert archive.index.made_at == NOW
        assert archive.model("grammar") == source.models["grammar"]
        assert archive.ledger("grammar") == source.ledgers["grammar"]
        assert [v.version for v in archive.versions("grammar")] == [1, 2, 4]
        runs = archive.runs("grammar")
        assert {r.run_id for r in runs} == set(source.runs)
        assert archive.text("grammar", runs[0], "report.html") == "<p>gr\u00fc\u00df dich</p>"


def test_ledger_in_the_file_is_one_stored_item_a_line(made: Path, tmp_path: Path) -> None:
    stored = vaults.filled(tmp_path / "again").ledgers["grammar"].items
    with zipfile.ZipFile(made) as file:
        assert file.read("models/grammar/ledger.jsonl").decode().splitlines() == list(stored)


def test_same_content_is_the_same_file(made: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.zip"
    source = vaults.filled(tmp_path)
    take(source, again, ["grammar"], now=NOW)
    assert again.read_bytes() == made.read_bytes()


def test_nothing_is_replaced_and_nothing_half_written_is_left(made: Path, tmp_path: Path) -> None:
    before = made.read_bytes()
    source = vaults.filled(tmp_path)
    with pytest.raises(FileExistsError, match="choose another name"):
        take(source, made, ["grammar"], now=NOW)
    assert made.read_bytes() == before
    other = tmp_path / "other" / "b.zip"
    other.parent.mkdir()

    def stopped() -> None:
        with writer.writing(other) as out:
            out.add("models/grammar/model.json", b"{}")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert list(other.parent.iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "../evil.json", "/etc/passwd", "models/../../x.json", "models/grammar/versions/0.json",
        "models/grammar/runs/a/../b.json", "models/Grammar/model.json", "backup.json",
        "models/grammar/runs/a/.hidden.json", "models/grammar/runs/a/b/c.json",
        "models/grammar/runs/a/evil.pkl",
    ],
)  # fmt: skip
def test_writer_refuses_names_that_a_backup_never_has(tmp_path: Path, name: str) -> None:
    with writer.writing(tmp_path / "b.zip") as out, pytest.raises(ValueError, match="is no name"):
        out.add(name, b"x")


def altered(made: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """The same backup with members changed, and nothing else."""
    with zipfile.ZipFile(made) as file:
        members = {name: file.read(name) for name in file.namelist()}
    change(members)
    made.unlink()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return made


def reindexed(members: dict[str, bytes], /, **more: object) -> None:
    raw = json.loads(members[layout.INDEX])
    members[layout.INDEX] = json.dumps({**raw, **more}).encode()


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda m: m.update({"../../evil": b"x"}), "'../../evil', which no backup"),
        (lambda m: m.update({"/tmp/evil.json": b"x"}), "which no backup"),
        (lambda m: m.update({"models/grammar/runs/a/x.json": b"x"}), "has an unlisted"),
        (lambda m: m.pop("models/grammar/versions/2.json"), "lacks models/grammar/versions/2.json"),
        (lambda m: m.update({"models/grammar/ledger.jsonl": b"\n"}), "is not what was written"),
        (lambda m: m.pop(layout.INDEX), "there is no backup.json"),
        (lambda m: m.update({layout.INDEX: b"[1]"}), "is not an index"),
        (lambda m: m.update({layout.INDEX: b"[" * 9999}), "is not an index"),
        (lambda m: reindexed(m, format="liftlock/backup/v2"), "with the release that made it"),
        (lambda m: reindexed(m, models=["other"]), "does not hold the models"),
        (lambda m: reindexed(m, models=3), "models"),
        (lambda m: reindexed(m, members={"x": {"sha256": "0"}}), "does not hold what it must"),
    ],
)
def test_altered_backups_are_refused_with_the_reason(
    made: Path, change: Callable[[dict[str, bytes]], None], told: str
) -> None:
    with pytest.raises(BackupInvalid, match=told.replace("[", r"\[")):
        Archive.open(altered(made, change))


def test_two_members_of_one_name_are_refused(made: Path) -> None:
    with (
        pytest.warns(UserWarning, match="Duplicate name"),
        zipfile.ZipFile(made, "a") as file,
    ):
        file.writestr("models/grammar/model.json", b"{}")
    with pytest.raises(BackupInvalid, match="two members of one name"):
        Archive.open(made)


def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("models/grammar/model.json", b"0" * (layout.MAX_MEMBER_BYTES + 1))
    assert path.stat().st_size < 100_000
    with pytest.raises(BackupInvalid, match="would unpack to"):
        Archive.open(path)


def test_a_size_that_is_a_lie_unpacks_no_more_than_it_says(tmp_path: Path) -> None:
    path = tmp_path / "lie.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(layout.INDEX, b"0" * (4 << 20))
    data = bytearray(path.read_bytes())
    true, false = (4 << 20).to_bytes(4, "little"), (10).to_bytes(4, "little")
    path.write_bytes(bytes(data).replace(true, false))
    with pytest.raises(BackupInvalid, match="not a whole backup"):
        Archive.open(path)


@pytest.mark.parametrize("packing", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_packings_are_refused(tmp_path: Path, packing: int) -> None:
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", packing) as file:
        file.writestr(layout.INDEX, b"{}")
    with pytest.raises(BackupInvalid, match="packed in a way"):
        Archive.open(path)


def test_too_many_members_are_refused(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.backup.archive.MAX_MEMBERS", 3)
    with pytest.raises(BackupInvalid, match="members, a backup at most 3"):
        Archive.open(made)


@pytest.mark.parametrize("data", [b"", b"PK", b"{}", b"\x1f\x8b\x08\x00" + b"\0" * 40])
def test_what_is_no_zip_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "b.zip"
    path.write_bytes(data)
    with pytest.raises(BackupInvalid, match="is not a whole backup"):
        Archive.open(path)


@pytest.mark.parametrize("kind", ["nothing", "pipe", "endless"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "b.zip"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "endless":
        path.symlink_to("/dev/zero")
    with pytest.raises(BackupInvalid, match=r"b\.zip (is not a regular file|does not exist); name"):
        Archive.open(path)


@given(cut=st.floats(0, 1, exclude_max=True))
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_cut_off_file_is_refused(made: Path, cut: float) -> None:
    data = made.read_bytes()
    part = made.with_name("cut.zip")
    part.write_bytes(data[: int(len(data) * cut)])
    with pytest.raises(BackupInvalid):
        Archive.open(part)


@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_a_flipped_bit_is_refused_or_changes_nothing(made: Path, where: float, bit: int) -> None:
    """Some bits of a zip mean nothing to us (dates, owners); every other flip must be seen."""
    with Archive.open(made) as whole:
        expected = {name: whole.bytes(name) for name in whole.index.members}
    data = bytearray(made.read_bytes())
    data[int(len(data) * where)] ^= 1 << bit
    part = made.with_name("flipped.zip")
    part.write_bytes(bytes(data))
    try:
        found = Archive.open(part)
    except BackupInvalid:
        return
    with found:
        assert {name: found.bytes(name) for name in found.index.members} == expected


@pytest.mark.parametrize(
    ("member", "data", "told"),
    [
        ("models/grammar/model.json", b'{"model": "other", "description": "", "tags": {}, '
         b'"aliases": {}}', "calls itself 'other'"),
        ("models/grammar/model.json", b'{"model": 3}', "model.json in the backup does not hold"),
        ("models/grammar/ledger.json", b'{"keys": ["ledger.000001"]}', "has 3 items, 1 are"),
        ("models/grammar/ledger.jsonl", b"\xff\n\xff\n", "is not text"),
    ],
)  # fmt: skip
def test_well_hashed_nonsense_is_refused_too(
    made: Path, member: str, data: bytes, told: str
) -> None:
    def change(members: dict[str, bytes]) -> None:
        members[member] = data
        raw = json.loads(members[layout.INDEX])
        entry = writer.entry_of(data)
        raw["members"][member] = {"sha256": entry.sha256, "size_bytes": entry.size_bytes}
        members[layout.INDEX] = json.dumps(raw).encode()

    def read() -> None:
        with Archive.open(altered(made, change)) as archive:
            archive.model("grammar")
            archive.ledger("grammar")

    with pytest.raises(BackupInvalid, match=told):
        read()
