"""What every record must do; run against the fake and against a real MLflow server."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from registry import cache, checkpoint, ledger
from registry.errors import NotFound, RecordConflict, RecordUnavailable
from registry.ledger import Kind, LedgerEntry
from registry.model import ModelVersion, Tag
from registry.store import Record, Registration
from tests.fakes import checkpoints


@pytest.fixture
def model() -> str:
    """A model name of this test's own."""
    return f"m-{uuid.uuid4().hex[:10]}"


def register(record: Record, model: str, directory: Path, **more: object) -> ModelVersion:
    run = record.evidence.open(model, "register", {}, None)
    what = Registration(name="ck", run_id=run, tags={Tag.SCHEME: "f32"}, **more)  # type: ignore[arg-type]
    return record.versions.register(model, checkpoint.inspect(directory), what)


def test_same_digest_gives_the_same_version(
    record: Record, model: str, checkpoint_dir: Path
) -> None:
    first = register(record, model, checkpoint_dir)
    again = register(record, model, checkpoint_dir)
    assert (first.version, first.digest) == (again.version, again.digest)
    assert record.versions.find(model, first.digest) == first


def test_other_bytes_give_another_version(record: Record, model: str, tmp_path: Path) -> None:
    first = register(record, model, checkpoints.make(tmp_path / "a", seed=1))
    second = register(record, model, checkpoints.make(tmp_path / "b", seed=2))
    assert (first.version, second.version) == (1, 2)
    assert record.versions.get(model, 1).digest == first.digest


def test_version_keeps_its_manifest_and_tags(
    record: Record, model: str, checkpoint_dir: Path
) -> None:
    made = register(record, model, checkpoint_dir)
    record.versions.tag(made, {Tag.GATE_STATUS: "pass"})
    found = record.versions.get(model, made.version)
    assert found.manifest == checkpoint.inspect(checkpoint_dir).manifest
    assert (found.scheme, found.tags[Tag.GATE_STATUS]) == ("f32", "pass")


def test_download_is_the_same_checkpoint(
    record: Record, model: str, checkpoint_dir: Path, tmp_path: Path
) -> None:
    made = register(record, model, checkpoint_dir)
    fetched = cache.fetch(record.versions, made, tmp_path / "cache")
    assert checkpoint.inspect(fetched).digest == made.digest
    assert cache.fetch(record.versions, made, tmp_path / "cache") == fetched
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [fetched.name]


def test_unknown_version_is_not_found(record: Record, model: str, checkpoint_dir: Path) -> None:
    register(record, model, checkpoint_dir)
    assert record.versions.find(model, "sha256:none") is None
    with pytest.raises(NotFound):
        record.versions.get(model, 99)


def test_aliases_are_set_moved_and_removed(record: Record, model: str, tmp_path: Path) -> None:
    for seed in (1, 2):
        register(record, model, checkpoints.make(tmp_path / str(seed), seed=seed))
    record.versions.mirror(model, {"champion": 1, "previous": None})
    record.versions.mirror(model, {"champion": 2, "previous": 1})
    record.versions.mirror(model, {"previous": None})
    record.versions.describe(model, None, "what serves")
    record.versions.describe(model, 1, "one version")
    assert record.versions.get(model, 2).version == 2


def test_finished_stage_is_found_by_its_inputs_and_unfinished_is_not(
    record: Record, model: str
) -> None:
    parent = record.evidence.open(model, "promotion", {}, None)
    assert record.evidence.find(model, "quantize", "sha256:x") is None
    run = record.evidence.open(
        model, "quantize", {Tag.STAGE: "quantize", Tag.INPUTS: "sha256:x"}, parent
    )
    record.evidence.log(run, params={"a": 1}, metrics={"m": 0.5})
    record.evidence.table(run, "t.json", {"column": [1, 2]})
    record.evidence.text(run, "result.json", '{"b": 2}')
    assert record.evidence.find(model, "quantize", "sha256:x") is None
    record.evidence.close(run, tags={})
    found = record.evidence.find(model, "quantize", "sha256:x")
    assert found is not None
    assert (found.run_id, found.params["a"], found.metrics["m"]) == (run, "1", 0.5)
    assert record.evidence.read(run, "result.json") == '{"b": 2}'
    assert record.evidence.find(model, "quantize", "sha256:y") is None
    assert record.evidence.find(model, "evaluate", "sha256:x") is None
    assert run in record.evidence.url(run)


