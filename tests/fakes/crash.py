"""Ends a command right after its n-th write to the world outside, as `kill -9` would.

Between two writes nothing of a command can be seen from outside, so "after each write" are all the
moments at which a kill can differ, the one before the first write included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from registry.store import Record

VERSION_WRITES = ("register", "again", "tag", "describe", "mirror", "sweep")
EVIDENCE_WRITES = ("open", "log", "text", "table", "close", "label", "sweep")
LEDGER_WRITES = ("append",)
PLANE_WRITES = ("start", "set_weights", "retire")


class Killed(BaseException):
    """The command is over; nothing may catch this and go on."""


@dataclass
class Crash:
    """Counts writes; after number `at` the command is dead and reaches nothing any more."""

    at: int | None
    die: Callable[[], None] | None = None
    """What ends or pauses it, where it is a process; None pretends that it has ended."""
    done: list[str] = field(default_factory=list)
    dead: bool = False

    def __post_init__(self) -> None:
        self._stop_if_due()

    def record(self, record: Record) -> Record:
        return replace(
            record,
            versions=self.wrap(record.versions, VERSION_WRITES),
            evidence=self.wrap(record.evidence, EVIDENCE_WRITES),
            ledger=self.wrap(record.ledger, LEDGER_WRITES, mute=("beat",)),
        )

    def wrap(self, thing: Any, writes: tuple[str, ...], mute: tuple[str, ...] = ()) -> Any:
        return _Wrapped(thing, self, {**dict.fromkeys(writes, True), **dict.fromkeys(mute, False)})

    def write(self, name: str, call: Callable[[], Any]) -> Any:
        """Does one write, unless the command is dead already."""
        self.check()
        value = call()
        self.done.append(name)
        self._stop_if_due()
        self.check()
        return value

    def check(self) -> None:
        if self.dead:
            raise Killed

    def _stop_if_due(self) -> None:
        if self.at is not None and len(self.done) >= self.at:
            self.at = None
            if self.die is not None:
                self.die()  # comes back only if the process was paused, and goes on then
            else:
                self.dead = True


class _Wrapped:
    """Something of the world outside, out of reach once the command is dead."""

    def __init__(self, thing: Any, crash: Crash, kinds: Mapping[str, bool]) -> None:
        self._thing = thing
        self._crash = crash
        self._kinds = kinds

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._thing, name)
        if not callable(found):
            return found
        counted = self._kinds.get(name)

        def call(*args: Any, **kwargs: Any) -> Any:
            if counted:
                label = f"{type(self._thing).__name__}.{name}"
                return self._crash.write(label, lambda: found(*args, **kwargs))
            if counted is False and self._crash.dead:
                return None  # a heartbeat of the dead: never heard
            self._crash.check()
            return found(*args, **kwargs)

        return call
