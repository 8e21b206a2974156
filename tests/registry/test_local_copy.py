"""The copy for going back without MLflow: what it says is what was kept, or it says nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from registry import checkpoint
from registry.errors import JournalBroken, NotFound, RecordConflict, RegistryError
from registry.ledger import Kind, Log, MarkKind
from registry.local_copy import LocalCopy, LocalRollback
from registry.model import ModelVersion, Tag
from tests.fakes.weather import Killed


@pytest.fixture
def copy(tmp_path: Path) -> LocalCopy:
    return LocalCopy(tmp_path / "grammar" / "copy")


def log(count: int, reason: str = "r") -> Log:
    made = Log()
    for number in range(1, count + 1):
        said = {"actor": "ä", "reason": reason, "at": "2030-01-01T00:00:00Z", "epoch": number}
        made = made.with_item(made.mark(MarkKind.CLAIM, owner="me", **said))
        entry = made.entry(
            Kind.PROMOTE, version=number, digest=f"sha256:{number}", policy_digest="sha256:p",
            evidence_run="run", **said,
        )  # fmt: skip
        made = made.with_item(entry)
    return made


@pytest.fixture
def version(checkpoint_dir: Path) -> ModelVersion:
    manifest = checkpoint.inspect(checkpoint_dir).manifest
    return ModelVersion(
        model="grammar", version=7, digest=manifest.digest, source="models:/m-7", model_id="m-7",
        manifest=manifest, tags={Tag.SCHEME: "f32"},
    )  # fmt: skip


def test_what_is_kept_is_loaded_as_it_was(copy: LocalCopy, version: ModelVersion) -> None:
    copy.save_log(log(3))
    copy.save_version(version)
    copy.save_settings(3, "model: grammar\nname: ü\n")
    again = LocalCopy(copy.folder)
    assert again.load_log() == log(3)
    assert again.load_version(7) == version
    assert again.load_settings(3) == "model: grammar\nname: ü\n"
    assert (copy.folder / "ledger.jsonl").read_text().startswith(log(3).to_jsonl())


def test_nothing_kept_is_said_so(copy: LocalCopy) -> None:
    for load in (copy.load_log, lambda: copy.load_version(1), lambda: copy.load_settings(1)):
        with pytest.raises(NotFound):
            load()
    assert copy.rollbacks.all() == ()
    copy.save_log(Log())
    assert copy.load_log() == Log()


def test_older_state_does_not_replace_a_newer_one(copy: LocalCopy) -> None:
    for count in (2, 4, 3, 0):
        copy.save_log(log(count))
    assert copy.load_log() == log(4)


def test_another_history_is_not_taken(copy: LocalCopy) -> None:
    copy.save_log(log(3))
    with pytest.raises(RecordConflict, match="is not the one that was kept"):
        copy.save_log(log(4, reason="rewritten"))
    assert copy.load_log() == log(3)


def test_broken_chain_is_not_loaded(copy: LocalCopy) -> None:
    first, second = log(1).items
    copy.save_log(Log(items=(first, dataclasses.replace(second, previous_hash="0" * 64))))
    with pytest.raises(RecordConflict, match="does not continue"):
        copy.load_log()


def test_any_damage_is_an_error_and_never_another_answer(
    copy: LocalCopy, version: ModelVersion
) -> None:
    copy.save_log(log(2))
    copy.save_version(version)
    copy.save_settings(2, "model: grammar\n")
    loads: dict[str, Callable[[], object]] = {
        "ledger.jsonl": copy.load_log,
        "versions/7.json": lambda: LocalCopy(copy.folder).load_version(7),
        "settings/000002.yaml": lambda: copy.load_settings(2),
    }
    for name, load in loads.items():
        path = copy.folder / name
        whole, right = path.read_bytes(), load()
        damaged = [whole[:at] for at in range(0, len(whole), 37)]
        damaged += [
            whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :] for at in range(0, len(whole), 23)
        ]
        for content in damaged:
            path.write_bytes(content)
            try:
                found = load()
            except RegistryError:
                continue
            assert found == right, (name, content)
        path.write_bytes(whole)


def test_damaged_log_is_made_again(copy: LocalCopy) -> None:
    copy.save_log(log(3))
    path = copy.folder / "ledger.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    copy.save_log(log(2))
    assert copy.load_log() == log(2)


def test_version_with_another_manifest_is_not_loaded(
    copy: LocalCopy, version: ModelVersion
) -> None:
    copy.save_version(dataclasses.replace(version, digest="sha256:other"))
    with pytest.raises(RecordConflict, match="do not serve it"):
        copy.load_version(7)


@pytest.mark.parametrize("operation", ["pwrite", "fsync", "replace"])
@pytest.mark.parametrize("after", [False, True])
def test_killed_while_saving_leaves_the_old_or_the_new(
    copy: LocalCopy, operation: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = getattr(os, operation)
    left = [0]

    def deadly(*args: Any, **kwargs: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not after:
            raise Killed
        result = real(*args, **kwargs)
        if left[0] == 0:
            raise Killed
        return result

    for at in itertools.count(1):
        copy.save_log(log(at))
        with monkeypatch.context() as patched:
            patched.setattr(os, operation, deadly)
            left[0] = at
            with contextlib.suppress(Killed):
                copy.save_log(log(at + 1))
        assert LocalCopy(copy.folder).load_log() in (log(at), log(at + 1))
        if left[0] > 0:
            break
    assert at > 1


def rollback(number: int) -> LocalRollback:
    return LocalRollback(
        version=number, digest=f"sha256:{number}", actor="a@host", reason="it lied",
        at="2030-01-01T00:00:00Z", epoch=number, ledger_seen_hash="0" * 64,
    )  # fmt: skip


def test_rollbacks_wait_until_they_are_settled(copy: LocalCopy) -> None:
    for number in (1, 2, 3):
        copy.rollbacks.add(rollback(number))
    again = LocalCopy(copy.folder).rollbacks
    assert again.all() == (rollback(1), rollback(2), rollback(3))
    again.settle(rollback(2))
    again.settle(rollback(2))
    assert copy.rollbacks.all() == (rollback(1), rollback(3))


def test_rollback_half_written_was_never_said_to_be_kept(copy: LocalCopy) -> None:
    copy.rollbacks.add(rollback(1))
    path = copy.folder / "rollbacks.jsonl"
    path.write_bytes(path.read_bytes() + path.read_bytes()[:30])
    assert copy.rollbacks.all() == (rollback(1),)
    copy.rollbacks.add(rollback(2))
    assert LocalCopy(copy.folder).rollbacks.all() == (rollback(1), rollback(2))


def test_rollback_of_another_release_is_an_error(copy: LocalCopy) -> None:
    from registry.lines import Lines

    lines = Lines(copy.folder / "rollbacks.jsonl")
    with lines.locked():
        lines.append({"version": 1})
    with pytest.raises(JournalBroken, match="another release"):
        copy.rollbacks.all()
