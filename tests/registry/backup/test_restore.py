"""A backup makes an empty server hold the same, and nothing else whatever happens meanwhile."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from registry import ledger
from registry.backup import Archive, restore, take
from registry.backup.restore import Ending
from registry.errors import BackupInvalid, NotFound, RecordConflict
from registry.model import Tag
from tests.fakes import vault as vaults
from tests.fakes.vault import Killed, MemoryVault

NOW = "2026-11-29T18:00:00Z"


@pytest.fixture
def source(tmp_path: Path) -> MemoryVault:
    return vaults.filled(tmp_path)


@pytest.fixture
def archive(source: MemoryVault, tmp_path: Path) -> Iterator[Archive]:
    path = tmp_path / "record.zip"
    taken = take(source, path, ["grammar"], now=NOW)
    assert taken.problems == ()
    with Archive.open(path) as opened:
        yield opened


def test_empty_server_holds_the_same_afterwards(source: MemoryVault, archive: Archive) -> None:
    target = MemoryVault()
    (done,) = restore(archive, target, ["grammar"])
    assert (done.ending, done.items, done.versions, done.runs) == (Ending.RESTORED, 3, 3, 7)
    assert done.problems == ()
    assert target.ledgers == source.ledgers
    assert target.found == source.found
    assert target.models == source.models
    assert target.runs == source.runs
    assert target.texts == source.texts
    assert target.given == {"grammar": 4}  # the next version is 5, as it would have been


def test_same_model_there_already_is_left_alone(source: MemoryVault, archive: Archive) -> None:
    (done,) = restore(archive, source, ["grammar"])
    assert done.ending is Ending.ALREADY_THERE
    assert source.steps == 0


def test_other_model_of_that_name_is_refused_and_named(
    source: MemoryVault, archive: Archive
) -> None:
    head = source.ledgers["grammar"].head
    shorter = dataclasses.replace(
        source.ledgers["grammar"],
        head=dataclasses.replace(head, keys=head.keys[:1]),
        items=source.ledgers["grammar"].items[:1],
    )
    source.ledgers["grammar"] = shorter
    with pytest.raises(RecordConflict, match="1 ledger items and versions 1, 2, 4 there, 3 and"):
        restore(archive, source, ["grammar"])
    assert source.steps == 0


def test_killed_before_any_step_the_same_command_goes_on(
    source: MemoryVault, archive: Archive
) -> None:
    whole = MemoryVault()
    restore(archive, whole, ["grammar"])
    for step in range(whole.steps):
        target = MemoryVault(dies_after=step)
        with pytest.raises(Killed):
            restore(archive, target, ["grammar"])
        held = target.ledgers.get("grammar")
        assert held is None or held == source.ledgers["grammar"]  # never a part of it
        if held is not None:
            assert target.found == source.found
        target.dies_after = None
        (done,) = restore(archive, target, ["grammar"])
        assert done.ending is Ending.RESTORED
        assert dataclasses.replace(target, steps=0) == dataclasses.replace(whole, steps=0)


def test_restore_that_another_backup_began_is_not_touched(
    source: MemoryVault, archive: Archive, tmp_path: Path
) -> None:
    target = MemoryVault(dies_after=5)
    with pytest.raises(Killed):
        restore(archive, target, ["grammar"])
    target.dies_after = None
    take(source, tmp_path / "later.zip", ["grammar"], now="2026-11-30T00:00:00Z")
    steps = target.steps
    with (
        Archive.open(tmp_path / "later.zip") as later,
        pytest.raises(RecordConflict, match="being restored from another backup"),
    ):
        restore(later, target, ["grammar"])
    assert target.steps == steps


def test_nothing_is_written_when_one_of_several_models_is_refused(tmp_path: Path) -> None:
    source = vaults.filled(tmp_path / "a")
    other = vaults.filled(tmp_path / "b", "spelling")
    for name in ("models", "ledgers", "found", "given"):
        getattr(source, name).update(getattr(other, name))
    path = tmp_path / "two.zip"
    take(source, path, ["grammar", "spelling"], now=NOW)
    target = MemoryVault()
    target.models["spelling"] = source.models["spelling"]
    with Archive.open(path) as archive:
        with pytest.raises(RecordConflict, match="spelling is on memory: already"):
            restore(archive, target, ["grammar", "spelling"])
        assert target.steps == 0
        (done,) = restore(archive, target, ["grammar"])
    assert done.ending is Ending.RESTORED


def test_weights_that_are_gone_are_named_and_the_rest_is_restored(archive: Archive) -> None:
    target = MemoryVault(faults={2: "model.safetensors is not there"})
    (done,) = restore(archive, target, ["grammar"])
    assert done.problems == ("weights of version 2 of grammar: model.safetensors is not there",)
    assert target.ledgers["grammar"].items


def test_what_cannot_be_read_is_left_out_with_its_number_kept(
    source: MemoryVault, tmp_path: Path
) -> None:
    source.unreadable = {2: "its manifest is gone"}
    del source.runs["gate1"]
    del source.texts["promotion4", "report.html"]
    path = tmp_path / "part.zip"
    taken = take(source, path, ["grammar"], now=NOW)
    assert len(taken.problems) == 3
    assert any("version 2 of grammar is left out" in p for p in taken.problems)
    assert any("gate1" in p for p in taken.problems)
    target = MemoryVault()
    with Archive.open(path) as archive:
        (done,) = restore(archive, target, ["grammar"])
        assert sorted(target.found["grammar"]) == [1, 4]
        assert target.given["grammar"] == 4
        assert done.problems == (
            "version 2 of grammar was not in the backup: its manifest is gone",
        )
        assert restore(archive, source, ["grammar"])[0].ending is Ending.ALREADY_THERE


def test_numbers_that_only_the_ledger_knows_are_used_up(
    source: MemoryVault, tmp_path: Path
) -> None:
    del source.found["grammar"][4]
    source.models["grammar"] = dataclasses.replace(
        source.models["grammar"], aliases={"previous": 1}
    )
    path = tmp_path / "b.zip"
    take(source, path, ["grammar"], now=NOW)
    target = MemoryVault()
    with Archive.open(path) as archive:
        restore(archive, target, ["grammar"])
    assert sorted(target.found["grammar"]) == [1, 2]
    assert target.given["grammar"] == 4


def test_model_without_a_ledger_and_ledger_without_a_model(tmp_path: Path) -> None:
    source = vaults.filled(tmp_path)
    del source.ledgers["grammar"]
    path = tmp_path / "b.zip"
    take(source, path, ["grammar"], now=NOW)
    target = MemoryVault()
    with Archive.open(path) as archive:
        assert restore(archive, target, ["grammar"])[0].items == 0
    assert "grammar" not in target.ledgers
    only = vaults.filled(tmp_path / "again")
    only.models, only.found = {}, {}
    other = tmp_path / "c.zip"
    take(only, other, ["grammar"], now=NOW)
    target = MemoryVault()
    with Archive.open(other) as archive:
        assert restore(archive, target, ["grammar"])[0].items == 3
    assert target.given["grammar"] == 4


def test_broken_ledger_is_not_backed_up(source: MemoryVault, tmp_path: Path) -> None:
    facts = source.ledgers["grammar"]
    claim, first, second = facts.items
    raw = json.loads(first)
    forged = json.dumps({**raw, "version": 9}, sort_keys=True, separators=(",", ":"))
    source.ledgers["grammar"] = dataclasses.replace(facts, items=(claim, forged, second))
    with pytest.raises(RecordConflict, match="was altered"):
        take(source, tmp_path / "b.zip", ["grammar"], now=NOW)
    assert not (tmp_path / "b.zip").exists()


def test_backup_that_contradicts_itself_is_refused(
    source: MemoryVault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = source.found["grammar"][2]
    source.found["grammar"][2] = dataclasses.replace(
        version, tags={**version.tags, Tag.DIGEST.value: "sha256:0"}
    )
    path = tmp_path / "b.zip"
    take(source, path, ["grammar"], now=NOW)
    target = MemoryVault()
    with Archive.open(path) as archive:
        with pytest.raises(BackupInvalid, match="tagged sha256:0, its manifest says"):
            restore(archive, target, ["grammar"])
        with pytest.raises(NotFound, match="it holds: grammar"):
            restore(archive, target, ["absent"])
    assert target.steps == 0


def test_ledger_restored_is_verified_by_its_own_hashes(archive: Archive) -> None:
    target = MemoryVault()
    restore(archive, target, ["grammar"])
    log = ledger.parse(target.ledgers["grammar"].params)
    assert [e.version for e in log.entries] == [1, 4]
    assert log.epoch == 3
