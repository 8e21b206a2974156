"""`liftlock quantize`: one FP8 variant, or the sweep that finds the best one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobs import placing
from jobs.cli_options import (
    config_option,
    data_dir_option,
    data_folder,
    json_option,
    load_config,
    model_option,
    prompt_option,
)
from jobs.errors import UsageError
from jobs.guard import guarded
from jobs.settings import Settings

if TYPE_CHECKING:
    from pipelines.quantizing import Made, Request
    from pipelines.sweep import Sweep

AIMS = ("throughput", "memory")


@click.command()
@click.argument("checkpoint", type=click.Path(path_type=Path))
@click.option("--sweep", "sweeping", is_flag=True, help="Try several recipes and pick one.")
@click.option(
    "--aim",
    type=click.Choice(AIMS),
    help="What a sweep picks by. [default: the settings' recipe.aim]",
)
@model_option
@config_option
@prompt_option
@data_dir_option
@json_option
@click.pass_obj
def quantize(settings: Settings, /, **options: Any) -> None:
    """Make the FP8 variant of CHECKPOINT that the settings' recipe names, and register both.

    With --sweep: make several variants, judge each against CHECKPOINT by the gates of the settings,
    measure their speed beside each other, and name the fastest that passes. One that is not
    measurably faster than CHECKPOINT is not picked, unless the aim is memory: then the smallest
    that passes is. Nothing that serves is changed. Finished parts are not redone: after an
    interruption run the same command again.

    \b
    Examples:
      liftlock quantize examples/checkpoints/tiny-gec-1 --model grammar
      liftlock quantize ckpt --sweep --aim throughput
      liftlock quantize ckpt --sweep --config promotion.yaml --json

    Exits 0 also where no variant is picked; 6 if another command owns the model.
    """
    guarded(lambda: _quantize(settings, **options))


def _quantize(  # one keyword per option
    settings: Settings,
    *,
    checkpoint: Path,
    sweeping: bool,
    aim: str | None,
    model: str | None,
    config_file: Path | None,
    prompt_file: Path | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    from pipelines.quantizing import Request
    from registry import checkpoint as checkpoints

    if aim is not None and not sweeping:
        raise UsageError("--aim is what a sweep picks by; add --sweep")
    config, folder = load_config(config_file, model)
    if aim is not None:
        from pipelines.recipe import Aim

        recipe = dataclasses.replace(config.recipe, aim=Aim(aim))
        config = dataclasses.replace(config, recipe=recipe)
    request = Request(
        checkpoint=checkpoints.inspect(checkpoint, prompt_file=prompt_file),
        config=config,
        config_folder=folder,
        data_dir=data_folder(settings, data_dir, config, folder),
    )
    if sweeping:
        _sweep(settings, request, as_json)
    else:
        _one(settings, request, as_json)


def _one(settings: Settings, request: Request, as_json: bool) -> None:
    from pipelines import quantizing

    with placing.opened(settings, request.config) as place:
        made = quantizing.quantize(request, place)
    summary = made_summary(made)
    click.echo(json.dumps(summary, indent=2) if as_json else "\n".join(_made_lines(made)))


def made_summary(made: Made) -> dict[str, Any]:
    """One variant as plain data for machines."""
    return {
        "model": made.version.model,
        "version": made.version.version,
        "parent": made.version.parent,
        "digest": made.version.digest,
        "recipe": made.measured.recipe,
        "size_ratio": made.measured.size_ratio,
        "weight_errors": [dataclasses.asdict(group) for group in made.measured.groups],
        "run_url": made.run_url,
    }


def _made_lines(made: Made) -> Iterator[str]:
    version = made.version
    yield (
        f"version {version.version} of {version.model}: {made.measured.recipe} of version "
        f"{version.parent}, {made.measured.size_ratio:.2f} of its size"
    )
    for group in made.measured.groups:
        yield f"  {group.group}: relative error of weights {100 * group.relative_error:.2f} %"
    yield f"review it in MLflow: {made.run_url}"


def _sweep(settings: Settings, request: Request, as_json: bool) -> None:
    from pipelines import sweep

    with placing.opened(settings, request.config) as place:
        done = sweep.sweep(request, place)
    if as_json:
        click.echo(json.dumps(summary(done, request), indent=2))
    else:
        click.echo("\n".join(lines(done, request)))


def summary(done: Sweep, request: Request) -> dict[str, Any]:
    """A sweep as plain data for machines."""
    found = done.sensitivity
    return {
        "model": request.config.model,
        "aim": str(request.config.recipe.aim),
        "picked": done.pick.name,
        "reason": done.pick.reason,
        "variants": [row.to_dict() for row in done.rows],
        "layer_errors": [
            {
                **dataclasses.asdict(error),
                "weight_sqnr_db": error.weight_sqnr_db,
                "output_sqnr_db": error.output_sqnr_db,
            }
            for error in found.errors
        ],
        "divergence_nats": dict(found.divergence),
        "notes": list(_notes(done, request)),
        "run_id": done.run_id,
        "run_url": done.run_url,
        "stages": [
            {"stage": t.stage, "seconds": round(t.seconds, 2), "reused": t.reused}
            for t in done.times
        ],
    }


def _notes(done: Sweep, request: Request) -> Iterator[str]:
    from pipelines import sweep_table

    return sweep_table.notes(done.rows, on_cpu=request.on_cpu)


def lines(done: Sweep, request: Request) -> Iterator[str]:
    """A sweep for people: the variants, the layers, the pick."""
    from pipelines import sweep_table

    yield from sweep_table.lines(done.rows, unit="CPU" if request.on_cpu else "GPU")
    yield ""
    yield from sweep_table.layer_lines(done.sensitivity)
    yield ""
    yield from _notes(done, request)
    yield sweep_table.answer(done.pick)
    yield from _next(done)
    yield f"plot and table in MLflow: {done.run_url}"


def _next(done: Sweep) -> Iterator[str]:
    """How to promote what was picked."""
    picked = next((row for row in done.rows if row.name == done.pick.name), None)
    if picked is None:
        return
    from pipelines.sweep_plan import pattern
    from pipelines.sweep_stages import ONLINE

    if picked.name == ONLINE:
        yield "to promote it set recipe.enabled: false and resources.engine.quantization: fp8"
        return
    weights, attention = picked.recipe.split("-")[1:3]
    yield (
        f"to promote it set recipe.weights: {weights} and recipe.attention: "
        f"{'true' if attention == 'attn' else 'false'}"
        + "".join(f", and add '{pattern(group)}' to recipe.ignore" for group in picked.excluded)
    )
