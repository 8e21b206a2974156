"""Where an edge keeps its files, and the lock that lets one instance use them."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from serving import errors
from serving.edge import bootstrap


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
    def xds(self) -> bootstrap.XdsPaths:
        """What Envoy watches."""
        return bootstrap.XdsPaths(root=self.root / "xds")

    def create(self) -> None:
        """Make the directories, readable by their owner only."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in (self.xds.clusters.parent, self.xds.routes.parent, self.xds.endpoints):
            path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def sole_instance(home: EdgeHome) -> Iterator[None]:
    """Be the only edge of this home; raises EdgeError naming the process that is it already.

    The kernel gives the lock back when its holder dies, so a crash leaves nothing to clean up.
    """
    with home.lock.open("a+", encoding="utf-8") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as exc:
            handle.seek(0)
            holder = handle.read().strip() or "unknown"
            raise errors.EdgeError(
                f"an edge is already running for {home.root} (process {holder}). "
                f"Use that one, stop it with `kill {holder}`, or choose another home"
            ) from exc
        handle.truncate(0)
        handle.write(f"{os.getpid()}\n")
        handle.flush()
        yield


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file while the body runs, waiting for whoever holds it; bodies are short."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
