"""`liftlock rollback`."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import click

from jobs import placing, progress
from jobs.cli_options import VERSION, checked_model, config_option, json_option, settings_for
from jobs.errors import UsageError
from jobs.guard import guarded
from jobs.settings import Settings


@click.command()
@click.argument("model", default="grammar")
@click.option("--to", type=VERSION, help="Version to go back to. [default: what served before]")
@click.option("--reason", default="rolled back by hand", help="Why; written into the ledger.")
@click.option(
    "--now",
    is_flag=True,
    help="Break the glass: go back from what this machine knows, over the head of whoever owns the "
    "model and without waiting for MLflow. It is entered in the ledger afterwards.",
)
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
      liftlock rollback grammar --now --reason "incident 17"
    """
    guarded(lambda: _rollback(settings, **options))


def _rollback(
    settings: Settings,
    *,
    model: str,
    to: int | None,
    reason: str,
    now: bool,
    config_file: Path | None,
    as_json: bool,
) -> None:
    checked_model(model)
    if now:
        if config_file is not None:
            raise UsageError("--now serves a version as it was promoted; leave --config out")
        _rollback_now(settings, model, to, reason, as_json)
        return
    from pipelines import rollback as rollbacks

    terminal = progress.Terminal()
    with contextlib.closing(terminal):
        record = placing.open_record(settings, terminal.note)
        begun = rollbacks.interrupted(record, checked_model(model), to)
        target = begun or rollbacks.target_of(record, model, to)
        config = settings_for(record, model, target, config_file)
        place = placing.place(settings, config, record, terminal)
        if begun is not None:
            terminal.note(f"the rollback to version {begun.version} was interrupted; finishing it")
            restored = rollbacks.restore(begun, config, place)
        else:
            restored = rollbacks.rollback(target, config, place, reason=reason)
    version = restored.entry.version
    if as_json:
        found = {"model": model, "version": version, "replaced": restored.switched.replaced}
        click.echo(json.dumps(found, indent=2))
    else:
        click.echo(f"{model} version {version} serves again at {placing.endpoint_url(settings)}")


def _rollback_now(
    settings: Settings, model: str, to: int | None, reason: str, as_json: bool
) -> None:
    from pipelines import breakglass

    terminal = progress.Terminal()
    with contextlib.closing(terminal):
        emergency = placing.emergency(settings, model, terminal.note)
        went = breakglass.go_back(emergency, to=to, reason=reason)
        placing.enter_now(settings, model, terminal.note)
    version = went.version.version
    if as_json:
        found = {"model": model, "version": version, "replaced": went.replaced}
        click.echo(json.dumps(found, indent=2))
    else:
        url = placing.endpoint_url(settings)
        click.echo(f"{model} version {version} is back in charge and serves at {url}")
