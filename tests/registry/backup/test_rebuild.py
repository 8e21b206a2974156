"""From nothing: the database is gone, the artifacts are left, and a backup brings all back."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs.settings import Settings
from jobs.stack import Stack
from registry import cache, checkpoint
from registry.backup import Archive, restore, take
from registry.backup.restore import Ending
from registry.errors import NotFound, RecordConflict
from registry.ledger import Kind, Log, MarkKind
from registry.mlflow_store import connect, vault
from registry.mlflow_store.backup_target import MlflowVault
from registry.model import ModelVersion, Tag
from registry.store import Record, Registration
from tests.conftest import free_port
from tests.fakes import checkpoints
from tests.fakes.vault import Killed

pytestmark = pytest.mark.slow
NOW = "2026-11-29T18:00:00Z"
CHANGES = ("create_", "log_", "set_", "update_", "delete_", "finalize_")


class Dying:
    """An MlflowClient whose process is killed before one change too many."""

    def __init__(self, client: Any, changes: int) -> None:
        self._client = client
        self._left = changes

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._client, name)
        if not name.startswith(CHANGES):
            return call

        def counted(*args: Any, **more: Any) -> Any:
            if self._left <= 0:
                raise Killed
            self._left -= 1
            return call(*args, **more)

        return counted


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    home = tmp_path / "home"
    made = Stack(settings=Settings(home=home, mlflow_port=free_port()), note=lambda _: None)
    try:
        yield made
    finally:
        made.down()


def client_of(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def promoted(record: Record, folder: Path, seed: int) -> tuple[ModelVersion, str]:
    """A version, and a run with a gate as a promotion leaves them."""
    evidence = record.evidence
    run = evidence.open("grammar", f"promote ck{seed}", {Tag.STAGE: "promotion"}, None)
    register = evidence.open("grammar", "register", {Tag.STAGE: "register"}, run)
    version = record.versions.register(
        "grammar",
        checkpoint.inspect(checkpoints.make(folder / f"ck{seed}", seed=seed)),
        Registration(name=f"ck{seed}", run_id=register, tags={Tag.SCHEME: "f32"}),
    )
    evidence.close(register, tags={})
    gate = evidence.open("grammar", "gate", {Tag.STAGE: "gate", Tag.INPUTS: "sha256:i"}, run)
    evidence.log(gate, params={"verdict": "pass"}, metrics={"all/rate": 0.99})
    evidence.text(gate, "verdict.json", '{"status": "pass"}')
    evidence.close(gate, tags={})
    evidence.log(run, params={"gate_run": gate, "actor": "ana@host"})
    evidence.text(run, "promotion.yaml", f"model: grammar  # {seed}\n")
    evidence.text(run, "report.html", f"<h1>gr\u00fc\u00df {seed}</h1>")
    evidence.table(run, "stages.json", {"seconds": [1.5]})
    evidence.close(run, tags={Tag.ENDING: "promoted", "mlflow.note.content": "passed"})
    record.versions.tag(version, {Tag.GATE_RUN: gate})
    record.versions.describe("grammar", version.version, f"summary of {seed}")
    return version, run


def fill(record: Record, uri: str, folder: Path) -> Log:
    """Versions 1 and 3 were promoted, 2 was deleted."""
    for seed in (1, 2, 3):
        version, run = promoted(record, folder, seed)
        if seed == 2:
            client_of(uri).delete_model_version("grammar", "2")
            continue
        given: dict[str, Any] = {"actor": "ana@host", "at": NOW, "epoch": seed}
        log = record.ledger.read("grammar")
        mark = log.mark(MarkKind.CLAIM, owner="host/boot/1/2", reason="promote", **given)
        record.ledger.append("grammar", mark)
        entry = log.with_item(mark).entry(
            Kind.PROMOTE, version=version.version, digest=version.digest,
            policy_digest="sha256:p", evidence_run=run, reason="all gates passed", **given,
        )  # fmt: skip
        record.ledger.append("grammar", entry)
        record.ledger.beat("grammar", seed, "3 x released")
    record.versions.mirror("grammar", {"champion": 3, "previous": 1})
    record.versions.describe("grammar", None, "**Serving: version 3**")
    return record.ledger.read("grammar")


def restored_in_bits(archive: Archive, uri: str) -> int:
    """Killed again and again, each time after one change more than the time before."""
    for attempt in range(1, 200):
        dying = MlflowVault(Dying(client_of(uri), attempt), uri)
        try:
            (done,) = restore(archive, dying, ["grammar"])
        except Killed:
            continue
        assert done.ending is Ending.RESTORED
        assert done.problems == ()
        return attempt
    raise AssertionError("it never came to an end")


def test_rebuilt_from_nothing_however_often_it_is_killed(stack: Stack, tmp_path: Path) -> None:
    uri = stack.tracking_uri()
    before = connect(uri)
    log = fill(before, uri, tmp_path)
    file = tmp_path / "record.zip"
    taken = take(vault(uri), file, ["grammar"], now=NOW)
    assert (taken.problems, taken.parts[0].runs) == ((), 6)
    champion = before.versions.get("grammar", 3)

    stack.mlflow.stop()
    (stack.settings.home / "mlflow" / "mlflow.db").unlink()
    assert stack.tracking_uri() == uri
    with Archive.open(file) as archive:
        assert restored_in_bits(archive, uri) > 5
        (again,) = restore(archive, vault(uri), ["grammar"])
        assert again.ending is Ending.ALREADY_THERE

    after = connect(uri)
    assert after.ledger.read("grammar") == log
    assert after.ledger.beats("grammar") == {1: "3 x released", 3: "3 x released"}
    _check_versions(after, champion, tmp_path)
    _check_evidence(after, log, uri)
    _check_second_backup(file, uri, tmp_path)
    _check_numbering_goes_on(after, tmp_path)
    _check_weights_are_missed(stack, uri, champion)
    _check_changed_model_is_refused(file, uri)


def _check_versions(after: Record, champion: ModelVersion, tmp_path: Path) -> None:
    found = after.versions.get("grammar", 3)
    assert (found.digest, found.manifest) == (champion.digest, champion.manifest)
    kept = {k: v for k, v in champion.tags.items() if k != Tag.STORAGE}
    assert {k: v for k, v in found.tags.items() if k != Tag.STORAGE} == kept
    folder = cache.fetch(after.versions, found, tmp_path / "cache")
    assert checkpoint.inspect(folder).digest == champion.digest
    with pytest.raises(NotFound):
        after.versions.get("grammar", 2)
    assert after.versions.find("grammar", champion.digest) == found


def _check_evidence(after: Record, log: Log, uri: str) -> None:
    run = log.entries[-1].evidence_run
    assert after.evidence.read(run, "promotion.yaml") == "model: grammar  # 3\n"
    assert after.evidence.read(run, "report.html") == "<h1>gr\u00fc\u00df 3</h1>"
    assert after.evidence.url(run).startswith(uri)
    assert run not in after.evidence.url(run)
    gate = after.versions.get("grammar", 3).tags[Tag.GATE_RUN]
    assert after.evidence.read(gate, "verdict.json") == '{"status": "pass"}'
    with pytest.raises(NotFound):
        after.evidence.read("0" * 32, "report.html")
    (newest, *_) = after.evidence.recent("grammar", "promotion", 5)
    assert newest.tags[Tag.ENDING] == "promoted"
    assert newest.params["actor"] == "ana@host"
    stage = after.evidence.find("grammar", "gate", "sha256:i")
    assert stage is not None
    assert stage.metrics == {"all/rate": 0.99}
    assert stage.tags["mlflow.parentRunId"] in after.evidence.url(run)
    model = client_of(uri).get_registered_model("grammar")
    assert {a: int(v) for a, v in model.aliases.items()} == {"champion": 3, "previous": 1}
    assert model.description == "**Serving: version 3**"
    assert list(model.tags) == ["liftlock.restored.backup"]


def _check_second_backup(file: Path, uri: str, tmp_path: Path) -> None:
    """A backup of what was restored is the same but for where the weights are."""
    second = tmp_path / "second.zip"
    assert take(vault(uri), second, ["grammar"], now=NOW).problems == ()
    with Archive.open(file) as one, Archive.open(second) as two:
        assert two.ledger("grammar").items == one.ledger("grammar").items
        assert two.model("grammar") == one.model("grammar")
        assert {r.run_id: r for r in two.runs("grammar")} == {
            r.run_id: r for r in one.runs("grammar")
        }
        for old, new in zip(one.versions("grammar"), two.versions("grammar"), strict=True):
            assert new.storage == old.storage
            same = {**new.tags, Tag.STORAGE: old.tags[Tag.STORAGE]}
            mlmodel = dataclasses.replace(new.logged, mlmodel=old.logged.mlmodel)
            assert dataclasses.replace(new, tags=same, logged=mlmodel) == old


def _check_numbering_goes_on(after: Record, tmp_path: Path) -> None:
    version, _ = promoted(after, tmp_path, 4)
    assert version.version == 4


def _check_weights_are_missed(stack: Stack, uri: str, champion: ModelVersion) -> None:
    assert champion.model_id is not None
    assert vault(uri).weights_fault("grammar", 3) is None
    (folder,) = (stack.settings.home / "mlflow" / "artifacts").rglob(champion.model_id)
    (weights,) = folder.rglob("model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    fault = vault(uri).weights_fault("grammar", 3)
    assert fault is not None
    assert "model.safetensors has" in fault
    shutil.rmtree(folder)
    fault = vault(uri).weights_fault("grammar", 3)
    assert fault is not None
    assert "is not there" in fault


def _check_changed_model_is_refused(file: Path, uri: str) -> None:
    with (
        Archive.open(file) as archive,
        pytest.raises(RecordConflict, match="versions 1, 3, 4 there"),
    ):
        restore(archive, vault(uri), ["grammar"])
