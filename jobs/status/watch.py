"""Looking again and again: in place on a terminal, one line per change where it is piped."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence

import click

from jobs.status import show
from jobs.status.facts import Status

Look = Callable[[], Sequence[Status]]


def watch(look: Look, *, every_s: float, as_json: bool) -> None:
    """Shows what is looked at until Ctrl-C, which ends it without a complaint."""
    looks = _looks(look, every_s)
    try:
        if as_json:
            _json_lines(looks)
        elif _is_terminal():
            _in_place(looks)
        else:
            _lines(looks)
    except KeyboardInterrupt:
        return


def _looks(look: Look, every_s: float) -> Iterator[Sequence[Status]]:
    while True:
        begun_s = time.monotonic()
        yield look()
        time.sleep(max(0.0, begun_s + every_s - time.monotonic()))


def _is_terminal() -> bool:
    return sys.stdout.isatty()


def _in_place(looks: Iterator[Sequence[Status]]) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        for found in looks:
            shown = "\n\n".join(show.as_text(status) for status in found)
            live.update(Text(shown or show.NOTHING_YET), refresh=True)


def _json_lines(looks: Iterator[Sequence[Status]]) -> None:
    for found in looks:
        for status in found:
            click.echo(json.dumps(show.as_json(status)))


def _lines(looks: Iterator[Sequence[Status]]) -> None:
    before: dict[str, str] = {}
    for found in looks:
        for status in found:
            told = show.as_line(status, numbers=False)
            if before.get(status.model) != told:
                click.echo(f"{status.at}  {show.as_line(status)}")
                before[status.model] = told
