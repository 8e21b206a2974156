"""Where an edge keeps its files, and the lock that lets one instance use them."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from serving import errors

LOCK_TIMEOUT_S = 20.0
"""Longest wait for a lock; its bodies take milliseconds."""
_LOCK_POLL_S = 0.02
_LONGEST_SOCKET_PATH = 100
"""Bytes; Linux takes 107."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeHome:
    """The files of the edge that belongs to one liftlock home; `root` is absolute."""

    root: Path

    @classmethod
    def of(cls, home: Path) -> EdgeHome:
        """The edge's part of a liftlock home directory; nothing is created."""
        return cls(root=home.absolute() / "edge")

    @property
    def traffic(self) -> Path:
        """The traffic plan; written by rollouts, read by the edge."""
        return self.root / "traffic.json"

    @property
    def traffic_lock(self) -> Path:
        """Held while a traffic plan is compared and replaced."""
        return self.root / "traffic.lock"

    @property
    def status(self) -> Path:
        """What the edge says of itself; written by the edge, read by everybody."""
        return self.root / "status.json"

    @property
    def counts(self) -> Path:
        """What the edge counted in the last hour; written by the edge, read by everybody."""
        return self.root / "counts.json"

    @property
    def lock(self) -> Path:
        """Held by the running edge; names its process."""
        return self.root / "service.lock"

    @property
    def bootstrap_file(self) -> Path:
        """Envoy's fixed configuration."""
        return self.root / "bootstrap.json"

    @property
    def process(self) -> Path:
        """Which Envoy was started last, so that a restarted edge finds it again."""
        return self.root / "envoy.json"

    @property
    def admin_address(self) -> Path:
        """Where Envoy writes the address of its admin interface."""
        return self.root / "admin-address"

    @property
    def log(self) -> Path:
        """Envoy's own log."""
        return self.root / "envoy.log"

    @property
    def socket(self) -> Path:
        """Where Envoy calls the edge service. The kernel takes short paths only, so that of a deep
        home is in the folder for temporary files, under a name that only this home has."""
        near = self.root / "discovery.sock"
        if len(os.fsencode(near)) <= _LONGEST_SOCKET_PATH:
            return near
        mark = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"liftlock-{os.getuid()}-{mark}" / near.name

    def create(self) -> None:
        """Make the directories, readable by their owner only; raises EdgeError when the socket's is
        somebody else's."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self.socket.parent
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise errors.EdgeError(
                f"{folder} belongs to another user or can be written by others, so Envoy's socket "
                "cannot be there; remove it and start the edge anew"
            )


def usual_settings(home: Path) -> Path | None:
    """`edge.yaml` of a liftlock home, None where there is none."""
    usual = home / "edge.yaml"
    # A link to a file that is gone counts: it is refused, where the defaults would be an open edge.
    return usual if os.path.lexists(usual) else None


@contextlib.contextmanager
def sole_instance(home: EdgeHome) -> Iterator[None]:
    """Be the only edge of this home; raises EdgeError naming the process that is it already.

    The kernel gives the lock back when its holder dies, so a crash leaves nothing to clean up.
    """
    with home.lock.open("a+", encoding="utf-8") as handle:
        if not _taken(handle):
            holder = _signature(handle)
            raise errors.EdgeError(
                f"an edge is already running for {home.root} (process {holder}). "
                f"Use that one, stop it with `kill {holder}`, or choose another home"
            )
        _sign(handle)
        yield


@contextlib.contextmanager
def exclusive(path: Path, *, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold a lock file while the body runs, waiting for whoever holds it.

    Bodies are short, so a holder that keeps it is stuck (stopped, say) and must be ended, which
    gives the lock back; raises EdgeError naming that process.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    give_up_s = time.monotonic() + timeout_s
    with path.open("a+", encoding="utf-8") as handle:
        while not _taken(handle):
            if time.monotonic() > give_up_s:
                holder = _signature(handle)
                raise errors.EdgeError(
                    f"waited {timeout_s:g} s for {path}, which process {holder} holds. It is "
                    f"stopped or hangs: end it with `kill -9 {holder}` and run this again"
                )
            time.sleep(_LOCK_POLL_S)
        _sign(handle)
        yield


def _taken(handle: TextIO) -> bool:
    """Whether the lock is ours now."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(handle: TextIO) -> None:
    """Leave our process id for those who find the lock taken; on a full disk they find none."""
    with contextlib.suppress(OSError):
        os.truncate(handle.fileno(), 0)
        os.write(handle.fileno(), f"{os.getpid()}\n".encode())


def _signature(handle: TextIO) -> str:
    handle.seek(0)
    return handle.read().strip() or "unknown"
