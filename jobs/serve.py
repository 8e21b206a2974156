"""`liftlock serve`: bring the local stack and a model's champion up, or take the stack down."""

from __future__ import annotations

import contextlib
from pathlib import Path

import click

from jobs import placing, progress
from jobs.cli_options import checked_model, config_option, settings_for
from jobs.guard import guarded
from jobs.settings import Settings
from jobs.stack import Stack


@click.command()
@click.argument("model", default="grammar")
@config_option
@click.option("--stop", is_flag=True, help="Stop the endpoint, the local cluster and local MLflow.")
@click.pass_obj
def serve(settings: Settings, model: str, config_file: Path | None, stop: bool) -> None:
    """Serve MODEL's champion, as the ledger has it; for example after a reboot.

    \b
    Examples:
      liftlock serve grammar
      liftlock serve --stop
    """
    guarded(lambda: _stop(settings) if stop else _serve(settings, model, config_file))


def _serve(settings: Settings, model: str, config_file: Path | None) -> None:
    from pipelines import rollback

    terminal = progress.Terminal()
    with contextlib.closing(terminal):
        record = placing.open_record(settings, terminal.note)
        entry = rollback.champion_of(record, checked_model(model))
        config = settings_for(record, model, entry, config_file)
        place = placing.place(settings, config, record, terminal)
        rollback.restore(entry, config, place)
    click.echo(f"{model} version {entry.version} serves at {placing.endpoint_url(settings)}")
    click.echo(f"MLflow: {record.address}")


def _stop(settings: Settings) -> None:
    stopped = Stack(settings=settings, note=click.echo).down()
    click.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
