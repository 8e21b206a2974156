"""What the front ends of one replica hold, in memory they share: a row each, one writer per row.

Limits are the replica's. Split evenly they would refuse on one front end while another is idle,
since connections, not requests, are what is spread; so each adds up all rows before it admits. N
that admit in the same instant may pass a limit by N - 1: cheaper than a lock on every request.
"""

from __future__ import annotations

import enum
import mmap
import os

_FIELD_BYTES = 8
NOT_ACCEPTING = float(2**31)
"""The connections of a front end that takes none, so that it never counts as the least loaded."""


class Field(enum.IntEnum):
    """The columns. All are doubles: written at once on every machine that vLLM runs on."""

    IN_FLIGHT = 0
    """Requests admitted and not yet answered."""
    SEQUENCES = 1
    """Sequences handed to the engine."""
    CONNECTIONS = 2
    """Open connections, or NOT_ACCEPTING."""
    WAITING_SINCE_S = 3
    """Monotonic time at which the oldest waiting sequence came; 0 where none waits."""


class Counts:
    """All rows, and which of them is ours to write."""

    def __init__(self, memory: mmap.mmap | bytearray, index: int) -> None:
        self._cells = memoryview(memory).cast("d")
        self._rows = len(self._cells) // len(Field)
        self._base = index * len(Field)

    @classmethod
    def alone(cls) -> Counts:
        """One row in memory of this process."""
        return cls(bytearray(len(Field) * _FIELD_BYTES), 0)

    @classmethod
    def shared(cls, fd: int, index: int) -> Counts:
        """The row `index` of memory made by `create`."""
        return cls(mmap.mmap(fd, os.fstat(fd).st_size), index)

    def get(self, field: Field) -> float:
        """Our own cell."""
        return self._cells[self._base + field]

    def put(self, field: Field, value: float) -> None:
        """Writes our own cell."""
        self._cells[self._base + field] = value

    def add(self, field: Field, change: float) -> None:
        """Adds to our own cell."""
        self._cells[self._base + field] += change

    def column(self, field: Field) -> list[float]:
        """The cells of all front ends."""
        return [self._cells[row * len(Field) + field] for row in range(self._rows)]

    def total(self, field: Field) -> int:
        """Over all front ends."""
        return int(sum(self.column(field)))

    def clear(self) -> None:
        """Empties our row: what a dead front end held is gone with it."""
        for field in Field:
            self.put(field, 0.0)
        self.put(Field.CONNECTIONS, NOT_ACCEPTING)


def create(rows: int) -> int:
    """A file descriptor of zeroed memory for `rows` front ends; vanishes with its last user."""
    fd = os.memfd_create("liftlock-counts")
    os.ftruncate(fd, rows * len(Field) * _FIELD_BYTES)
    return fd
