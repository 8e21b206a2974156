"""`liftlock demo`: promotes the demo checkpoint and asks the endpoint for a correction."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from jobs import placing, promoting
from jobs.cli_options import data_folder, load_config
from jobs.errors import UsageError
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.settings import Settings
from jobs.stack import ROOT

CHECKPOINT = ROOT / "examples" / "checkpoints" / "tiny-gec-1"
MODEL = "grammar"
TEXT = "She go to school every days."


@click.command()
@click.pass_obj
def demo(settings: Settings) -> None:
    """Promote the demo checkpoint and ask the endpoint for a correction.

    The real job on a small model: real MLflow, llm-compressor, vLLM, lm-eval, Ray Serve and Envoy.
    """
    guarded(lambda: _demo(settings))


def _demo(settings: Settings) -> None:
    from pipelines.promotion import Request
    from registry import checkpoint

    if not CHECKPOINT.is_dir():
        raise UsageError(f"the demo checkpoint {CHECKPOINT} is not there; use a full clone")
    config, folder = load_config(None, MODEL)
    request = Request(
        checkpoint=checkpoint.inspect(CHECKPOINT),
        config=config,
        config_folder=folder,
        data_dir=data_folder(settings, None, config, folder),
    )
    code = promoting.run(settings, request, as_json=False)
    if code is not Exit.DONE:
        sys.exit(code)
    _ask(settings)


def _ask(settings: Settings) -> None:
    from serving.client import Client

    url, key = placing.endpoint_url(settings), placing.own_key(settings)
    with Client(url, api_key=key, tls=placing.own_trust(settings)) as client:
        correction = client.correct(TEXT)
    click.echo("")
    click.echo(f"asked:    {TEXT}")
    click.echo(f"answered: {correction}")
    click.echo("")
    click.echo(f"endpoint  {url}   (stop everything: {_command()} serve --stop)")


def _command() -> str:
    """How to call this command from here, where its environment may not be active."""
    return os.path.relpath(Path(sys.executable).parent / "liftlock")
