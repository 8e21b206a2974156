"""`liftlock upgrade`: the same weights under another runtime, behind the same gates."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from jobs import placing, progress, promoting
from jobs.cli_options import (
    checked_model,
    config_option,
    data_folder,
    json_option,
    load_config,
    settings_for,
)
from jobs.guard import guarded
from jobs.settings import Settings


@click.command()
@click.argument("model", default="grammar")
@config_option
@click.option("--reason", default="", help="Why; written into the ledger.")
@json_option
@click.pass_obj
def upgrade(settings: Settings, /, **options: Any) -> None:
    """Promote MODEL's champion again under the runtime of this environment.

    New versions of vLLM, Ray or llm-compressor, other engine settings or another kind of hardware
    can change answers as new weights can. The champion's own checkpoint is evaluated under the
    runtime as it is here now and held against the outcomes it was promoted with; if every gate
    passes it is rolled out beside itself under a version number of its own. Without --config the
    settings are those it was promoted with.

    \b
    Examples:
      liftlock upgrade grammar --reason "vLLM 0.33"
      liftlock upgrade grammar --config promotion.yaml

    Exits as promote does; 0 with nothing done where the runtime has not changed.
    """
    guarded(lambda: _upgrade(settings, **options))


def _upgrade(
    settings: Settings, *, model: str, config_file: Path | None, reason: str, as_json: bool
) -> None:
    from pipelines import identity, rollback
    from pipelines.promotion import Request
    from registry import cache, checkpoint

    record = placing.open_record(settings, progress.Terminal().note)
    entry = rollback.champion_of(record, checked_model(model))
    config = settings_for(record, model, entry, config_file)
    runtime = identity.runtime_of(config)
    if runtime.digest == entry.runtime_digest:
        click.echo(
            f"{model} version {entry.version} was promoted with this very runtime "
            f"({runtime.digest[7:19]}); nothing to upgrade"
        )
        return
    version = record.versions.get(model, entry.version)
    _, folder = load_config(config_file, model)
    request = Request(
        checkpoint=checkpoint.inspect(cache.fetch(record.versions, version, settings.cache)),
        config=config,
        config_folder=folder,
        data_dir=data_folder(settings, None, config, folder),
        reason=reason or f"upgrade of version {entry.version} to runtime {runtime.digest[7:19]}",
        name=f"upgrade version {entry.version}",
    )
    sys.exit(promoting.run(settings, request, as_json=as_json))
