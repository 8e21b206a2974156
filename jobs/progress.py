"""How a command tells what it does: a live line on a terminal, plain lines when piped."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from pipelines.stage import StageTime


class Terminal:
    """Tells on stderr, so that stdout stays for results (`--json` included)."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._stage = ""
        self._started = time.monotonic()

    def stage(self, name: str) -> None:
        """A stage begins."""
        self._stage = name
        if self._console.is_terminal:
            self._live(f"[bold]{escape(name)}[/bold]")
        else:
            self._line(f"{name} …")

    def note(self, text: str) -> None:
        """Something happened inside the current stage."""
        if self._console.is_terminal and self._status is not None:
            self._status.update(f"[bold]{escape(self._stage)}[/bold] {escape(text)}")
        else:
            self._line(f"  {text}")

    def done(self, name: str, *, seconds: float, summary: str, reused: bool) -> None:
        """A stage ended well."""
        self.close()
        told = "reused" if reused else f"{seconds:.1f} s"
        self._line(f"{name}: {summary} ({told})")

    def close(self) -> None:
        """Ends the live line; called before anything else is printed."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _live(self, text: str) -> None:
        self.close()
        self._status = self._console.status(text)
        self._status.start()

    def _line(self, text: str) -> None:
        elapsed = time.monotonic() - self._started
        self._console.print(f"[{elapsed:6.1f} s] {text}", markup=False, soft_wrap=True)


def stage_table(times: Sequence[StageTime]) -> Table:
    """Stage, seconds and what came of it."""
    table = Table(title="stages", title_justify="left")
    table.add_column("stage")
    table.add_column("seconds", justify="right")
    table.add_column("result", overflow="fold")
    for row in times:
        seconds = "reused" if row.reused else f"{row.seconds:.1f}"
        table.add_row(escape(row.stage), seconds, escape(row.summary))
    table.add_row("total", f"{sum(t.seconds for t in times):.1f}", "")
    return table
