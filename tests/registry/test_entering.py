"""Entering what was kept: cut off anywhere and done again, refused in parts, found damaged."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import Any

import pytest

from registry import lines
from registry.entering import SPOILED
from registry.errors import (
    JournalBroken,
    NotFound,
    RecordDenied,
    RecordRefused,
)
from registry.journal import flush
from registry.model import Tag
from registry.pending import Pending
from tests.fakes.weather import Killed
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


@pytest.mark.parametrize("kind", ["killed", "killed after", "lost", "half"])
def test_entering_cut_off_at_any_call_and_done_again(tmp_path: Path, kind: str) -> None:
    wanted = expected(tmp_path)
    calls = 0
    for at, folder in zip(itertools.count(), folders(tmp_path), strict=False):
        home = Home(folder)
        home.plan(always("away"))
        promotion(home.process().evidence)
        home.plan(lambda n, _, at=at: kind if n == at else "fine")  # type: ignore[misc]
        before = len(home.weather.calls)
        with contextlib.suppress(Killed):
            flush(home.inner, home.folder, home.notes.append)
        calls = len(home.weather.calls) - before
        assert settled(home) == wanted, at
        if calls <= at:
            break
    assert calls == 27  # 21 writes, 3 looks for runs before, 3 after


@pytest.mark.parametrize("operation", ["pwrite", "fsync", "unlink", "ftruncate"])
@pytest.mark.parametrize("after", [False, True])
def test_entering_killed_at_any_change_of_the_disk(
    tmp_path: Path, operation: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = expected(tmp_path)
    real = getattr(os, operation)
    done = [0, 0]  # calls, call to be killed at

    def deadly(*args: Any, **kwargs: Any) -> Any:
        done[0] += 1
        if done[0] == done[1] and not after:
            raise Killed
        result = real(*args, **kwargs)
        if done[0] == done[1]:
            raise Killed
        return result

    for at, folder in zip(itertools.count(1), folders(tmp_path), strict=False):
        home = Home(folder)
        home.plan(always("away"))
        promotion(home.process().evidence)
        home.plan(always("fine"))
        done[:] = [0, at]
        with monkeypatch.context() as patched:
            patched.setattr(os, operation, deadly)
            with contextlib.suppress(Killed):
                flush(home.inner, home.folder, home.notes.append)
        assert settled(home) == wanted, at
        if done[0] < at:
            break
    assert at > 1


def test_a_request_that_was_given_up_but_done_later_leaves_no_second_run(home: Home) -> None:
    home.plan(always("away"))
    run = home.process().evidence.open(MODEL, "r", {}, None)
    journal_id = run.removeprefix("local-")
    late = lambda: home.record.evidence.open(MODEL, "r", {Tag.JOURNAL: journal_id}, None, at_ms=1)  # noqa: E731
    # It is done just after the run was looked for in vain and made anew.
    home.plan(lambda n, name: (late(), "fine")[1] if n == 2 else "fine")
    flush(home.inner, home.folder, home.notes.append)
    assert len(contents(home.record)) == 1
    assert home.process().evidence.resolve(run) in home.record.evidence.opened(MODEL, journal_id)


def test_what_mlflow_refuses_is_put_aside_and_the_run_does_not_count_as_done(home: Home) -> None:
    evidence = home.process().evidence
    run = evidence.open(MODEL, "q", {Tag.STAGE: "q", Tag.INPUTS: "sha256:x"}, None)
    evidence.log(run, params={"verdict": "fail"})
    home.plan(always("away"))
    evidence.log(run, params={"verdict": "pass"})
    evidence.log(run, params={"other": "1"})
    evidence.close(run, tags={})
    home.plan(always("fine"))
    assert flush(home.inner, home.folder, home.notes.append) == 3
    assert any("put aside in" in n and "verdict" in n for n in home.notes)
    (kept,) = lines.Lines(home.folder / "aside.jsonl").read()
    assert (kept["params"], kept["run"]) == ({"verdict": "pass"}, run)
    (found,) = contents(home.record)
    assert found["params"] == {"verdict": "fail", "other": "1"}
    assert (found["status"], found["tags"][Tag.ERROR]) == ("FAILED", SPOILED)
    assert home.record.evidence.find(MODEL, "q", "sha256:x") is None


def test_spoiled_run_that_is_closed_later_does_not_count_as_done(home: Home) -> None:
    evidence = home.process().evidence
    run = evidence.open(MODEL, "q", {}, None)
    evidence.log(run, params={"verdict": "fail"})
    home.plan(lambda n, _: "away" if n == 0 else "fine")
    evidence.log(run, params={"verdict": "pass"})
    home.sleep(3.0)
    evidence.close(run, tags={})
    assert contents(home.record)[0]["status"] == "FAILED"


def test_run_that_cannot_be_created_takes_its_writes_aside_with_it(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.plan(always("away"))
    evidence = home.process().evidence
    run = evidence.open(MODEL, "bad", {}, None)
    child = evidence.open(MODEL, "child", {}, run)
    evidence.log(child, params={"a": 1})
    other = evidence.open(MODEL, "good", {}, None)
    real = home.record.evidence.open

    def refusing(model: str, name: str, *args: Any, **kwargs: Any) -> str:
        if name == "bad":
            raise RecordRefused("name too long")
        return real(model, name, *args, **kwargs)

    monkeypatch.setattr(home.record.evidence, "open", refusing)
    home.plan(always("fine"))
    flush(home.inner, home.folder, home.notes.append)
    assert [r["name"] for r in contents(home.record)] == ["good"]
    assert len(lines.Lines(home.folder / "aside.jsonl").read()) == 3
    with pytest.raises(NotFound, match=r"aside\.jsonl"):
        home.process().evidence.log(child, params={"b": 1})
    assert home.process().evidence.resolve(other) == "run-1"


def test_denied_stops_and_keeps_everything(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    home.plan(always("away"))
    promotion(home.process().evidence)
    home.plan(always("fine"))

    def denied(*args: Any, **kwargs: Any) -> None:
        raise RecordDenied("401")

    with monkeypatch.context() as patched:
        patched.setattr(home.record.evidence, "table", denied)
        with pytest.raises(RecordDenied):
            flush(home.inner, home.folder, home.notes.append)
    assert len(Pending(home.folder).waiting()) == 15
    assert not (home.folder / "aside.jsonl").exists()
    assert [r["status"] for r in settled(home)] == ["FAILED", "FINISHED", "FINISHED"]


def test_corrupt_line_is_named_kept_and_told_once(home: Home) -> None:
    home.plan(always("away"))
    promotion(home.process().evidence)
    path = home.folder / "journal.jsonl"
    content = path.read_bytes().split(b"\n")
    content[2] = content[2].replace(b"sha256", b"sha255")
    path.write_bytes(b"\n".join(content))
    home.plan(always("fine"))
    with pytest.raises(JournalBroken, match=r"journal\.jsonl line 3 .*kept as .*journal-corrupt-"):
        flush(home.inner, home.folder, home.notes.append)
    (kept,) = home.folder.glob("journal-corrupt-*.jsonl")
    assert kept.read_bytes() == b"\n".join(content)
    assert flush(home.inner, home.folder, home.notes.append) == 0
    promotion(home.process().evidence)
    assert len(contents(home.record)) == 3


def test_two_processes_do_not_enter_the_same_writes(home: Home) -> None:
    home.plan(always("away"))
    promotion(home.process().evidence)
    inside: list[int] = []

    def plan(number: int, name: str) -> str:
        if number == 7:  # another command starts while this one is entering
            home.weather.plan = always("fine")
            inside.append(flush(home.inner, home.folder, home.notes.append))
        return "fine"

    home.plan(plan)
    assert flush(home.inner, home.folder, home.notes.append) == 21
    assert inside == [0]
