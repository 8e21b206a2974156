"""The plane of `tests.fakes.plane` in a file, for commands that run in processes of their own."""

from __future__ import annotations

import fcntl
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fakes.plane import FakePlane

CALLS = (
    "running", "weights", "start", "wait_ready", "ask_replicas", "ask", "set_weights", "counts",
    "ready_replicas", "retire",
)  # fmt: skip


@dataclass(frozen=True)
class FilePlane:
    """What serves, shared by every process that knows the file."""

    path: Path

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS:
            raise AttributeError(name)
        return lambda *args, **kwargs: self.do(lambda plane: getattr(plane, name)(*args, **kwargs))

    def open(self, epoch: int, owner: str) -> Any:
        """The plane in the hand of an owner; raises StaleEpoch when another is in force."""
        self.do(lambda plane: plane.open(epoch, owner))
        return _Owned(self, epoch, owner)

    def state(self) -> FakePlane:
        """As it is now."""
        return self.do(lambda plane: plane)  # type: ignore[no-any-return]

    def do(self, call: Callable[[FakePlane], Any]) -> Any:
        """One call on the shared plane; no other process comes between."""
        with self.path.open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            stored = file.read()
            plane: FakePlane = pickle.loads(stored) if stored else FakePlane()
            try:
                return call(plane)
            finally:
                file.truncate(0)
                file.write(pickle.dumps(plane))
                file.flush()


class _Owned:
    def __init__(self, shared: FilePlane, epoch: int, owner: str) -> None:
        self._shared, self._epoch, self._owner = shared, epoch, owner

    def __getattr__(self, name: str) -> Any:
        if name not in CALLS:
            raise AttributeError(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            # Opening again under the same claim is refused after a takeover, as acting is; looking
            # stays allowed, as it is with the real plane.
            def act(plane: FakePlane) -> Any:
                if name in ("start", "set_weights", "retire"):
                    return getattr(plane.open(self._epoch, self._owner), name)(*args, **kwargs)
                return getattr(plane, name)(*args, **kwargs)

            return self._shared.do(act)

        return call
