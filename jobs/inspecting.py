"""`liftlock status` and `liftlock history`: looking, never changing or starting anything."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from jobs import placing
from jobs.cli_options import checked_model, json_option
from jobs.errors import StackError, UsageError
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.settings import Settings
from registry.ledger import Item, LedgerEntry
from registry.model import short
from registry.store import Record

if TYPE_CHECKING:
    from jobs.status.facts import Status

WATCH_S = 2.0
LEAST_WATCH_S = 1.0
"""Envoy counts histograms once a second; looking more often would show the same."""
MOST_WATCH_S = 86_400.0


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """The period of `--watch`; says where a model's name belongs when it landed here."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError as exc:
        raise click.BadParameter(
            f"{value!r} is not a number of seconds; a model's name goes before --watch"
        ) from exc
    if not LEAST_WATCH_S <= seconds <= MOST_WATCH_S:
        raise click.BadParameter(
            f"must be {LEAST_WATCH_S:g} to {MOST_WATCH_S:g} seconds, is {value}"
        )
    return seconds


@click.command()
@click.argument("model", required=False)
@click.option(
    "--watch",
    "every_s",
    callback=_seconds,
    is_flag=False,
    flag_value=str(WATCH_S),
    metavar="[SECONDS]",
    help=f"Look again and again, until Ctrl-C. [default: every {WATCH_S:g} s]",
)
@json_option
@click.pass_obj
def status(settings: Settings, model: str | None, every_s: float | None, as_json: bool) -> None:
    """Show on one screen what serves MODEL and how well, and what waits for whom.

    Without MODEL: one line for every model that is known. Nothing is started, and no source is
    waited for longer than two seconds: one that does not answer is named.

    \b
    Examples:
      liftlock status grammar
      liftlock status grammar --json
      liftlock status grammar --watch 5
      liftlock status
    """

    guarded(lambda: _status(settings, model, every_s, as_json))


@click.command()
@click.argument("model", default="grammar")
@json_option
@click.pass_obj
def history(settings: Settings, model: str, as_json: bool) -> None:
    """Print MODEL's ledger, oldest first; `--json` prints one item a line, as it is stored.

    The sha256 of a stored line is the `previous_hash` of the next.

    \b
    Examples:
      liftlock history grammar
      liftlock history grammar --json > ledger.jsonl
    """

    def show() -> None:
        log = _record(settings).ledger.read(checked_model(model))
        if not log.items:
            _refuse_unknown(settings, model)
            click.echo(f"nothing was promoted to {model} yet", err=True)
        for item in log.items:
            click.echo(item.to_json() if as_json else _line(item))

    guarded(show)


def _line(item: Item) -> str:
    """A ledger item for people."""
    what = ""
    if isinstance(item, LedgerEntry):
        what = f"version {item.version:<4} {short(item.digest)}  "
    return f"{item.seq:>4}  {item.at}  {item.kind:<9} {what}{item.actor}  {item.reason}"


def _status(settings: Settings, model: str | None, every_s: float | None, as_json: bool) -> None:
    from jobs.status import live, looks, watch

    ports = live.live(settings)
    look = looks.every(ports) if model is None else looks.one(checked_model(model), ports)
    if every_s is not None:
        watch.watch(look, every_s=every_s, as_json=as_json)
        return
    found = look()
    if model is not None:
        _show_one(found[0], as_json)
    else:
        _show_all(found, as_json)


def _show_one(found: Status, as_json: bool) -> None:
    from jobs.status import show

    if found.is_unknown:
        raise unknown(found.model, found.known or ())
    click.echo(json.dumps(show.as_json(found), indent=2) if as_json else show.as_text(found))
    if found.entries is None:
        sys.exit(Exit.FAULT)


def _show_all(found: Sequence[Status], as_json: bool) -> None:
    from jobs.status import show

    if as_json:
        click.echo(json.dumps({"models": [show.as_json(s) for s in found]}, indent=2))
    else:
        click.echo("\n".join(show.as_line(s) for s in found) or show.NOTHING_YET)
    if any(s.entries is None for s in found):
        sys.exit(Exit.FAULT)


def unknown(model: str, known: tuple[str, ...]) -> UsageError:
    """The error for a model that nobody has heard of."""
    told = f"known are: {', '.join(known)}" if known else "no model is known yet"
    return UsageError(
        f"there is no model {model} here; {told}. `liftlock promote CHECKPOINT --model {model}` "
        "would make it"
    )


def _refuse_unknown(settings: Settings, model: str) -> None:
    from jobs.status import live

    known = live.LiveRecords(settings).open().models()
    if model not in known:
        raise unknown(model, known)


def _record(settings: Settings) -> Record:
    uri = placing.existing_tracking_uri(settings)
    if uri is None:
        raise StackError(
            f"no MLflow server runs for {settings.home}; `liftlock serve` or a promotion starts "
            "one, or give --tracking-uri"
        )
    return placing.connect_to(uri)
