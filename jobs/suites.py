"""`liftlock suites list|fetch|check`: which suites there are, and whether their data is there."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import httpx

from evals import catalog, fetching, suite_definition, suite_file
from evals.catalog import Entry
from evals.errors import EvalError, FetchFailed, SuiteUnavailable
from evals.fetching import Item
from evals.suite_data import State
from jobs.cli_options import data_dir_option, data_folder, json_option, load_config
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.progress import Terminal
from jobs.settings import Settings
from jobs.web_address import WEB_ADDRESS
from pipelines import config
from registry.wording import one_line

NOTE_EVERY_S = 1.0

names_argument = click.argument("names", nargs=-1, metavar="[SUITE]...")


@click.group()
def suites() -> None:
    """List the evaluation suites, fetch their data, check it.

    \b
    Examples:
      liftlock suites list
      liftlock suites fetch ua-gec-test ua-gec-clean
      liftlock suites check --data-dir ~/corpora
    """


@suites.command("list")
@data_dir_option
@json_option
@click.pass_obj
def list_suites(settings: Settings, data_dir: Path | None, as_json: bool) -> None:
    """Show every shipped suite with its license and whether its data is there."""

    def show() -> None:
        folder = _folder(settings, data_dir)
        entries = [catalog.entry(path, folder) for path in catalog.shipped()]
        if as_json:
            found = [dataclasses.asdict(entry) for entry in entries]
            click.echo(json.dumps({"data_dir": str(folder), "suites": found}, indent=2))
        else:
            click.echo("\n".join([*_table(entries), "", f"data directory: {folder}"]))

    guarded(show)


@suites.command()
@names_argument
@data_dir_option
@json_option
@click.pass_obj
def check(settings: Settings, names: tuple[str, ...], data_dir: Path | None, as_json: bool) -> None:
    """Verify data against its checksums and make the examples of each SUITE, or of all.

    Exit code 1 where data was changed or is malformed, and where the data of a named SUITE is
    absent.
    """

    def verify() -> None:
        folder = _folder(settings, data_dir)
        checked = [_check(path, folder) for path in _paths(names)]
        if as_json:
            click.echo(json.dumps({"data_dir": str(folder), "suites": checked}, indent=2))
        else:
            for row in checked:
                click.echo(one_line(f"{row['state']:<8} {row['name']:<22} {row['told']}"))
        bad = {"changed", "invalid"} | ({"absent"} if names else set())
        if any(row["state"] in bad for row in checked):
            sys.exit(Exit.FAULT)

    guarded(verify)


@suites.command()
@names_argument
@data_dir_option
@click.option(
    "--mirror",
    type=WEB_ADDRESS,
    default=fetching.GITHUB_RAW,
    show_default=True,
    help="A server laid out like this one: OWNER/REPOSITORY/COMMIT/PATH.",
)
@json_option
@click.pass_obj
def fetch(
    settings: Settings, names: tuple[str, ...], data_dir: Path | None, mirror: str, as_json: bool
) -> None:
    """Download the data of each SUITE, or of all, as far as its license lets you.

    What is there already is kept; a fetch that broke off goes on. Other bytes than were reviewed
    are refused. Exit code 1 where a SUITE could not be fetched or must be fetched by hand.
    """

    def bring() -> None:
        folder = _folder(settings, data_dir)
        definitions = [suite_definition.read(path) for path in _paths(names)]
        with fetching.alone(folder):
            rows = _fetch_all(definitions, folder, mirror)
        if as_json:
            click.echo(json.dumps({"data_dir": str(folder), "suites": rows}, indent=2))
        else:
            for row in rows:
                click.echo(one_line(f"{row['result']:<8} {row['name']:<22} {row['told']}"))
        bad = {"failed"} | ({"by hand"} if names else set())
        if any(row["result"] in bad for row in rows):
            sys.exit(Exit.FAULT)

    guarded(bring)


def _folder(settings: Settings, option: Path | None) -> Path:
    chosen, config_folder = load_config(None, None)
    return data_folder(settings, option, chosen, config_folder)


def _paths(names: Sequence[str]) -> tuple[Path, ...]:
    if not names:
        return catalog.shipped()
    return tuple(config.suite_path(name, relative_to=None) for name in names)


def _table(entries: Iterable[Entry]) -> list[str]:
    lines = [f"{'suite':<22} {'language':<8} {'kind':<13} {'examples':>8}  {'data':<8} license"]
    for entry in entries:
        terms = f" ({entry.terms})" if entry.terms else ""
        lines.append(
            f"{entry.name:<22} {entry.language:<8} {entry.kind:<13} {entry.examples:>8}  "
            f"{entry.state:<8} {entry.license}{terms}"
        )
        if entry.state is State.CHANGED:
            lines += [f"  {reason}" for reason in entry.reasons]
    return lines


def _state(path: Path, data_dir: Path) -> State:
    try:
        return catalog.entry(path, data_dir).state
    except SuiteUnavailable:  # a part of the definition itself
        return State.ABSENT


def _check(path: Path, data_dir: Path) -> dict[str, str]:
    """State of one suite, with what is wrong or what identifies it."""
    name = str(path)
    try:
        name = suite_definition.read(path).name
        loaded = suite_file.load(path, data_dir=data_dir)
    except SuiteUnavailable as exc:
        return {"name": name, "state": str(_state(path, data_dir)), "told": str(exc)}
    except EvalError as exc:
        return {"name": name, "state": "invalid", "told": str(exc)}
    told = ", ".join(catalog.facts(loaded))
    return {"name": name, "state": "present", "told": told, "digest": loaded.digest}


def _fetch_all(
    definitions: Sequence[suite_definition.Definition], data_dir: Path, mirror: str
) -> list[dict[str, str]]:
    rows = []
    terminal = Terminal()
    try:
        with fetching.client() as client:
            for definition in definitions:
                try:
                    result, told = _fetch_one(definition, data_dir, mirror, client, terminal)
                except FetchFailed as exc:
                    result, told = "failed", str(exc)
                rows.append({"name": definition.name, "result": result, "told": told})
    finally:
        terminal.close()
    return rows


def _fetch_one(
    definition: suite_definition.Definition,
    data_dir: Path,
    mirror: str,
    client: httpx.Client,
    terminal: Terminal,
) -> tuple[str, str]:
    planned = fetching.plan(definition, data_dir, mirror)
    if planned.by_hand:
        return "by hand", planned.by_hand
    if not planned.items:
        return "present", definition.license
    terminal.stage(f"fetch {definition.name}")
    fetching.run(planned.items, client, _Told(terminal, len(planned.items)))
    fetching.note_source(definition, data_dir)
    terms = (
        ""
        if definition.source is None or not definition.source.terms
        else (f": {definition.source.terms}")
    )
    count = f"{len(planned.items)} file{'' if len(planned.items) == 1 else 's'}"
    return "fetched", f"{count} under {definition.license}{terms}"


class _Told:
    """Tells about once a second which file arrives."""

    def __init__(self, terminal: Terminal, total: int) -> None:
        self._terminal = terminal
        self._total = total
        self._seen: set[Path] = set()
        self._next = time.monotonic() + NOTE_EVERY_S

    def __call__(self, item: Item, size_bytes: int) -> None:
        self._seen.add(item.path)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + NOTE_EVERY_S
            self._terminal.note(
                f"file {len(self._seen)} of {self._total}: {item.path.name}, {size_bytes:,} bytes"
            )
