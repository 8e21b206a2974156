"""`liftlock backup` and `liftlock restore`: the record in one file, and back."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobs import placing, progress
from jobs.cli_options import checked_model, json_option
from jobs.errors import UsageError
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.settings import Settings
from jobs.stack import Stack
from registry.errors import BackupInvalid, NotFound

if TYPE_CHECKING:
    from registry.backup import Restored, Taken

file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
models_option = click.option(
    "--model", "models", multiple=True, help="Only this model; may be repeated. [default: all]"
)


@click.command()
@file_argument
@models_option
@json_option
@click.pass_obj
def backup(settings: Settings, file: Path, models: tuple[str, ...], as_json: bool) -> None:
    """Write ledgers, settings and registry metadata into FILE.

    Weights are kept by reference: back their store up with its own tools. FILE appears when it is
    whole, and never replaces another.

    \b
    Examples:
      liftlock backup record-2026-11-29.zip
      liftlock backup grammar.zip --model grammar

    Exits 1 with the file written if something could not be taken; it says what.
    """
    guarded(lambda: _backup(settings, file, models, as_json))


@click.command()
@file_argument
@models_option
@json_option
@click.pass_obj
def restore(settings: Settings, file: Path, models: tuple[str, ...], as_json: bool) -> None:
    """Make a tracking server hold what FILE does.

    Only models of which nothing is there are restored; one that is there and the same is left
    alone, one that is there and different is refused. After an interruption run it again.

    \b
    Examples:
      liftlock --tracking-uri http://mlflow:5000 restore record-2026-11-29.zip
      liftlock restore grammar.zip --model grammar

    Exits 1 if the ledger is back but some weights cannot be reached; it says which.
    """
    guarded(lambda: _restore(settings, file, models, as_json))


BRING_WEIGHTS = (
    "A backup holds no weights: copy them from the old server's artifact store to where they are "
    "missed (a server that liftlock started keeps them in mlflow/artifacts of its home), then run "
    "this again; it writes nothing twice and looks for the weights once more."
)


def _backup(settings: Settings, file: Path, models: Sequence[str], as_json: bool) -> None:
    from registry import disk, mlflow_store
    from registry.backup import take

    wanted = [checked_model(name) for name in models]
    if not file.parent.is_dir():
        raise UsageError(f"there is no folder {file.parent} to write {file.name} into")
    terminal = progress.Terminal()
    with contextlib.closing(terminal):
        uri = Stack(settings=settings, note=terminal.note).tracking_uri()
        known = mlflow_store.catalog(uri).models()
        absent = sorted(set(wanted) - set(known))
        if absent:
            told = ", ".join(known) or "none"
            raise UsageError(f"{', '.join(absent)} is not on {uri}; known are: {told}")
        try:
            with disk.told("writing the backup", file.parent):
                taken = take(
                    mlflow_store.vault(uri), file, wanted or _plain(known),
                    now=placing.now(), note=terminal.note,
                )  # fmt: skip
        except FileExistsError as exc:
            raise UsageError(str(exc)) from exc
    click.echo(json.dumps(taken_json(taken), indent=2) if as_json else taken_text(taken))
    if taken.problems:
        sys.exit(Exit.FAULT)


def _restore(settings: Settings, file: Path, models: Sequence[str], as_json: bool) -> None:
    from registry import mlflow_store
    from registry.backup import Archive
    from registry.backup import restore as restore_now

    wanted = [checked_model(name) for name in models]
    terminal = progress.Terminal()
    try:
        with contextlib.closing(terminal), Archive.open(file) as archive:
            names = wanted or archive.index.models
            if not set(names) <= set(archive.index.models):
                told = ", ".join(archive.index.models) or "none"
                raise UsageError(f"{file} does not hold {', '.join(names)}; it holds: {told}")
            uri = Stack(settings=settings, note=terminal.note).tracking_uri()
            done = restore_now(archive, mlflow_store.vault(uri), names, note=terminal.note)
    except (BackupInvalid, FileNotFoundError, NotFound) as exc:
        raise UsageError(str(exc)) from exc
    if as_json:
        click.echo(json.dumps({"models": [restored_json(r) for r in done]}, indent=2))
    else:
        click.echo("\n".join(restored_text(r) for r in done))
        if any(r.weightless for r in done):
            click.echo(BRING_WEIGHTS)
    if any(r.problems for r in done):
        sys.exit(Exit.FAULT)


def _plain(names: Sequence[str]) -> list[str]:
    """Names that can be models; other experiments may look alike."""
    found = []
    for name in names:
        with contextlib.suppress(UsageError):
            found.append(checked_model(name))
    return found


def taken_text(taken: Taken) -> str:
    """A backup for people."""
    lines = [
        f"{p.model}: {p.items} ledger items, {p.versions} versions, {p.runs} runs"
        for p in taken.parts
    ] or ["there is no model to back up; the file holds none"]
    lines.append(f"{taken.path}: {taken.size_bytes:,} bytes, {taken.digest}")
    return "\n".join(lines + [f"problem: {p}" for p in taken.problems])


def taken_json(taken: Taken) -> dict[str, Any]:
    """A backup for machines."""
    return {
        "file": str(taken.path),
        "digest": taken.digest,
        "size_bytes": taken.size_bytes,
        "models": [
            {"model": p.model, "ledger_items": p.items, "versions": p.versions, "runs": p.runs}
            for p in taken.parts
        ],
        "problems": list(taken.problems),
    }


def restored_text(done: Restored) -> str:
    """One restored model for people."""
    told = f"{done.items} ledger items, {done.versions} versions"
    lines = [f"{done.model}: {done.ending} ({told})"]
    return "\n".join(lines + [f"problem: {p}" for p in done.problems])


def restored_json(done: Restored) -> dict[str, Any]:
    """One restored model for machines."""
    return {
        "model": done.model,
        "ending": str(done.ending),
        "ledger_items": done.items,
        "versions": done.versions,
        "runs": done.runs,
        "problems": list(done.problems),
    }
