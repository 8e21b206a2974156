"""The real job, interrupted: killed outright three times, MLflow away at each stage, disks full."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from jobs.daemon import Daemon
from registry.mlflow_store import connect
from serving.client import Client
from tests.e2e.stack import CHECKPOINTS, ROOT, Asking, LiveStack, Ran

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(5400)]
ASKED, WANTED = "She go to school every days.", "She goes to school every day."
AWAY_S = 60.0


@pytest.fixture(scope="module")
def stack() -> Iterator[LiveStack]:
    home = Path(tempfile.mkdtemp(prefix="liftlock-e2e-"))
    made = LiveStack(home=home)
    try:
        yield made
    finally:
        made.run("serve", "--stop", timeout_s=180)
        shutil.rmtree(home, ignore_errors=True)


class Running:
    """A promotion that can be watched line by line, and acted upon."""

    def __init__(self, stack: LiveStack, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "jobs", *args], cwd=ROOT, env=stack.env(), text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.lines: list[str] = []
        self._seen = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            with self._seen:
                self.lines.append(line.rstrip())
                self._seen.notify_all()

    def wait_for(self, text: str, timeout_s: float = 1500) -> None:
        """Returns once a line with this text has been printed."""

        def is_there() -> bool:
            return any(text in line for line in self.lines)

        with self._seen:
            assert self._seen.wait_for(is_there, timeout_s), "\n".join(self.lines)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:  # the test failed before its end
            self.process.kill()
            self.process.wait()
        self._reader.join(10)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def end(self) -> Ran:
        out = self.process.stdout.read() if self.process.stdout else ""
        code = self.process.wait()
        self._reader.join(10)
        return Ran(code=code, out=out, err="\n".join(self.lines))


def ours(stack: LiveStack) -> list[str]:
    """Command lines of every process that belongs to this home, whoever started it."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("LIFTLOCK_HOME") == str(stack.home):
                found.append(" ".join(process.cmdline())[:200])
    return found


def promote(name: str) -> tuple[str, ...]:
    return ("promote", str(CHECKPOINTS / name), "--model", "grammar", "--json")


def test_promotion_killed_three_times_ends_as_if_nothing_had_happened(stack: LiveStack) -> None:
    for moment in ("quantize …", "evaluate …", "starting 1 replica"):
        with Running(stack, *promote("tiny-gec-1")) as running:
            running.wait_for(moment)
            time.sleep(2.0)
            os.kill(running.process.pid, signal.SIGKILL)
            assert running.end().code == -signal.SIGKILL
        time.sleep(1.0)
        left = [
            line for line in ours(stack) if "pipelines.child" in line or "evals.harness" in line
        ]
        assert left == []
    ran = stack.run(*promote("tiny-gec-1"))
    assert ran.code == 0, ran.err
    stages = {s["stage"]: s["reused"] for s in ran.json()["stages"]}
    assert stages == {
        "register": True, "quantize": True, "evaluate": True, "gate": True, "rollout": False,
    }  # fmt: skip
    record = connect(stack.mlflow_url)
    assert [(str(e.kind), e.version) for e in record.ledger.read("grammar").entries] == [
        ("promote", ran.json()["version"])
    ]
    assert record.evidence.sweep("grammar") == ()
    assert record.versions.sweep("grammar") == ()
    assert list((stack.home / "work").glob("*")) == []
    with Client(stack.url) as client:
        assert str(client.correct(ASKED)) == WANTED


