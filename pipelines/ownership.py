"""One owner of a model at a time: who may promote, roll back or serve it now.

Owning is an item of the ledger, so whoever writes there next must have seen it; the epoch that
comes with it is what Serve and the edge check. A dead owner is told from a living one without
comparing clocks: its process is gone from this very machine, or its sign of life did not change
for LEASE_S while the one who wants to take over watched.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pipelines.errors import Fenced, OwnedByAnother
from pipelines.place import Place
from registry import processes
from registry.appending import append_following
from registry.errors import RegistryError
from registry.ledger import Log, Mark, MarkKind

BEAT_S = 5.0
"""Between two signs of life; several fit into a lease, so that one lost write ends nothing."""
LEASE_S = 20.0
"""How long a sign of life may stay the same before its owner counts as dead."""
RELEASED = "released"


def this_process(pid: int | None = None) -> str:
    """A name for a process that no other process on any machine has, now or later."""
    number = os.getpid() if pid is None else pid
    found = processes.started(number)
    ticks = found.ticks if found is not None else 0
    return f"{socket.gethostname()}/{_boot()}/{number}/{ticks}"


def _boot() -> str:
    """This boot of this machine and this process namespace: only there does a pid mean anything."""
    try:
        return f"{processes.boot_id()}:{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: no owner counts as known from here
        return uuid.uuid4().hex


def is_gone(owner: str) -> bool:
    """True if the process is known to be over; False also where that cannot be known from here."""
    host, boot, pid, ticks = ([*owner.split("/"), "", "", ""])[:4]
    if (host, boot) != (socket.gethostname(), _boot()) or not pid.isdecimal():
        return False
    found = processes.started(int(pid))
    return found is None or str(found.ticks) != ticks


def describe(owner: str) -> str:
    """An owner for people: `process 4711 on host`."""
    host, _, rest = owner.partition("/")
    parts = rest.split("/")
    return f"process {parts[1]} on {host}" if len(parts) > 1 else owner


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Intervals in seconds, and how time passes; tests bring their own."""

    beat_s: float = BEAT_S
    lease_s: float = LEASE_S
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Owned:
    """A model that is ours, until somebody takes it over."""

    def __init__(self, *, place: Place, model: str, claim: Mark, took_over: bool) -> None:
        self.model = model
        self.epoch = claim.epoch
        self.owner = claim.owner
        self.took_over = took_over
        """Whether the owner before was found dead, and may have left things half done."""
        self.doing = claim.reason
        self._place = place
        self._count = 0
        self._lost: Mark | None = None

    def enter(self, stage: str) -> None:
        """Says what is done next.

        Raises:
            Fenced: a newer owner was seen.
        """
        self.doing = stage
        self.check()

    def check(self) -> None:
        """Raises Fenced where a newer owner was seen."""
        if self._lost is not None:
            raise fenced(self.model, self._lost)

    def beat(self) -> None:
        """Gives a sign of life, and looks whether somebody has taken over."""
        self._count += 1
        place = self._place
        text = f"{self._count} {place.now()} {self.doing}"
        place.record.ledger.beat(self.model, self.epoch, text)
        newest = place.record.ledger.read(self.model).claim
        if newest is not None and newest.epoch > self.epoch:
            self._lost = newest

    def release(self) -> None:
        """Says that nothing is done here any more."""
        text = f"{self._count} {self._place.now()} {RELEASED}"
        self._place.record.ledger.beat(self.model, self.epoch, text)


def fenced(model: str, by: Mark) -> Fenced:
    """The error of an owner that is one no longer."""
    return Fenced(
        f"{model} was taken over by {describe(by.owner)} ({by.actor}: {by.reason}) at {by.at}; "
        "this command stops and changes nothing more. See `liftlock status`, then run it again if "
        "it is still wanted"
    )


@contextlib.contextmanager
def owned(
    place: Place, model: str, what: str, *, force: bool = False, timing: Timing | None = None
) -> Iterator[Owned]:
    """Owns a model for the length of the block.

    Args:
        what: what the owner is about to do, for others to read.
        force: take over from a living owner too.

    Raises:
        OwnedByAnother: somebody else owns it and lives.
        RegistryError: the record did not answer.
    """
    timing = timing or Timing()
    mine = claim(place, model, what, force=force, timing=timing)
    ended = threading.Event()
    heart = threading.Thread(target=_keep_beating, args=(mine, ended, timing.beat_s), daemon=True)
    heart.start()
    try:
        yield mine
    finally:
        ended.set()
        heart.join(timing.beat_s)
        with contextlib.suppress(RegistryError):
            mine.release()


def _keep_beating(mine: Owned, ended: threading.Event, every_s: float) -> None:
    while not ended.is_set():
        with contextlib.suppress(
            RegistryError
        ):  # the record is away; the next beat may get through
            mine.beat()
        ended.wait(every_s)


def claim(place: Place, model: str, what: str, *, force: bool, timing: Timing) -> Owned:
    """Writes the claim, once no living owner is left.

    Raises:
        OwnedByAnother: see `owned`.
    """
    before: list[Mark] = []

    def following(log: Log) -> Mark:
        holder = _holder(place, model, log)
        if holder is not None and not force and not _is_dead(place, model, holder, timing):
            raise _busy(model, holder)
        before[:] = [holder] if holder is not None else []
        return log.mark(
            MarkKind.CLAIM,
            owner=this_process(),
            actor=place.actor,
            reason=what,
            at=place.now(),
            epoch=max(log.epoch, place.edge_epoch()) + 1,
        )

    mine = append_following(place.record.ledger, model, following)
    assert isinstance(mine, Mark), "a claim always follows, or an error is raised"
    return Owned(place=place, model=model, claim=mine, took_over=bool(before))


def _holder(place: Place, model: str, log: Log) -> Mark | None:
    """The last owner, unless it has let go."""
    last = log.claim
    if last is None:
        return None
    said = place.record.ledger.beats(model).get(last.epoch, "")
    return None if said.endswith(RELEASED) else last


def _is_dead(place: Place, model: str, holder: Mark, timing: Timing) -> bool:
    """Whether the owner is over: gone from this machine, or silent for a whole lease."""
    name = f"{describe(holder.owner)} ({holder.actor}: {holder.reason})"
    if is_gone(holder.owner):
        place.progress.note(f"{name} owned {model} and is gone; taking over")
        return True
    place.progress.note(f"{name} owns {model}; looking for a sign of life")
    first = place.record.ledger.beats(model).get(holder.epoch, "")
    if first.endswith(RELEASED):
        return True  # it ended while we looked, and will not be heard of again
    give_up_s = timing.clock() + timing.lease_s
    while timing.clock() < give_up_s:
        timing.sleep(timing.beat_s / 5)
        said = place.record.ledger.beats(model).get(holder.epoch, "")
        if said != first:
            return said.endswith(RELEASED)
    place.progress.note(f"no sign of life for {timing.lease_s:g} s; taking over")
    return True


def _busy(model: str, holder: Mark) -> OwnedByAnother:
    return OwnedByAnother(
        f"{model} is owned by {describe(holder.owner)}, started by {holder.actor} at {holder.at} "
        f"to {holder.reason}; wait for it (`liftlock status {model}`), or stop it there. "
        "Nothing was changed"
    )
