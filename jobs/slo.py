"""`liftlock slo`: promises as alert rules and dashboards, and how much of their budget is left."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobs import placing
from jobs.cli_options import (
    checked_model,
    config_option,
    json_option,
    load_config,
)
from jobs.errors import StackError, UsageError
from jobs.guard import guarded
from jobs.inspecting import unknown
from jobs.settings import Settings
from jobs.web_address import WEB_ADDRESS
from serving.slo import SLO

if TYPE_CHECKING:
    from serving.slo.burn import Standing

    Standings = Sequence[Standing]

FORMAT = "liftlock/slo/v1"
DEFAULT_MODEL = "grammar"
_configs_option = click.option(
    "--config",
    "config_files",
    type=click.Path(path_type=Path, dir_okay=False),
    multiple=True,
    help="Settings file; may be repeated, one per model. [default: as for promote]",
)
_FOLDER = click.Path(path_type=Path, file_okay=False)


@click.group()
def slo() -> None:
    """Turn promises into alerts, and say how they stand.

    \b
    Examples:
      liftlock slo status grammar
      liftlock slo rules --config promotion.yaml --out deploy/prometheus
      liftlock slo dashboard --config promotion.yaml --out deploy/grafana
    """


@slo.command()
@_configs_option
@click.option(
    "--out",
    "folder",
    type=_FOLDER,
    required=True,
    help="Folder to write to, over the files of before.",
)
@click.option(
    "--runbooks",
    type=WEB_ADDRESS,
    metavar="URL",
    help="Where the pages that alerts link to are. [default: docs/runbooks]",
)
def rules(config_files: tuple[Path, ...], folder: Path, runbooks: str | None) -> None:
    """Generate Prometheus' recording and alert rules from the settings.

    One file per model, and one of what all models share.

    \b
    Examples:
      liftlock slo rules --out deploy/prometheus
      liftlock slo rules --config en.yaml --config de.yaml --out /etc/prometheus/rules
    """

    def body() -> None:
        from serving.slo import rules as generator

        pages = runbooks or generator.RUNBOOKS
        _write(generator.files(_promises(config_files), runbooks=pages), folder)

    guarded(body)


@slo.command()
@_configs_option
@click.option(
    "--out",
    "folder",
    type=_FOLDER,
    help="Folder to write to, over the files of before. [default: print]",
)
def dashboard(config_files: tuple[Path, ...], folder: Path | None) -> None:
    """Generate a Grafana dashboard per model from the settings.

    \b
    Examples:
      liftlock slo dashboard > dashboard.json
      liftlock slo dashboard --out deploy/grafana
    """

    def body() -> None:
        from serving.slo import dashboard as generator

        promises = _promises(config_files)
        found = {generator.name(m): generator.as_text(s, m) for m, s in promises.items()}
        if folder is not None:
            _write(found, folder)
        elif len(found) > 1:
            raise UsageError("several dashboards are several files; give a folder with --out")
        else:
            click.echo("".join(found.values()), nl=False)

    guarded(body)


@slo.command()
@click.argument("model", required=False)
@config_option
@click.option(
    "--prometheus",
    "url",
    type=WEB_ADDRESS,
    metavar="URL",
    help="Ask this server, which has the rules of `slo rules`, instead of the edge of this home.",
)
@json_option
@click.pass_obj
def status(settings: Settings, /, **options: Any) -> None:
    """Say how much of MODEL's error budgets is left, and how fast they burn.

    The promise is that of the champion's settings, or of --config. Without --prometheus the numbers
    are the edge's own, of this machine alone and since it booted. What was not counted is not
    known, which is not zero.

    \b
    Examples:
      liftlock slo status grammar
      liftlock slo status grammar --json
      liftlock slo status --config promotion.yaml --prometheus http://prometheus:9090
    """
    guarded(lambda: _status(settings, **options))


def _status(
    settings: Settings,
    *,
    model: str | None,
    config_file: Path | None,
    url: str | None,
    as_json: bool,
) -> None:
    if config_file is not None:
        config, _ = load_config(config_file, model)
        model, promise = config.model, config.slo
        standings = _of_edge(settings, model, promise) if url is None else ()
    else:
        model = checked_model(model or DEFAULT_MODEL)
        promise, standings = _of_champion(settings, model)
    if url is not None:
        standings = _of_prometheus(url, model, promise)
    head = {"format": FORMAT, "model": model, "at": placing.now(), "source": url or "edge"}
    _show(head, promise, standings, as_json=as_json)


def _of_champion(settings: Settings, model: str) -> tuple[SLO, Standings]:
    """The promise that the champion was put in charge with, and how `status` sees it stand."""
    from jobs.status import live, looks

    (found,) = looks.one(model, live.live(settings))()
    if found.is_unknown:
        raise unknown(model, found.known or ())
    if found.slo is not None:
        return found.slo, found.budget
    why = found.unread.get("record") or found.unread.get("settings")
    if why is not None:
        raise StackError(f"what {model} promises cannot be read: {why}; or give --config")
    raise UsageError(f"nothing was promoted to {model} yet, so nothing is promised; give --config")


def _of_edge(settings: Settings, model: str, promise: SLO) -> Standings:
    from jobs.status import live
    from serving.slo import burn

    counted = live.LiveEdge(settings.home).counted(model)
    return burn.standings(promise, counted.over if counted is not None else lambda _: None)


def _of_prometheus(url: str, model: str, promise: SLO) -> Standings:
    from serving.slo import prometheus

    standings = prometheus.standings(url, model, promise)
    if all(burn.rate is None for standing in standings for burn in standing.burns):
        click.echo(
            f"{url} has no burn of {model}: no traffic for days, or the rules of `liftlock slo "
            "rules` are not loaded there",
            err=True,
        )
    return standings


def _show(head: dict[str, Any], promise: SLO, standings: Standings, *, as_json: bool) -> None:
    from jobs.status import budget
    from serving.slo import burn

    if as_json:
        found = {
            **head,
            "slo": dataclasses.asdict(promise),
            "latency_bound_ms": burn.latency_bound_ms(promise),
            "budget": [budget.as_json(standing) for standing in standings],
        }
        click.echo(json.dumps(found, indent=2))
        return
    seen = "the edge of this machine" if head["source"] == "edge" else head["source"]
    click.echo(f"{head['model']}, {promise.window_days} days, as counted by {seen}, {head['at']}")
    for standing in standings:
        click.echo("\n".join(budget.as_lines(standing)))


def _promises(config_files: Sequence[Path]) -> dict[str, SLO]:
    """The promises by model.

    Raises:
        UsageError: two files speak of one model.
    """
    configs = [load_config(path, None)[0] for path in config_files or (None,)]
    names = [config.model for config in configs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"two of the settings files are of model {twice}; give one per model")
    return {config.model: config.slo for config in configs}


def _write(files: Mapping[str, str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
        click.echo(str(folder / name))