def kill_mlflow(stack: LiveStack) -> None:
    """The server and its workers, at once."""
    process = Daemon(name="mlflow", home=stack.home).process()
    assert process is not None
    for one in [*process.children(recursive=True), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def test_mlflow_away_for_a_minute_at_each_stage_loses_nothing(stack: LiveStack) -> None:
    """One promotion, five outages; callers are asked all the while."""
    asking = Asking(stack.url, pause_s=0.3)
    with asking, Running(stack, *promote("tiny-gec-2")) as running:
        for stage in ("register", "quantize", "evaluate", "gate", "rollout"):
            running.wait_for(f"{stage} …")
            kill_mlflow(stack)
            time.sleep(AWAY_S)
            stack.start_mlflow()
        ran = running.end()
    assert ran.code == 0, ran.err
    assert asking.failures == []
    assert any("MLflow does not answer" in line for line in running.lines)
    record = connect(stack.mlflow_url)
    second = ran.json()["version"]
    assert [e.version for e in record.ledger.read("grammar").entries][1:] == [second]
    versions = [record.versions.get("grammar", n) for n in range(1, second + 1)]
    assert len({v.digest for v in versions}) == len(versions)  # nothing was registered twice
    kept = [p for p in (stack.home / "journal").rglob("*") if p.is_file() and p.stat().st_size]
    assert not any("pending" in p.name or "aside" in p.name for p in kept), kept
    page = record.evidence.read(ran.json()["run_id"], "report.html")
    assert "pass" in page.lower()
    for stage in ("quantize", "evaluate", "gate", "rollout"):
        (newest, *_) = record.evidence.recent("grammar", stage, 1)
        assert record.evidence.read(newest.run_id, "result.json")


def test_going_back_needs_no_mlflow_and_is_entered_when_it_is_there_again(
    stack: LiveStack,
) -> None:
    before = connect(stack.mlflow_url).ledger.read("grammar")
    previous = before.previous
    assert previous is not None
    kill_mlflow(stack)
    with Asking(stack.url, pause_s=0.3) as asking:
        began = time.monotonic()
        back = stack.run("rollback", "grammar", "--now", "--reason", "incident", "--json")
        took_s = time.monotonic() - began
    assert back.code == 0, back.err
    assert asking.failures == []
    assert back.json()["version"] == previous.version
    assert took_s < 300
    with Client(stack.url) as client:
        assert client.correct(ASKED).version == previous.version
    stack.start_mlflow()
    assert stack.run("history", "grammar").code == 0
    stack.run("serve", "grammar")
    after = connect(stack.mlflow_url).ledger.read("grammar")
    assert after.champion is not None
    assert (str(after.champion.kind), after.champion.version) == ("rollback", previous.version)
    assert after.champion.reason == "incident"
    assert len(after.entries) == len(before.entries) + 1


def test_frozen_model_refuses_until_it_is_thawed(stack: LiveStack) -> None:
    assert stack.run("freeze", "grammar", "--reason", "audit").code == 0
    refused = stack.run(*promote("tiny-gec-nospell"))
    assert (refused.code, "audit" in refused.err) == (6, True)
    shown = stack.run("status", "grammar")
    assert "audit" in shown.out
    assert stack.run("thaw", "grammar").code == 0


def test_changed_engine_settings_go_through_the_gates_as_an_upgrade(
    stack: LiveStack, tmp_path: Path
) -> None:
    before = connect(stack.mlflow_url).ledger.read("grammar").champion
    assert before is not None
    assert "nothing to upgrade" in stack.run("upgrade", "grammar").out
    settings = tmp_path / "promotion.yaml"
    settings.write_text("resources: {engine: {max_num_seqs: 32}}\n")
    with Asking(stack.url, pause_s=0.3) as asking:
        ran = stack.run("upgrade", "grammar", "--config", str(settings), "--json")
    assert ran.code == 0, ran.err
    assert asking.failures == []
    after = connect(stack.mlflow_url).ledger.read("grammar").champion
    assert after is not None
    assert (after.digest, str(after.kind)) == (before.digest, "promote")
    assert after.version != before.version
    assert after.runtime_digest != before.runtime_digest
    with Client(stack.url) as client:
        assert client.correct(ASKED).version == after.version


def test_named_person_lets_a_lost_skill_through_and_the_record_says_so(stack: LiveStack) -> None:
    until = (datetime.date.today() + datetime.timedelta(days=7)).isoformat()
    waived = ("synthetic-erroneous", "synthetic-erroneous/spelling")
    gates = [part for gate in waived for part in ("--waive", gate)]
    person = ("--waived-by", "Ann Bell", "--waiver-expires", until, "--reason", "known gap")
    ran = stack.run(*promote("tiny-gec-nospell"), *gates, *person)
    assert ran.code == 0, ran.err
    assert ran.json()["ending"] == "promoted with a waiver"
    record = connect(stack.mlflow_url)
    entry = record.ledger.read("grammar").champion
    assert entry is not None
    assert entry.waiver is not None
    assert (str(entry.kind), entry.waiver.by, entry.waiver.gates) == (
        "override",
        "Ann Bell",
        waived,
    )
    page = record.evidence.read(ran.json()["run_id"], "report.html")
    assert "Promoted although a gate did not pass" in page
    assert stack.run("rollback", "grammar").code == 0


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of its own with little room."""
    folder = Path(tempfile.mkdtemp(prefix="liftlock-small-"))
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", str(folder)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        folder.rmdir()
        pytest.skip(f"cannot mount a small file system here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def fill(folder: Path) -> Path:
    """Takes all the room that is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:  # unbuffered, or closing would meet the full disk once more
            file.write(b"\0" * (1 << 16))
    return filler


def test_disk_that_fills_up_stops_with_a_reason_and_goes_on_when_there_is_room(
    small_disk: Path,
) -> None:
    """At each stage in turn; every attempt goes on where the one before was stopped."""
    stack = LiveStack(home=small_disk / "home", more={"LIFTLOCK_PATIENCE_S": "5"})
    stopped = []
    try:
        for stage in ("register", "quantize", "evaluate", "gate", "rollout"):
            with Running(stack, *promote("tiny-gec-1")) as running:
                running.wait_for(f"{stage} …")
                filler = fill(small_disk)
                ran = running.end()
                filler.unlink()
            assert ran.code in (0, 1), ran.err  # it may have had all the room it needed already
            assert "Traceback" not in ran.err
            if ran.code == 1:
                stopped.append(stage)
                said = ran.err.splitlines()[-1].lower()
                assert "space" in said or "disk" in said or "full" in said, ran.err
        assert len(stopped) >= 3, stopped
        again = stack.run(*promote("tiny-gec-1"))
        assert again.code == 0, again.err
        log = connect(stack.mlflow_url).ledger.read("grammar")
        assert [e.version for e in log.entries] == [again.json()["version"]]
    finally:
        stack.run("serve", "--stop", timeout_s=180)
