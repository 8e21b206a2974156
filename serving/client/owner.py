"""The one process that a client's connections belong to.

A forked process has the sockets of its parent and none of its threads: it would read answers that
are not its own, or wait for a thread that is not there.
"""

from __future__ import annotations

import os


class Owner:
    """The process that made a client's first call; before it, a client may be forked freely."""

    def __init__(self) -> None:
        self._pid: int | None = None

    def is_here(self) -> bool:
        """Whether this is the process, or there is none yet."""
        return self._pid in (None, os.getpid())

    def check(self) -> None:
        """To be called before anything that uses connections, threads or locks.

        Raises:
            RuntimeError: this is another process.
        """
        if not self.is_here():
            raise RuntimeError(
                "this client made calls before its process was forked, and cannot share its "
                "connections: make a client in each process"
            )
        self._pid = os.getpid()
