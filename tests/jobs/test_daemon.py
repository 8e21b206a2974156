"""Background processes: known by pid and start time, ready before use, ended with children."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from jobs.daemon import Daemon
from jobs.errors import StackError
from registry import processes
from tests.fakes.full_disk import writing_fails

SLEEPER = [sys.executable, "-c", "import time; time.sleep(60)"]
PARENT = [
    sys.executable,
    "-c",
    "import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', "
    "'import time; time.sleep(60)']); print(p.pid, flush=True); time.sleep(60)",
]


@pytest.fixture
def daemon(tmp_path: Path) -> Daemon:
    return Daemon(name="part", home=tmp_path)


def start(daemon: Daemon, command: list[str]) -> None:
    daemon.start(command, env={}, facts={"port": 1234}, cwd=daemon.home)


def left_by_a_killed_one(daemon: Daemon) -> psutil.Process:
    """The child of one that was started and killed."""
    start(daemon, PARENT)
    daemon.wait(lambda: daemon.log.read_text().strip().isdigit(), timeout_s=10)
    child = psutil.Process(int(daemon.log.read_text()))
    process = daemon.process()
    assert process is not None
    process.kill()
    process.wait()
    return child


def test_started_one_is_found_with_its_facts_and_stopped_one_is_not(daemon: Daemon) -> None:
    assert daemon.facts() is None
    start(daemon, SLEEPER)
    facts = daemon.facts()
    assert facts is not None
    assert facts["port"] == 1234
    assert daemon.stop()
    assert daemon.facts() is None
    assert not psutil.pid_exists(facts["pid"]) or (
        psutil.Process(facts["pid"]).status() == psutil.STATUS_ZOMBIE
    )


def test_children_end_with_it(daemon: Daemon) -> None:
    start(daemon, PARENT)
    daemon.wait(lambda: daemon.log.read_text().strip().isdigit(), timeout_s=10)
    child = int(daemon.log.read_text())
    assert psutil.pid_exists(child)
    daemon.stop()
    assert not psutil.pid_exists(child) or (psutil.Process(child).status() == psutil.STATUS_ZOMBIE)


def test_reused_pid_of_a_stranger_is_neither_believed_nor_stopped(daemon: Daemon) -> None:
    daemon.record.parent.mkdir(parents=True)
    daemon.record.write_text(
        json.dumps({"pid": os.getpid(), "ticks": 1, "boot": processes.boot_id()})
    )
    assert daemon.facts() is None
    assert not daemon.stop()
    assert psutil.Process().is_running()


def test_a_record_that_is_no_file_is_not_waited_for(daemon: Daemon) -> None:
    daemon.record.parent.mkdir(parents=True)
    os.mkfifo(daemon.record)
    assert daemon.process() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"pid": "x"}', "null", "[" * 100_000])
def test_broken_record_counts_as_not_running(daemon: Daemon, text: str) -> None:
    daemon.record.parent.mkdir(parents=True)
    daemon.record.write_text(text)
    assert daemon.facts() is None
    assert not daemon.stop()


def test_a_clock_that_is_set_does_not_make_it_a_stranger(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(daemon, SLEEPER)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("psutil._pslinux.boot_time", lambda: 12345.0)
            patch.setattr("time.time", lambda: 0.0)
            assert daemon.facts() is not None
    finally:
        assert daemon.stop()


def test_one_that_cannot_be_remembered_is_ended_again(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.log.parent.mkdir(parents=True)
    daemon.log.touch()
    before = {child.pid for child in psutil.Process().children()}
    with (
        writing_fails(monkeypatch, under=daemon.record.parent),
        pytest.raises(StackError, match=r"part was not started: .* .No space left on device"),
    ):
        start(daemon, SLEEPER)
    assert {child.pid for child in psutil.Process().children()} == before
    assert list(daemon.record.parent.iterdir()) == []


def test_one_that_dies_while_starting_tells_its_last_words(daemon: Daemon) -> None:
    start(daemon, [sys.executable, "-c", "raise SystemExit('no such database')"])
    with pytest.raises(StackError, match="no such database"):
        daemon.wait(lambda: False, timeout_s=20)


def test_one_that_never_gets_ready_is_given_up_with_its_log(daemon: Daemon) -> None:
    start(daemon, SLEEPER)
    try:
        with pytest.raises(StackError, match=r"not ready within 0 s.*part\.log"):
            daemon.wait(lambda: False, timeout_s=0)
    finally:
        daemon.stop()


def test_one_whose_starter_was_killed_before_it_knew_the_pid_is_found(daemon: Daemon) -> None:
    start(daemon, PARENT)
    daemon.wait(lambda: daemon.log.read_text().strip().isdigit(), timeout_s=10)
    known = json.loads(daemon.record.read_text())
    process = psutil.Process(known["pid"])
    token = process.environ()["LIFTLOCK_DAEMON_TOKEN"]
    daemon.record.write_text(json.dumps({"port": 1234, "token": token}))
    found = daemon.process()
    assert found is not None
    assert found.pid == known["pid"]  # not its child, which carries the token too
    assert daemon.facts() == known
    assert daemon.stop()


def test_one_that_was_never_started_is_not_found(daemon: Daemon) -> None:
    daemon.record.parent.mkdir(parents=True)
    daemon.record.write_text(json.dumps({"port": 1234, "token": "nobody has this"}))
    assert daemon.facts() is None
    assert not daemon.stop()


def test_what_a_killed_one_left_behind_is_ended_before_another_starts(daemon: Daemon) -> None:
    child = left_by_a_killed_one(daemon)
    assert child.is_running()
    start(daemon, SLEEPER)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    assert daemon.stop()


def test_what_a_killed_one_left_behind_is_ended_by_stopping_too(daemon: Daemon) -> None:
    child = left_by_a_killed_one(daemon)
    assert daemon.stop()
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_children_that_may_outlive_it_are_left_to_its_successor(tmp_path: Path) -> None:
    daemon = Daemon(name="part", home=tmp_path, keeps_children=True)
    child = left_by_a_killed_one(daemon)
    start(daemon, SLEEPER)
    assert child.is_running()
    child.kill()
    assert daemon.stop()


def test_one_that_ends_on_a_full_disk_says_so(
    daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(daemon, [sys.executable, "-c", "pass"])
    monkeypatch.setattr("registry.disk.free_bytes", lambda folder: 0)
    with pytest.raises(StackError, match="only 0 bytes are free on the disk of"):
        daemon.wait(lambda: False, timeout_s=10)
