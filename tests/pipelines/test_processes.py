"""Commands as processes on a real tracking server: races, a pause at the wrong moment, kill -9."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from registry.ledger import MarkKind
from registry.mlflow_store import connect
from registry.store import Record
from tests.fakes.file_plane import FilePlane
from tests.pipelines.other_process import Wanted

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]
PROMOTIONS, PROCESSES = 50, 4


@dataclasses.dataclass
class Site:
    """One model on one tracking server and one plane."""

    uri: str
    folder: Path
    model: str

    @property
    def record(self) -> Record:
        return connect(self.uri)

    @property
    def plane(self) -> FilePlane:
        return FilePlane(self.folder / "plane")

    def start(
        self, seeds: Sequence[int], *, home: str = "home", **more: Any
    ) -> subprocess.Popen[str]:
        wanted = Wanted(
            uri=self.uri, model=self.model, folder=str(self.folder / home),
            plane=str(self.folder / "plane"), seeds=list(seeds), **more,
        )  # fmt: skip
        settings = self.folder / f"{uuid.uuid4().hex}.json"
        settings.write_text(json.dumps(dataclasses.asdict(wanted)))
        return subprocess.Popen(
            [sys.executable, "-m", "tests.pipelines.other_process", str(settings)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            start_new_session=True,  # or its pausing would be taken for the whole test run's
        )  # fmt: skip

    def run(self, seeds: Sequence[int], **more: Any) -> tuple[int, str]:
        process = self.start(seeds, **more)
        said, _ = process.communicate()
        return process.returncode, said

    def writes(self, seeds: Sequence[int], **more: Any) -> list[str]:
        report = self.folder / "report.json"
        code, said = self.run(seeds, report=str(report), **more)
        assert code == 0, said
        found: list[str] = json.loads(report.read_text())
        return found

    def seen(self) -> dict[str, Any]:
        """What is left for people and for callers, without what differs from run to run."""
        log = self.record.ledger.read(self.model)
        return {
            "ledger": [(str(e.kind), e.version, e.digest) for e in log.entries],
            "traffic": self.plane.state().shares,
            "running": self.plane.state().running(),
            "open runs": self.record.evidence.sweep(self.model),
            "half uploads": self.record.versions.sweep(self.model),
            "scratch": sorted(p.name for p in (self.folder / "home" / "work").glob("*")),
        }


@pytest.fixture
def site(mlflow_uri: str, tmp_path: Path) -> Site:
    return Site(uri=mlflow_uri, folder=tmp_path, model=f"m-{uuid.uuid4().hex[:10]}")


def test_of_many_racing_promotions_one_at_a_time_is_at_work(site: Site, tmp_path: Path) -> None:
    shares = [list(range(n, PROMOTIONS, PROCESSES)) for n in range(PROCESSES)]
    marker = str(tmp_path / "at-work")
    racing = [
        site.start(seeds, home=f"home{n}", persist=True, exclusive=marker)
        for n, seeds in enumerate(shares)
    ]
    said = [process.communicate()[0] for process in racing]
    assert [p.returncode for p in racing] == [0] * PROCESSES, "\n".join(said)
    log = site.record.ledger.read(site.model)  # reading verifies numbers and the hash chain
    assert [item.seq for item in log.items] == list(range(1, len(log.items) + 1))
    assert len({e.digest for e in log.entries}) == len(log.entries) == PROMOTIONS
    claims = [m for m in log.items if m.kind is MarkKind.CLAIM]
    assert len(claims) == PROMOTIONS
    epochs = [item.epoch for item in log.items]
    assert epochs == sorted(epochs)
    assert site.plane.state().shares == {log.entries[-1].version: 100}


def stopped(process: subprocess.Popen[str]) -> None:
    """Returns once the process has paused itself."""
    while True:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        if os.WIFSTOPPED(status):
            return
        pytest.fail(f"ended instead of pausing: {process.stdout.read() if process.stdout else ''}")


@pytest.mark.parametrize("before", ["MlflowLedger.append", "start", "set_weights"])
def test_owner_that_was_paused_wakes_up_to_find_itself_replaced(site: Site, before: str) -> None:
    assert site.run([1])[0] == 0
    calm = Site(uri=site.uri, folder=site.folder / "calm", model=f"{site.model}-calm")
    calm.folder.mkdir()
    calm.run([1])
    writes = calm.writes([2])
    moments = [n for n, name in enumerate(writes) if name.endswith(before)]
    paused = site.start(
        [2], signal_after=moments[-1], signal=int(signal.SIGSTOP), beat_s=0.2, lease_s=2.0
    )
    stopped(paused)
    assert site.run([3], beat_s=0.2, lease_s=2.0) == (0, "")
    settled = site.seen()
    os.kill(paused.pid, signal.SIGCONT)
    said, _ = paused.communicate()
    assert paused.returncode == 6, said
    assert "taken" in said
    after = site.seen()
    assert after == settled
    assert len(after["ledger"]) == 2


@pytest.mark.parametrize("verb", ["promote", "rollback"])
def test_process_killed_after_any_write_ends_the_same_when_run_again(
    site: Site, verb: str, tmp_path: Path
) -> None:
    prepare = [1] if verb == "promote" else [1, 2]
    command: dict[str, Any] = {"seeds": [2], "verb": verb}
    calm = Site(uri=site.uri, folder=tmp_path / "calm", model=f"{site.model}-calm")
    calm.folder.mkdir()
    assert calm.run(prepare)[0] == 0
    writes = calm.writes(**command)
    wanted = calm.seen()
    # Every moment is tried in test_crash_points; with real processes each takes half a minute on a
    # busy machine, so this takes every seventh unless told otherwise.
    step = int(os.environ.get("LIFTLOCK_TEST_CRASH_STEP", "7"))
    for at in range(1, len(writes), step):
        one = Site(uri=site.uri, folder=tmp_path / str(at), model=f"{site.model}-{at}")
        one.folder.mkdir()
        assert one.run(prepare)[0] == 0
        code, said = one.run(**command, signal_after=at)
        assert code == -signal.SIGKILL, said
        # A dead owner on this machine is not waited for, or this would take an hour.
        assert one.run(**command, lease_s=3600.0) == (0, ""), writes[at - 1]
        assert one.seen() == wanted, f"killed after write {at} ({writes[at - 1]})"
