"""A background process that outlives the command that started it, known by pid and start time.

The record of it is a small file in the home folder. A pid alone could have been reused by a
stranger, so boot and start are compared, on the kernel's clock which nobody can set back, before
anything is believed of it or sent to it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from jobs.errors import StackError
from registry import disk, processes, reading, strict_json
from registry.processes import Started

POLL_S = 0.1
CHILD_GRACE_S = 5.0
MAX_RECORD_BYTES = 1 << 20
TOKEN = "LIFTLOCK_DAEMON_TOKEN"
"""Variable by which a process is found whose starter was killed before it could note the pid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """One kind of background process of a home folder."""

    name: str
    home: Path
    keeps_children: bool = False
    """Whether what it started may outlive it and be taken over by its successor."""

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
        if known is not None and "pid" not in known:
            known = self._adopt(known)
        if known is None:
            return None
        which = Started(pid=known["pid"], ticks=known["ticks"], boot=known["boot"])
        try:
            return psutil.Process(which.pid) if which.alive() else None
        except psutil.Error:
            return None

    def start(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        facts: Mapping[str, Any],
        cwd: Path,
    ) -> None:
        """Starts it detached from this terminal, and remembers it."""
        self.end_left_over()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self.record.parent.mkdir(parents=True, exist_ok=True)
        token = uuid.uuid4().hex
        self._write({**facts, "token": token})  # should we be killed before its pid is known
        with self.log.open("ab") as sink:
            started = subprocess.Popen(
                list(command),
                stdout=sink,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **env, TOKEN: token},
                cwd=cwd,
                start_new_session=True,
            )
        try:
            self._remember(started.pid, {**facts, "token": token})
        except BaseException:  # nobody would ever find it again
            started.kill()
            started.wait()
            raise
        started.returncode = 0  # it outlives us on purpose; without this its handle would complain

    def _remember(self, pid: int, facts: Mapping[str, Any]) -> None:
        which = processes.started(pid)
        # One that has ended already is found out by `wait`, which reads its log.
        ticks, boot = (which.ticks, which.boot) if which is not None else (0, "")
        self._write({**facts, "pid": pid, "ticks": ticks, "boot": boot})

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
            ended = self.end_left_over()
            self.record.unlink(missing_ok=True)
            return ended
        children: list[psutil.Process] = []
        with contextlib.suppress(psutil.Error):
            children = process.children(recursive=True)
        # The parent first, with time to end its children in its own order; then what is left.
        _end([process], grace_s=grace_s)
        _end(children, grace_s=CHILD_GRACE_S)
        self.record.unlink(missing_ok=True)
        return True

    def end_left_over(self) -> bool:
        """Ends what a process that was killed has left behind; True if there was something."""
        known = self._read()
        if self.keeps_children or known is None or self.process() is not None:
            return False
        token = str(known.get("token", ""))
        left = [p for p in psutil.process_iter() if token and _has_token(p, token)]
        _end(left, grace_s=CHILD_GRACE_S)
        return bool(left)

    def _adopt(self, begun: dict[str, Any]) -> dict[str, Any] | None:
        """Finds what a starter that was killed had just started, and remembers it."""
        token = begun["token"]
        found = [p for p in psutil.process_iter() if _has_token(p, token)]
        if not found:
            return None
        first = min(found, key=lambda p: p.create_time())  # its children are younger
        self._remember(first.pid, begun)
        return self._read()

    def _write(self, known: Mapping[str, Any]) -> None:
        part = self.record.with_suffix(".part")
        try:
            part.write_text(json.dumps(known), encoding="utf-8")
            part.replace(self.record)
        except OSError as exc:
            part.unlink(missing_ok=True)
            raise StackError(
                f"{self.name} was not started: what is remembered of it cannot be written to "
                f"{self.record} ({exc.strerror})"
            ) from exc

    def _read(self) -> dict[str, Any] | None:
        try:
            text = reading.read_text(self.record, MAX_RECORD_BYTES)
            known: dict[str, Any] = strict_json.parse(text)
            if "pid" in known or "token" not in known:
                int(known["pid"]), int(known["ticks"]), str(known["boot"])
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return known

    def _last_line(self) -> str:
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            lines = []
        told = next((line.strip() for line in reversed(lines) if line.strip()), "no output")
        short = disk.shortage(self.home)
        if short is not None:
            told = f"{short}, make room; {told}"
        return f"{told} (log: {self.log})"


def _has_token(process: psutil.Process, token: str) -> bool:
    try:
        return bool(process.environ().get(TOKEN) == token)
    except (psutil.Error, OSError):
        return False


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
