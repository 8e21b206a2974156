"""Exit codes of the command line; part of the public surface (docs/reference.md)."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """What a command's end means to the one who called it."""

    DONE = 0
    """It did what was asked, or found it already done."""
    FAULT = 1
    """Something broke; the message says what to do. The same command may be run again."""
    USAGE = 2
    """The command, the settings or the checkpoint cannot be accepted."""
    REFUSED = 3
    """A gate said fail or underpowered; nothing changed for callers."""
    WAITING = 4
    """Waiting for a person's approval."""
    ROLLED_BACK = 5
    """The new version did not hold and traffic is back on the old one."""
    BUSY = 6
    """Not now: another command owns the model, or it is frozen; nothing was changed."""
