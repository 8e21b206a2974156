"""Server-sent events out of bytes, in whatever pieces they come.

Only the data of events is of use here; names, ids and comments are dropped. The format is that of
https://html.spec.whatwg.org/multipage/server-sent-events.html: lines end in CR, LF or both, data
lines of one event are joined by LF, and an event ends with an empty line.
"""

from __future__ import annotations

import re

_LINE = re.compile(rb"([^\r\n]*)(\r\n|\n|\r(?!\Z))")
"""A CR at the very end is no line end yet: its LF may be in the next piece."""


class Parser:
    """Bytes in, data of finished events out."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[str]:
        """Data of the events that are complete with this piece."""
        buffer, at, events = self._rest + piece, 0, []
        while (line := _LINE.match(buffer, at)) is not None:
            at = line.end()
            if line[1].startswith(b"data:"):
                self._data.append(line[1][5:].removeprefix(b" "))
            elif not line[1] and self._data:
                events.append(b"\n".join(self._data).decode(errors="replace"))
                self._data = []
        self._rest = buffer[at:]
        return events
