"""Evidence while MLflow is away: nothing is lost, nothing is there twice, whatever happens when."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from registry.errors import (
    JournalBroken,
    NotFound,
    RecordConflict,
    RecordUnavailable,
)
from registry.journal import flush
from registry.model import Tag
from registry.pending import Pending
from tests.fakes.record import MemoryEvidence
from tests.registry.journal_story import (
    MODEL,
    Home,
    always,
    contents,
    expected,
    folders,
    promotion,
    settled,
)

pytestmark = pytest.mark.usefixtures("quick_disk")


def test_in_fine_weather_nothing_is_kept(home: Home, tmp_path: Path) -> None:
    promotion(home.process().evidence)
    assert contents(home.record) == expected(tmp_path)
    assert not home.folder.exists()
    assert home.notes == []


def test_away_all_the_time_everything_is_entered_by_the_next_command(
    home: Home, tmp_path: Path
) -> None:
    home.plan(always("away"))
    promotion(home.process().evidence)
    assert contents(home.record) == []
    assert len([n for n in home.notes if "MLflow is away" in n]) == 1
    home.plan(always("fine"))
    assert flush(home.inner, home.folder, home.notes.append) == 21
    assert "21 writes of evidence" in home.notes[-1]
    assert contents(home.record) == expected(tmp_path)
    assert flush(home.inner, home.folder, home.notes.append) == 0


@pytest.mark.parametrize("kind", ["away", "lost", "half"])
@pytest.mark.parametrize("length", [1, 2, 5, 1000])
def test_going_away_at_any_call_for_any_time(tmp_path: Path, kind: str, length: int) -> None:
    wanted = expected(tmp_path)
    for at, folder in zip(range(30), folders(tmp_path), strict=False):
        home = Home(folder)
        home.plan(lambda n, _, at=at: kind if at <= n < at + length else "fine")  # type: ignore[misc]
        promotion(home.process().evidence, home.sleep)
        assert settled(home) == wanted, (kind, at, length)


def test_killed_while_keeping_a_write_leaves_those_before_it(home: Home) -> None:
    home.plan(always("away"))
    promotion(home.process().evidence)
    whole = (home.folder / "journal.jsonl").read_bytes()
    before = Pending(home.folder).waiting()
    for cut in range(len(whole) - 1, len(whole) - 60, -7):
        (home.folder / "journal.jsonl").write_bytes(whole[:cut])
        assert Pending(home.folder).waiting() == before[:-1]
    home.plan(always("fine"))
    top = home.process().evidence
    top.label(str(before[0]["run"]), {"after": "the kill"})
    assert contents(home.record)[0]["status"] == "RUNNING"
    assert contents(home.record)[0]["tags"]["after"] == "the kill"


def test_provisional_run_stays_valid_for_later_processes(home: Home) -> None:
    home.plan(always("away"))
    run = home.process().evidence.open(MODEL, "late", {}, None)
    assert run.startswith("local-")
    home.plan(always("fine"))
    later = home.process().evidence
    later.log(run, params={"a": 1})
    assert later.resolve(run) == "run-1"
    assert home.process().evidence.resolve(run) == "run-1"
    home.process().evidence.close(run, tags={})
    assert [(r["params"], r["status"]) for r in contents(home.record)] == [({"a": "1"}, "FINISHED")]


def test_kept_text_is_read_from_the_journal_and_a_sent_one_from_the_record(home: Home) -> None:
    evidence = home.process().evidence
    run = evidence.open(MODEL, "r", {}, None)
    evidence.text(run, "sent.txt", "sent")
    home.plan(always("away"))
    late = evidence.open(MODEL, "late", {}, run)
    evidence.text(run, "a.txt", "old")
    evidence.text(run, "a.txt", "kept")
    evidence.text(late, "b.txt", "of the provisional run")
    assert (evidence.read(run, "a.txt"), evidence.read(late, "b.txt")) == (
        "kept",
        "of the provisional run",
    )
    with pytest.raises(RecordUnavailable, match=r"4 writes of evidence are kept in .*grammar"):
        evidence.read(run, "sent.txt")
    with pytest.raises(NotFound, match="still waits"):
        evidence.read(late, "none.txt")
    home.plan(always("fine"))
    home.sleep(100.0)
    assert evidence.read(run, "sent.txt") == "sent"
    assert evidence.read(late, "b.txt") == "of the provisional run"


def test_a_finished_stage_that_is_kept_is_found_once_mlflow_is_back(home: Home) -> None:
    home.plan(lambda n, _: "away" if n < 6 else "fine")
    evidence = home.process(patience_s=60.0).evidence
    run = evidence.open(MODEL, "q", {Tag.STAGE: "q", Tag.INPUTS: "sha256:x"}, None)
    evidence.close(run, tags={})
    found = evidence.find(MODEL, "q", "sha256:x")
    assert found is not None
    assert found.run_id == evidence.resolve(run)
    assert [r.run_id for r in evidence.recent(MODEL, "q", 5)] == [found.run_id]


def test_order_of_a_run_is_kept_when_mlflow_comes_back_in_between(home: Home) -> None:
    evidence = home.process().evidence
    run = evidence.open(MODEL, "r", {}, None)
    home.plan(lambda n, _: "away" if n == 0 else "fine")
    for value in range(5):  # the first is kept, and the others must not overtake it
        evidence.label(run, {"value": str(value)})
    assert len(Pending(home.folder).waiting()) == 5
    home.sleep(3.0)
    evidence.label(run, {"value": "last"})
    assert contents(home.record)[0]["tags"]["value"] == "last"
    assert home.weather.calls.count("label") == 7
    assert home.notes[-1] == "MLflow answers again; entered: 5 writes of evidence"


def test_while_away_mlflow_is_tried_every_few_seconds_and_less_often_the_longer(home: Home) -> None:
    home.plan(always("away"))
    evidence = home.process().evidence
    run = evidence.open(MODEL, "r", {}, None)
    for _ in range(600):
        home.sleep(1.0)
        evidence.label(run, {"a": "b"})
    assert 20 <= len(home.weather.calls) <= 30


def test_refusal_of_a_direct_write_is_the_callers(home: Home) -> None:
    evidence = home.process().evidence
    run = evidence.open(MODEL, "q", {}, None)
    evidence.log(run, params={"verdict": "fail"})
    with pytest.raises(RecordConflict):
        evidence.log(run, params={"verdict": "pass"})
    assert not home.folder.exists()


def test_full_disk_is_a_clear_error_and_what_was_kept_before_stays(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.plan(always("away"))
    evidence = home.process().evidence
    run = evidence.open(MODEL, "r", {}, None)

    def full(handle: int, content: bytes, at: int) -> int:
        if len(content) > 10:
            return real(handle, content[:10], at)
        raise OSError(28, os.strerror(28))

    real = os.pwrite
    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", full)
        with pytest.raises(JournalBroken, match=r"No space left on device.*Make room"):
            evidence.log(run, params={"a": "x" * 100})
    evidence.log(run, params={"b": 1})
    assert settled(home)[0]["params"] == {"b": "1"}


def test_url_never_waits_and_is_one_that_a_person_can_use(home: Home) -> None:
    evidence = home.process(patience_s=1000.0).evidence
    run = evidence.open(MODEL, "r", {}, None)
    assert evidence.url(run) == f"memory:{run}"
    home.plan(always("away"))
    assert evidence.url(run) == f"memory:/#/runs/{run}"
    assert str(home.folder) in evidence.url(evidence.open(MODEL, "late", {}, None))
    assert home.now_s == 0.0


def test_runs_left_by_a_killed_command_are_ended_by_the_next_owner(home: Home) -> None:
    home.plan(always("away"))
    dead = home.process().evidence
    dead.open(MODEL, "promote", {}, None)
    home.plan(always("fine"))
    swept = home.process().evidence.sweep(MODEL)
    assert len(swept) == 1
    (run,) = contents(home.record)
    assert (run["status"], run["tags"][Tag.ERROR]) == ("KILLED", "interrupted")


def test_memory_of_the_fake_tells_a_doubled_point_from_a_repeated_one() -> None:
    evidence = MemoryEvidence()
    run = evidence.open(MODEL, "r", {}, None)
    for at_ms in (1, 1, 2):
        evidence.log(run, metrics={"m": 0.5}, at_ms=at_ms)
    assert len(evidence.runs[run].points) == 2
