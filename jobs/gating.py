"""`liftlock gate power`: what the gates of a settings file can show, before anything is run."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evals.outcome import Outcomes
from evals.policy import PSI
from evals.suite import Suite
from jobs.cli_options import config_option, data_folder, json_option, load_config
from jobs.errors import UsageError
from jobs.guard import guarded
from jobs.settings import Settings
from registry import reading

if TYPE_CHECKING:
    from evals.evidence import Unavailable
    from evals.planning import Row, Runs

MAX_OUTCOMES_BYTES = 1 << 30


@click.group()
def gate() -> None:
    """Look at the gates of the settings without running anything.

    \b
    Examples:
      liftlock gate power
      liftlock gate power --config promotion.yaml --psi 0.01 --psi 0.1
    """


@gate.command()
@config_option
@click.option(
    "--psi",
    "psi",
    type=click.FloatRange(0.0, 1.0),
    multiple=True,
    help="Share of examples assumed to change sides, 0..1; may be repeated. "
    f"[default: {', '.join(f'{share:g}' for share in PSI)}]",
)
@click.option(
    "--noise",
    nargs=2,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FIRST SECOND",
    help="Folders of outcomes of two runs of one model, whose noise is used instead of --psi.",
)
@click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of published data. [env LIFTLOCK_DATA_DIR; default HOME/data]",
)
@json_option
@click.pass_obj
def power(settings: Settings, /, **options: Any) -> None:
    """Say with what chance an equally good candidate passes each gate, and what sizes it takes.

    The power of a gate depends on how unlike two models answer: on the share of examples that
    change sides, assumed with --psi, or measured on two runs of one model with --noise. Nothing is
    run and nothing is changed.

    \b
    Examples:
      liftlock gate power
      liftlock gate power --psi 0.01 --psi 0.1 --json
      liftlock gate power --noise runs/a runs/b
    """
    guarded(lambda: _power(settings, **options))


def _power(  # one keyword per option
    settings: Settings,
    *,
    config_file: Path | None,
    psi: tuple[float, ...],
    noise: tuple[Path, Path] | None,
    data_dir: Path | None,
    as_json: bool,
) -> None:
    from evals import planning
    from pipelines.outcomes import suites_of

    wrong = [value for value in psi if not 0.0 <= value <= 1.0]
    if wrong:
        raise UsageError(f"--psi must be a share from 0 to 1, is {wrong[0]:g}")

    config, folder = load_config(config_file, None)
    found = suites_of(config, folder, data_folder(settings, data_dir, config, folder))
    runs = None if noise is None else _runs(found.loaded, *noise)
    rows = planning.plan(found.loaded, config.gates, psi or PSI, runs)
    if as_json:
        click.echo(json.dumps(_as_json(rows, found.absent), indent=2))
    else:
        click.echo("\n".join(_table(rows, found.absent)))


def _runs(suites: Sequence[Suite], first: Path, second: Path) -> Runs:
    if first.resolve() == second.resolve():
        raise UsageError(
            f"--noise needs two runs, {first} is one; evaluate again into another --out"
        )
    runs = {}
    for suite in suites:
        one, other = _outcomes(first, suite.name), _outcomes(second, suite.name)
        if one is not None and other is not None:
            runs[suite.name] = (one, other)
    if not runs:
        raise UsageError(
            f"--noise: {first} and {second} hold no outcomes of {', '.join(s.name for s in suites)}"
            "; an evaluation leaves them as outcomes-SUITE.json"
        )
    return runs


def _outcomes(folder: Path, suite: str) -> Outcomes | None:
    """As a worker leaves them, or as the record holds them."""
    for path in (folder / f"outcomes-{suite}.json", folder / f"{suite}.json"):
        try:
            return Outcomes.from_json(reading.read_text(path, MAX_OUTCOMES_BYTES))
        except reading.Absent:
            continue
        except ValueError as exc:
            raise UsageError(f"--noise: {path} cannot be read as outcomes: {exc}") from exc
    return None


def _as_json(rows: Sequence[Row], unavailable: Sequence[Unavailable]) -> dict[str, object]:
    return {
        "gates": [{**dataclasses.asdict(row), "is_enough": row.is_enough} for row in rows],
        "unavailable": [dataclasses.asdict(item) for item in unavailable],
    }


def _table(rows: Sequence[Row], unavailable: Sequence[Unavailable]) -> list[str]:
    width = max([len(row.gate) for row in rows] + [4])
    lines = [
        f"{'gate':<{width}}  {'examples':>8}  {'clusters':>8}  {'margin':>6}  "
        f"{'assumed':<19}  {'power':>6}  {'needed':>8}"
    ]
    for row in rows:
        clusters = "-" if row.clusters is None else f"{row.clusters:,}"
        needed = "never" if row.needed_n is None else f"{row.needed_n:,}"
        lines.append(
            f"{row.gate:<{width}}  {row.n:>8,}  {clusters:>8}  {row.margin_points:>6g}  "
            f"{row.assumed:<19}  {100.0 * row.power:>4.0f} %  {needed:>8}"
            + ("" if row.is_enough else f"  below {100.0 * row.wanted_power:g} %")
        )
    lines += [f"not available: {item.reason}" for item in unavailable]
    return [*lines, "", *_notes(rows)]


def _notes(rows: Sequence[Row]) -> list[str]:
    from evals import metrics, planning

    notes = [
        "Power: chance that a candidate exactly as good as the champion passes. Needed: examples",
        "for the wanted power. Margin in points; of a limit, in per cent.",
    ]
    assumed = [row for row in rows if row.assumed != planning.MEASURED]
    if any(not metrics.get(row.metric).is_rate for row in assumed):
        notes.append("A corpus score is assumed to change by a whole example at each, at most.")
    if any(row.clusters for row in assumed):
        notes.append("Examples of one cluster are assumed to be independent; --noise measures it.")
    return notes
