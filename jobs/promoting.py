"""`liftlock promote`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from jobs import placing, progress
from jobs.cli_options import (
    VERSION,
    config_option,
    data_dir_option,
    data_folder,
    json_option,
    load_config,
    model_option,
    prompt_option,
    waiver_of,
    waiver_options,
)
from jobs.exits import Exit
from jobs.guard import guarded
from jobs.settings import Settings
from pipelines.stage_names import STAGE_NAMES


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@model_option
@config_option
@prompt_option
@data_dir_option
@click.option("--reason", default="", help="Why; written into the ledger.")
@click.option("--lineage", help="Link to or id of the training run.")
@click.option(
    "--parent", type=VERSION, help="Version that an already quantized checkpoint was made from."
)
@click.option(
    "--rerun",
    multiple=True,
    metavar="STAGE",
    help="Do a stage again though the record has it; may be repeated. One of: "
    f"{', '.join(STAGE_NAMES)}.",
)
@waiver_options
@click.option(
    "--plan", is_flag=True, help="Print what would run and what it needs; change nothing."
)
@json_option
@click.pass_obj
def promote(settings: Settings, /, **options: Any) -> None:
    """Take CHECKPOINT through its gates to production.

    Registers it, makes the FP8 variant, evaluates it against the champion, and, if every gate
    passes, rolls it out and records it. Finished stages are not redone: after an interruption run
    the same command again.

    \b
    Examples:
      liftlock promote examples/checkpoints/tiny-gec-1 --model grammar
      liftlock promote ckpt --model grammar --config promotion.yaml --plan
      liftlock promote ckpt --rerun evaluate
      liftlock promote ckpt --waive synthetic-erroneous --waive synthetic-erroneous/spelling \\
        --waived-by "Ann Bell" --waiver-expires $(date -d "+14 days" +%F) --reason "known gap"

    Exits 0 if it serves, 3 if a gate refused it, 5 if it was rolled back, 6 if another command owns
    the model or it is frozen.
    """
    guarded(lambda: _promote(settings, **options))


def _promote(  # one keyword per option
    settings: Settings,
    *,
    checkpoint: Path,
    model: str | None,
    config_file: Path | None,
    prompt_file: Path | None,
    data_dir: Path | None,
    reason: str,
    lineage: str | None,
    parent: int | None,
    rerun: tuple[str, ...],
    waive: tuple[str, ...],
    waived_by: str,
    waiver_expires: str,
    plan: bool,
    as_json: bool,
) -> None:
    from pipelines import waivers
    from pipelines.promotion import Request
    from registry import checkpoint as checkpoints

    config, folder = load_config(config_file, model)
    request = Request(
        checkpoint=checkpoints.inspect(checkpoint, prompt_file=prompt_file),
        config=config,
        config_folder=folder,
        data_dir=data_folder(settings, data_dir, config, folder),
        reason=reason,
        lineage=lineage,
        parent=parent,
        rerun=frozenset(rerun),
        waiver=waiver_of(waive, waived_by, waiver_expires, reason),
    )
    if request.waiver is not None:
        waivers.check(request.waiver, config.waivers, placing.now())
    if plan:
        _print_plan(settings, request, as_json)
    else:
        sys.exit(run(settings, request, as_json=as_json))


def run(settings: Settings, request: Any, *, as_json: bool) -> Exit:
    """Promotes and prints what came of it."""
    from pipelines.promotion import Ending
    from pipelines.promotion import promote as promote_now

    with placing.opened(settings, request.config) as place:
        promotion = promote_now(request, place)
    if as_json:
        click.echo(json.dumps(summary(promotion, settings), indent=2))
    else:
        _print_promotion(promotion, settings)
    return Exit.REFUSED if promotion.ending is Ending.REFUSED else Exit.DONE


def summary(promotion: Any, settings: Settings) -> dict[str, Any]:
    """A promotion as plain data for machines."""
    verdict = promotion.verdict
    return {
        "ending": str(promotion.ending),
        "model": promotion.version.model,
        "version": promotion.version.version,
        "digest": promotion.version.digest,
        "verdict": str(verdict.status),
        "reasons": [r.reason for r in verdict.results if str(r.status) != "pass"],
        "run_id": promotion.run_id,
        "run_url": promotion.run_url,
        "endpoint": placing.endpoint_url(settings),
        "stages": [
            {"stage": t.stage, "seconds": round(t.seconds, 2), "reused": t.reused}
            for t in promotion.times
        ],
    }


def _print_promotion(promotion: Any, settings: Settings) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.print(progress.stage_table(promotion.times))
    verdict = promotion.verdict
    console.print(f"verdict: {verdict.status}", markup=False)
    for result in verdict.results:
        if str(result.status) != "pass":
            console.print(f"  {result.reason}", markup=False, soft_wrap=True)
    if str(promotion.ending) == "refused":
        missed = [f"--waive {r.name}" for r in verdict.results if str(r.status) != "pass"]
        told = f"a named person may excuse this (docs/promotions.md): {' '.join(missed)}"
        console.print(told, markup=False, soft_wrap=True)
    name = f"{promotion.version.model} version {promotion.version.version}"
    url = placing.endpoint_url(settings)
    endings = {
        "promoted": f"{name} serves at {url}",
        "promoted with a waiver": f"{name} serves at {url}, although a gate did not pass",
        "already champion": f"{name} is champion already and serves at {url}",
        "refused": f"{name} was refused; what served before still does",
    }
    console.print(endings[str(promotion.ending)], markup=False, soft_wrap=True)
    console.print(f"review it in MLflow: {promotion.run_url}", markup=False, soft_wrap=True)


def _print_plan(settings: Settings, request: Any, as_json: bool) -> None:
    from pipelines.plan import plan_of

    record = None
    uri = placing.existing_tracking_uri(settings)
    if uri is not None:
        record = placing.connect_to(uri)
    plan = plan_of(request, record)
    if as_json:
        click.echo(json.dumps(plan.as_dict(), indent=2))
        return
    click.echo(plan.as_text())
