"""`liftlock keys`: who may ask the endpoint. Needs no MLflow and no cluster, only the home."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobs.cli_options import json_option
from jobs.errors import UsageError
from jobs.guard import guarded
from jobs.settings import Settings

if TYPE_CHECKING:
    from serving.keys.record import KeyRecord
    from serving.keys.store import Issued, KeyStore

DAY_S = 86_400
SCOPES = ("call", "feedback", "approve", "admin")
days_option = click.option(
    "--days", type=click.IntRange(1, 3650), default=90, show_default=True, help="How long it lasts."
)


@click.group()
def keys() -> None:
    """Issue, list, rotate and revoke API keys.

    \b
    Examples:
      liftlock keys issue "web team" --rate 200
      liftlock keys rotate key-0123456789ab --overlap-hours 24
      liftlock keys revoke key-0123456789ab

    An edge asks for keys where its settings say `keys: {required: true}`; see docs/edge.md.
    """


@keys.command()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    type=click.Choice(SCOPES),
    multiple=True,
    default=("call",),
    show_default=True,
    help="What it allows; may be repeated.",
)
@click.option(
    "--rate",
    type=click.IntRange(1, 1_000_000),
    default=100,
    show_default=True,
    help="Requests a second, all edges together.",
)
@days_option
@json_option
@click.pass_obj
def issue(
    settings: Settings, name: str, *, scopes: tuple[str, ...], rate: int, days: int, as_json: bool
) -> None:
    """Make a key for NAME and print it, once.

    \b
    Examples:
      liftlock keys issue "web team" --rate 200 --days 30
      liftlock keys issue reviewers --scope feedback --scope approve
    """

    def body() -> None:
        from serving.keys.scopes import Scope
        from serving.keys.store import Terms

        wanted = tuple(dict.fromkeys(Scope(scope) for scope in scopes))
        terms = Terms(name=name, scopes=wanted, rate_rps=rate, lifetime_s=days * DAY_S)
        try:
            made = _store(settings).issue(terms, time.time())
        except ValueError as exc:
            raise UsageError(f"key for {name!r}: {exc}") from exc
        _show_new(made, as_json)

    guarded(body)


@keys.command("list")
@json_option
@click.pass_obj
def list_keys(settings: Settings, as_json: bool) -> None:
    """Show every key: whose, what it allows, until when. The keys themselves are not kept.

    \b
    Examples:
      liftlock keys list
      liftlock keys list --json
    """

    def body() -> None:
        now = time.time()
        records = _store(settings).records()
        if as_json:
            click.echo(json.dumps([_plain(record, now) for record in records], indent=2))
            return
        for record in records:
            click.echo(_line(record, now))
        if not records:
            click.echo("no keys; issue one with `liftlock keys issue NAME`")

    guarded(body)


@keys.command()
@click.argument("key")
@click.option(
    "--overlap-hours",
    type=click.FloatRange(0, 24 * 90),
    default=24.0,
    show_default=True,
    help="How long the old key is still taken.",
)
@days_option
@json_option
@click.pass_obj
def rotate(settings: Settings, key: str, overlap_hours: float, days: int, as_json: bool) -> None:
    """Make a new key on the terms of KEY, which is taken for a while still.

    KEY is an id, or - to read the key itself from standard input.

    \b
    Examples:
      liftlock keys rotate key-0123456789ab --overlap-hours 24
    """

    def body() -> None:
        store = _store(settings)
        made = store.rotate(
            _id(store, key),
            overlap_s=round(overlap_hours * 3600),
            lifetime_s=days * DAY_S,
            unix_s=time.time(),
        )
        _show_new(made, as_json)

    guarded(body)


@keys.command()
@click.argument("key")
@json_option
@click.pass_obj
def revoke(settings: Settings, key: str, as_json: bool) -> None:
    """End KEY now. Edges refuse it within about a second; what it asked before is answered.

    KEY is an id, or - to read the key itself from standard input.

    \b
    Examples:
      liftlock keys revoke key-0123456789ab
      liftlock keys revoke - < leaked-key
    """

    def body() -> None:
        store, now = _store(settings), time.time()
        record = store.revoke(_id(store, key), now)
        click.echo(json.dumps(_plain(record, now), indent=2) if as_json else _line(record, now))

    guarded(body)


def _store(settings: Settings) -> KeyStore:
    from serving.keys.store import KeyStore

    return KeyStore.of(Path(settings.home))


def _id(store: KeyStore, key: str) -> str:
    if key != "-":
        return key
    return store.id_of(sys.stdin.read(4096))


def _show_new(made: Issued, as_json: bool) -> None:
    now = time.time()
    if as_json:
        click.echo(json.dumps({**_plain(made.record, now), "key": made.text}, indent=2))
        return
    click.echo(_line(made.record, now), err=True)
    click.echo("shown this once; send it as `Authorization: Bearer KEY`:", err=True)
    click.echo(made.text)


def _plain(record: KeyRecord, now: float) -> dict[str, Any]:
    found = {**dataclasses.asdict(record), "state": record.state(now)}
    for name in ("issued_at", "expires_at", "ends_at"):
        found[name] = None if found[name] is None else _when(found[name])
    return found


def _line(record: KeyRecord, now: float) -> str:
    until = record.expires_at if record.ends_at is None else record.ends_at
    scopes = ",".join(record.scopes)
    return (
        f"{record.key_id}  {record.state(now):7}  until {_when(until)}  {record.rate_rps}/s  "
        f"{scopes}  {record.name}"
    )


def _when(unix_s: int) -> str:
    return datetime.datetime.fromtimestamp(unix_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
