"""A background process that outlives the command that started it, known by pid and start time.

The record of it is a small file in the home folder. A pid alone could have been reused by a
stranger after a reboot, so the process's own start time is compared before anything is believed of
it or sent to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from jobs.errors import StackError

POLL_S = 0.1
CHILD_GRACE_S = 5.0
START_TIME_TOLERANCE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """One kind of background process of a home folder."""

    name: str
    home: Path

    @property
    def log(self) -> Path:
        """Where its output goes."""
        return self.home / "logs" / f"{self.name}.log"

    @property
    def record(self) -> Path:
        """What is remembered of it."""
        return self.home / "run" / f"{self.name}.json"

    def facts(self) -> dict[str, Any] | None:
        """What it was started with, if it is alive."""
        return self._read() if self.process() is not None else None

    def process(self) -> psutil.Process | None:
        """The living process, if it is the one that was started."""
        known = self._read()
        if known is None:
            return None
        try:
            process = psutil.Process(int(known["pid"]))
            same = abs(process.create_time() - float(known["started"])) < START_TIME_TOLERANCE_S
            alive = process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return None
        return process if same and alive else None

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        facts: Mapping[str, Any],
        cwd: Path,
    ) -> None:
        """Starts it detached from this terminal, and remembers it."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.record.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as sink:
            started = subprocess.Popen(
                list(command),
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **env},
                cwd=cwd,
                start_new_session=True,
            )
        started.returncode = 0  # it outlives us on purpose; without this its handle would complain
        known = {
            **facts,
            "pid": started.pid,
            "started": psutil.Process(started.pid).create_time(),
        }
        part = self.record.with_suffix(".part")
        part.write_text(json.dumps(known), encoding="utf-8")
        part.replace(self.record)

    def wait(self, ready: Callable[[], bool], *, timeout_s: float) -> None:
        """Returns when `ready` says so.

        Raises:
            StackError: it died or took too long, with the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        while not ready():
            if self.process() is None:
                raise StackError(f"{self.name} ended while starting: {self._last_line()}")
            if time.monotonic() > deadline:
                raise StackError(
                    f"{self.name} was not ready within {timeout_s:.0f} s; its log is {self.log}"
                )
            time.sleep(POLL_S)

    def stop(self, *, grace_s: float = 30.0) -> bool:
        """Ends it and its children; True if there was something to end."""
        process = self.process()
        if process is None:
            self.record.unlink(missing_ok=True)
            return False
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            children = process.children(recursive=True)
        # The parent first, with time to end its children in its own order; then what is left.
        _end([process], grace_s=grace_s)
        _end(children, grace_s=CHILD_GRACE_S)
        self.record.unlink(missing_ok=True)
        return True

    def _read(self) -> dict[str, Any] | None:
        try:
            known: dict[str, Any] = json.loads(self.record.read_text(encoding="utf-8"))
            int(known["pid"]), float(known["started"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return known

    def _last_line(self) -> str:
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        told = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
        return f"{told} (log: {self.log})"


def _end(processes: list[psutil.Process], *, grace_s: float) -> None:
    """Asks politely, waits, then ends for good."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=grace_s)
    for process in alive:
        with contextlib.suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(alive, timeout=CHILD_GRACE_S)
