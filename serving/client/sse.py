"""Server-sent events out of bytes, in whatever pieces they come.

Only the data of events is of use here; names, ids and comments are dropped. The format is that of
https://html.spec.whatwg.org/multipage/server-sent-events.html: lines end in CR, LF or both, data
lines of one event are joined by LF, and an event ends with an empty line.
"""

from __future__ import annotations

import re

from serving.client import size

_LINE_END = re.compile(rb"\r\n|\n|\r(?!\Z)")
"""A CR at the very end is no line end yet: its LF may be in the next piece."""


class Parser:
    """Bytes in, data of finished events out."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._size = 0
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[str]:
        """Data of the events that are complete with this piece.

        Raises:
            TooLarge: all pieces together are.
        """
        self._size += len(piece)
        size.check(self._size)
        return [event for line in self._lines(piece) if (event := self._event(line)) is not None]

    def _lines(self, piece: bytes) -> list[bytes]:
        """The lines that end in this piece; what was looked through before is not again."""
        seen, at, lines = max(0, len(self._rest) - 1), 0, []
        self._rest += piece
        for end in _LINE_END.finditer(self._rest, seen):
            lines.append(bytes(self._rest[at : end.start()]))
            at = end.end()
        del self._rest[:at]
        return lines

    def _event(self, line: bytes) -> str | None:
        """The data of the event that ends with this line."""
        if line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))
        elif not line and self._data:
            data, self._data = self._data, []
            return b"\n".join(data).decode(errors="replace")
        return None
