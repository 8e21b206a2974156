"""What every record must do; run against the fake and against a real MLflow server."""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from registry import cache, checkpoint
from registry.appending import append_following
from registry.errors import NotFound, RecordConflict, RecordRefused, RecordUnavailable
from registry.ledger import Kind, LedgerEntry, Log, MarkKind
from registry.model import INTERRUPTED, ModelVersion, Tag
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
    with pytest.raises(NotFound):
        record.evidence.read(run, "nonesuch.json")
    with pytest.raises(NotFound):
        record.evidence.read("0" * 32, "nonesuch.json")


def test_parameters_are_set_once(record: Record, model: str) -> None:
    run = record.evidence.open(model, "q", {}, None)
    record.evidence.log(run, params={"verdict": "fail"})
    record.evidence.log(run, params={"verdict": "fail"})
    with pytest.raises(RecordConflict):
        record.evidence.log(run, params={"verdict": "pass"})


def test_run_that_may_have_been_opened_is_found_by_its_journal_id(
    record: Record, model: str
) -> None:
    evidence = record.evidence
    assert evidence.opened(model, "j1") == ()
    runs = [
        evidence.open(model, "r", {Tag.JOURNAL: journal_id}, None, at_ms=at_ms)
        for journal_id, at_ms in (("j1", 2000), ("j2", 500), ("j1", 1000))
    ]
    assert evidence.opened(model, "j1") == (runs[2], runs[0])
    evidence.drop(runs[0])
    assert evidence.opened(model, "j1") == (runs[2],)
    assert evidence.resolve(runs[2]) == runs[2]


def test_what_happened_earlier_keeps_its_time(record: Record, model: str) -> None:
    evidence = record.evidence
    for name, at_ms in (("late", 5000), ("early", 1000)):
        run = evidence.open(model, name, {Tag.STAGE: "s", "name": name}, None, at_ms=at_ms)
        evidence.close(run, tags={}, at_ms=at_ms + 10)
    found = evidence.recent(model, "s", 5)
    assert [(f.tags["name"], f.started_at_ms, f.ended_at_ms) for f in found] == [
        ("late", 5000, 5010),
        ("early", 1000, 1010),
    ]


def test_runs_of_a_dead_owner_are_ended_as_interrupted(record: Record, model: str) -> None:
    evidence = record.evidence
    assert evidence.sweep(model) == ()
    top = evidence.open(model, "promote", {Tag.STAGE: "s"}, None)
    done = evidence.open(model, "q", {Tag.STAGE: "s", Tag.INPUTS: "sha256:d"}, top)
    evidence.close(done, tags={})
    cut = evidence.open(model, "q", {Tag.STAGE: "s", Tag.INPUTS: "sha256:c"}, top)
    assert set(evidence.sweep(model)) == {top, cut}
    assert evidence.sweep(model) == ()
    assert evidence.find(model, "s", "sha256:d") is not None
    assert evidence.find(model, "s", "sha256:c") is None
    ended = {f.run_id: f.tags.get(Tag.ERROR) for f in evidence.recent(model, "s", 5)}
    assert ended == {top: INTERRUPTED, cut: INTERRUPTED, done: None}


def test_half_an_upload_is_no_version_and_is_swept(
    record: Record, model: str, tmp_path: Path, checkpoint_dir: Path
) -> None:
    assert record.versions.sweep(model) == ()
    kept = register(record, model, checkpoint_dir)
    broken = checkpoints.make(tmp_path / "broken", seed=2)
    inspected = checkpoint.inspect(broken)
    weights = max(broken.glob("*.safetensors"))
    hidden = weights.rename(tmp_path / "hidden")
    run = record.evidence.open(model, "register", {}, None)
    what = Registration(name="ck", run_id=run)
    with pytest.raises(RecordRefused, match=r"gone|on this machine"):
        record.versions.register(model, inspected, what)
    assert record.versions.find(model, inspected.digest) is None
    assert len(record.versions.sweep(model)) == 1
    assert record.versions.sweep(model) == ()
    fetched = cache.fetch(record.versions, kept, tmp_path / "cache")
    assert checkpoint.inspect(fetched).digest == kept.digest
    hidden.rename(weights)
    assert record.versions.register(model, inspected, what).version == 2
    assert record.versions.sweep(model) == ()


def entry(log: Log, reason: str) -> LedgerEntry:
    return log.entry(
        Kind.PROMOTE, version=1, digest="sha256:1", policy_digest="sha256:p",
        evidence_run="r", actor="a", reason=reason, at="2030-01-01T00:00:00Z",
    )  # fmt: skip


def test_ledger_keeps_order_and_refuses_a_taken_number(record: Record, model: str) -> None:
    assert record.ledger.read(model) == Log()
    first = entry(Log(), "first")
    record.ledger.append(model, first)
    record.ledger.append(model, first)  # a repeated write of the same entry is a safe retry
    with pytest.raises(RecordConflict):
        record.ledger.append(model, dataclasses.replace(first, reason="rival"))
    log = record.ledger.read(model)
    second = entry(log, "second")
    record.ledger.append(model, second)
    claim = log.with_item(second).mark(
        MarkKind.CLAIM, owner="here/1", actor="a", reason="work", at="2030-01-01T00:00:00Z", epoch=4
    )
    record.ledger.append(model, claim)
    assert record.ledger.read(model).items == (first, second, claim)
    assert model in record.ledger.models()


def test_of_racing_writers_exactly_one_gets_each_number(record: Record, model: str) -> None:
    """From nothing: founding the ledger is raced for too."""

    def write(number: int) -> int:
        def following(log: Log) -> LedgerEntry:
            return entry(log, f"writer {number}")

        item = append_following(record.ledger, model, following)
        assert item is not None
        return item.seq

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(write, range(16)))
    assert sorted(numbers) == list(range(1, 17))
    log = record.ledger.read(model)
    assert [item.seq for item in log.items] == sorted(numbers)


def test_signs_of_life_are_kept_by_epoch(record: Record, model: str) -> None:
    assert record.ledger.beats(model) == {}
    for epoch, text in ((1, "1 working"), (2, "1 working"), (1, "2 released")):
        record.ledger.beat(model, epoch, text)
    assert record.ledger.beats(model) == {1: "2 released", 2: "1 working"}


def test_same_files_get_another_version_under_other_tags(
    record: Record, model: str, checkpoint_dir: Path
) -> None:
    first = register(record, model, checkpoint_dir)
    again = record.versions.again(first, {Tag.RUNTIME: "sha256:new"})
    assert (again.version, again.digest, again.source) == (2, first.digest, first.source)
    assert again.tags[Tag.RUNTIME] == "sha256:new"
    assert record.versions.again(first, {Tag.RUNTIME: "sha256:new"}).version == again.version
    assert record.versions.again(first, {Tag.RUNTIME: "sha256:other"}).version == 3
    assert record.versions.find(model, first.digest) == record.versions.get(model, 1)


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