def test_failed_stage_is_not_evidence(record: Record, model: str) -> None:
    run = record.evidence.open(model, "q", {Tag.STAGE: "q", Tag.INPUTS: "sha256:x"}, None)
    record.evidence.close(run, failed=True, tags={"why": "broke"})
    assert record.evidence.find(model, "q", "sha256:x") is None


def test_absent_artifact_is_not_found(record: Record, model: str) -> None:
    run = record.evidence.open(model, "q", {}, None)
    with pytest.raises((NotFound, RecordUnavailable)):
        record.evidence.read(run, "nonesuch.json")


def test_parameters_are_set_once(record: Record, model: str) -> None:
    run = record.evidence.open(model, "q", {}, None)
    record.evidence.log(run, params={"verdict": "fail"})
    record.evidence.log(run, params={"verdict": "fail"})
    with pytest.raises((RecordConflict, RecordUnavailable)):
        record.evidence.log(run, params={"verdict": "pass"})


def entry(entries: tuple[LedgerEntry, ...], reason: str) -> LedgerEntry:
    return ledger.following(
        entries, kind=Kind.PROMOTE, version=1, digest="sha256:1", policy_digest="sha256:p",
        evidence_run="r", actor="a", reason=reason, at="2030-01-01T00:00:00Z",
    )  # fmt: skip


def test_ledger_keeps_order_and_refuses_a_taken_number(record: Record, model: str) -> None:
    assert record.ledger.entries(model) == ()
    first = entry((), "first")
    record.ledger.append(model, first)
    record.ledger.append(model, first)  # a repeated write of the same entry is a safe retry
    with pytest.raises(RecordConflict):
        record.ledger.append(model, dataclasses.replace(first, reason="rival"))
    record.ledger.append(model, entry((first,), "second"))
    assert [e.reason for e in record.ledger.entries(model)] == ["first", "second"]


def test_of_racing_writers_exactly_one_gets_each_number(record: Record, model: str) -> None:
    record.ledger.append(model, entry((), "seed"))

    def write(number: int) -> bool:
        mine = entry(record.ledger.entries(model)[:1], f"writer {number}")
        try:
            record.ledger.append(model, mine)
        except RecordConflict:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(write, range(8)))
    assert sum(won) == 1
    assert len(record.ledger.entries(model)) == 2


def test_pointer_registration_stores_no_weights(
    record: Record, model: str, checkpoint_dir: Path
) -> None:
    made = register(record, model, checkpoint_dir, pointer="s3://bucket/ck")
    assert made.manifest.files
    assert record.versions.get(model, made.version).digest == made.digest


def test_corrupt_download_is_refused_and_not_cached(tmp_path: Path, checkpoint_dir: Path) -> None:
    class Corrupting:
        def download(self, version: ModelVersion, target: Path) -> None:
            for file, content in zip(version.manifest.files, itertools.repeat(b"x")):
                (target / file.path).write_bytes(content)

    manifest = checkpoint.inspect(checkpoint_dir).manifest
    version = ModelVersion(
        model="m", version=1, digest=manifest.digest, source="models:/m-1", model_id=None,
        manifest=manifest,
    )  # fmt: skip
    with pytest.raises(RecordConflict, match="differs"):
        cache.fetch(Corrupting(), version, tmp_path / "cache")  # type: ignore[arg-type]
    assert list((tmp_path / "cache").iterdir()) == []


def test_unreachable_server_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from registry.mlflow_store import connect

    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(RecordUnavailable, match=r"127\.0\.0\.1:9"):
        connect("http://127.0.0.1:9")
