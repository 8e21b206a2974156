"""`liftlock rollback`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import click

from jobs import placing, progress
from jobs.cli_options import checked_model, config_option, json_option, settings_for
from jobs.guard import guarded
from jobs.settings import Settings


@click.command()
@click.argument("model", default="grammar")
@click.option("--to", type=int, help="Version to go back to. [default: what served before]")
@click.option("--reason", default="rolled back by hand", help="Why; written into the ledger.")
@config_option
@json_option
@click.pass_obj
def rollback(settings: Settings, /, **options: Any) -> None:
    """Put an earlier version of MODEL back in charge.

    The version that served before comes up beside the current one, takes the traffic when it is
    ready, and the current one drains; no request is lost.

    \b
    Examples:
      liftlock rollback grammar --reason "too many complaints"
      liftlock rollback grammar --to 2
    """

    guarded(lambda: _rollback(settings, **options))


def _rollback(
    settings: Settings,
    *,
    model: str,
    to: int | None,
    reason: str,
    config_file: Path | None,
    as_json: bool,
) -> None:
    from pipelines import rollback as rollbacks

    terminal = progress.Terminal()
    with contextlib.closing(terminal):
        record = placing.open_record(settings, terminal.note)
        target = rollbacks.target_of(record, checked_model(model), to)
        config = settings_for(record, model, target, config_file)
        place = placing.place(settings, config, record, terminal)
        restored = rollbacks.rollback(target, config, place, reason=reason)
    version = restored.entry.version
    if as_json:
        found = {"model": model, "version": version, "replaced": restored.switched.replaced}
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(f"{model} version {version} serves again at {placing.endpoint_url(settings)}")
