"""Which process a process id means: told by its start on the kernel's own clock, and by the boot.

A process id is used again, and a start time in seconds since 1970 moves with the wall clock: set
that back, and a process that lives looks like another one. Clock ticks since boot never move.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """One process of one boot of a machine."""

    pid: int
    ticks: int
    """When it started, in the kernel's clock ticks since boot."""
    boot: str

    def alive(self) -> bool:
        """Whether this very process still runs."""
        return started(self.pid) == self


def started(pid: int) -> Started | None:
    """The process that has this id now; None where none does, or one that has only to be reaped."""
    try:
        # The name, in brackets, may hold anything; what follows its last one is numbers.
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] in ("Z", "X"):
        return None
    return Started(pid=pid, ticks=int(fields[19]), boot=boot_id())


def boot_id() -> str:
    """Identifies this boot of this machine; empty where the kernel does not tell."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""
