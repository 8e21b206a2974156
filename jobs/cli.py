"""The command line: `liftlock VERB`, also `python -m jobs VERB`. Parses, builds, calls, exits."""

from __future__ import annotations

from pathlib import Path

import click

from jobs.cli_options import PlainArguments
from jobs.errors import UsageError
from jobs.exits import Exit

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


@click.group(cls=PlainArguments, context_settings=CONTEXT)
@click.version_option(package_name="liftlock")
@click.option(
    "--home",
    type=click.Path(path_type=Path, file_okay=False),
    help="State of the local stack. [env LIFTLOCK_HOME; default .liftlock]",
)
@click.option(
    "--tracking-uri",
    help="Your MLflow server; a local one is run where none is given. [env MLFLOW_TRACKING_URI]",
)
@click.option("--port", type=int, help="Port of the endpoint. [env LIFTLOCK_PORT; default 8000]")
@click.pass_context
def main(ctx: click.Context, home: Path | None, tracking_uri: str | None, port: int | None) -> None:
    """Takes a model checkpoint to production behind gates, with MLflow as the record.

    \b
    liftlock promote examples/checkpoints/tiny-gec-1 --model grammar
    liftlock status grammar
    liftlock rollback grammar

    Exit codes: 0 done, 1 fault, 2 usage, 3 gate refused, 4 waiting for approval, 5 rolled back,
    6 not now (owned by another command, or frozen).
    """
    from jobs import settings
    from jobs.guard import fail

    try:
        ctx.obj = settings.from_process(home=home, tracking_uri=tracking_uri, endpoint_port=port)
    except UsageError as exc:
        fail(exc, Exit.USAGE)


def _add_commands() -> None:
    from jobs import (
        backup,
        correcting,
        demo,
        doctor,
        evaluating,
        freezing,
        gating,
        inspecting,
        keys,
        promoting,
        quantizing,
        rolling,
        serve,
        slo,
        suites,
        upgrading,
    )

    for command in (
        promoting.promote,
        quantizing.quantize,
        inspecting.status,
        inspecting.history,
        rolling.rollback,
        upgrading.upgrade,
        freezing.freeze,
        freezing.thaw,
        serve.serve,
        keys.keys,
        correcting.correct,
        backup.backup,
        backup.restore,
        suites.suites,
        evaluating.evaluate,
        gating.gate,
        slo.slo,
        doctor.doctor,
        demo.demo,
    ):
        main.add_command(command)


_add_commands()
