"""`liftlock serve`: bring the local stack and a model's champion up, or take the stack down."""

from __future__ import annotations

from pathlib import Path

import click

from jobs import placing, progress
from jobs.cli_options import config_option, load_config
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

    config, _ = load_config(config_file, model)
    terminal = progress.Terminal()
    with progress.Closing(terminal):
        record = placing.open_record(settings, terminal.note)
        place = placing.place(settings, config, record, terminal)
        restored = rollback.restore(config, place)
    click.echo(f"{model} version {restored.entry.version} serves at {settings.endpoint_url}")
    click.echo(f"MLflow: {record.address}")


def _stop(settings: Settings) -> None:
    stopped = Stack(settings=settings, note=click.echo).down()
    click.echo(f"stopped: {', '.join(stopped)}" if stopped else "nothing was running")
