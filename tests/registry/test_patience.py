"""Waiting for MLflow: how long, how often, and what is said."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from registry import checkpoint
from registry.errors import NotFound, RecordConflict, RecordDenied, RecordRefused, RecordUnavailable
from registry.ledger import Kind, LedgerEntry, Log
from registry.model import Tag
from registry.patience import Patience
from registry.store import Registration
from tests.fakes.record import MemoryLedger, MemoryVersions
from tests.registry.journal_story import MODEL, Home


@dataclasses.dataclass
class Waiting:
    """A clock that only moves by sleeping, and a call that works after a while."""

    back_s: float
    now_s: float = 0.0
    slept: list[float] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.slept.append(seconds)

    def call(self) -> str:
        if self.now_s < self.back_s:
            raise RecordUnavailable("connection refused")
        return "answer"

    def patience(self, patience_s: float, jitter: float = 1.0) -> Patience:
        return Patience(
            patience_s=patience_s, note=self.notes.append, clock=lambda: self.now_s,
            sleep=self.sleep, kept=lambda: "3 writes are kept in /x.", jitter=lambda: jitter,
        )  # fmt: skip


def test_answer_after_a_while_is_waited_for_and_told_every_ten_seconds() -> None:
    waiting = Waiting(back_s=34.0)
    assert waiting.patience(300.0).wait_for("reading", waiting.call) == "answer"
    assert waiting.now_s < 34.0 + 5.0
    assert waiting.notes[0] == "MLflow does not answer (0 s); waiting up to 300 s"
    told = [int(n.split("(")[1].split()[0]) for n in waiting.notes]
    assert all(9 < later - earlier < 16 for earlier, later in itertools.pairwise(told))
    assert len(told) in (3, 4)


def test_pauses_grow_and_are_never_in_step() -> None:
    early, late = Waiting(back_s=60.0), Waiting(back_s=60.0)
    early.patience(300.0, jitter=0.0).wait_for("x", early.call)
    late.patience(300.0, jitter=1.0).wait_for("x", late.call)
    assert late.slept[:5] == [0.5, 1.0, 2.0, 4.0, 5.0]
    assert early.slept[:5] == [0.25, 0.5, 1.0, 2.0, 2.5]


def test_end_of_patience_says_what_is_kept_and_what_to_do() -> None:
    waiting = Waiting(back_s=1e9)
    with pytest.raises(RecordUnavailable) as caught:
        waiting.patience(300.0).wait_for("reading the ledger of grammar", waiting.call)
    said = str(caught.value)
    assert "not answered for 300 s while reading the ledger of grammar: connection refused" in said
    assert "3 writes are kept in /x." in said
    assert "the same command goes on" in said
    assert waiting.now_s == pytest.approx(300.0, abs=0.1)


def test_no_patience_asks_once() -> None:
    waiting = Waiting(back_s=1.0)
    with pytest.raises(RecordUnavailable):
        waiting.patience(0.0).wait_for("x", waiting.call)
    assert (waiting.slept, waiting.notes) == ([], [])


@pytest.mark.parametrize("refusal", [RecordRefused, RecordDenied, RecordConflict, NotFound])
def test_refusal_is_never_asked_again(refusal: type[Exception]) -> None:
    waiting = Waiting(back_s=0.0)
    asked = []

    def refused() -> None:
        asked.append(1)
        raise refusal("no")

    with pytest.raises(refusal):
        waiting.patience(300.0).wait_for("x", refused)
    assert (len(asked), waiting.slept) == (1, [])


@pytest.mark.parametrize("kind", ["away", "lost"])
def test_versions_and_ledger_are_repeated_without_doubling(
    tmp_path: Path, checkpoint_dir: Path, kind: str
) -> None:
    home = Home(tmp_path / MODEL)
    record = home.process(patience_s=300.0)
    run = record.evidence.open(MODEL, "register", {}, None)
    home.plan(lambda n, name: kind if n % 3 != 2 else "fine")  # each call fails twice
    what = Registration(name="ck", run_id=run, tags={Tag.SCHEME: "f32"})
    made = record.versions.register(MODEL, checkpoint.inspect(checkpoint_dir), what)
    record.versions.tag(made, {"a": "b"})
    record.versions.describe(MODEL, None, "text")
    record.versions.mirror(MODEL, {"champion": 1})
    assert record.versions.find(MODEL, made.digest) == record.versions.get(MODEL, 1)
    assert record.versions.sweep(MODEL) == ()
    (tmp_path / "target").mkdir()
    record.versions.download(made, tmp_path / "target")
    record.ledger.append(MODEL, entry(run))
    assert [e.evidence_run for e in record.ledger.read(MODEL).entries] == [run]
    versions = home.record.versions
    assert isinstance(versions, MemoryVersions)
    assert len(versions.stored[MODEL]) == 1


def test_what_points_to_a_provisional_run_waits_for_it_and_gets_its_real_id(
    tmp_path: Path, checkpoint_dir: Path
) -> None:
    home = Home(tmp_path / MODEL)
    home.plan(lambda n, _: "away" if n < 20 else "fine")
    record = home.process(patience_s=300.0)
    run = record.evidence.open(MODEL, "gate", {}, None)
    what = Registration(name="ck", run_id=run, tags={"from": run})
    made = record.versions.register(MODEL, checkpoint.inspect(checkpoint_dir), what)
    record.versions.tag(made, {Tag.GATE_RUN: run, "old": "local-" + "0" * 32})
    record.versions.describe(MODEL, 1, f"see [run]({run})")
    record.ledger.append(MODEL, entry(record.evidence.resolve(run)))
    versions, kept = home.record.versions, home.record.ledger
    assert isinstance(versions, MemoryVersions)
    assert isinstance(kept, MemoryLedger)
    tags = versions.stored[MODEL][0].tags
    assert (tags["from"], tags[Tag.GATE_RUN]) == ("run-1", "run-1")
    assert tags["old"] == "local-" + "0" * 32
    assert versions.descriptions[MODEL, 1] == "see [run](run-1)"
    assert kept.read(MODEL).entries[0].evidence_run == "run-1"
    assert home.now_s > 10.0


def entry(run: str) -> LedgerEntry:
    return Log().entry(
        Kind.PROMOTE, version=1, digest="sha256:1", policy_digest="sha256:p",
        evidence_run=run, actor="a", reason="r", at="2030-01-01T00:00:00Z",
    )  # fmt: skip


def test_giving_up_on_a_full_disk_names_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / MODEL)
    record = home.process(patience_s=0.0)
    home.plan(lambda n, _: "away")
    monkeypatch.setattr("registry.disk.free_bytes", lambda folder: 0)
    with pytest.raises(RecordUnavailable, match=r"0 bytes are free on the disk of .*make room"):
        record.ledger.read(MODEL)
