"""Options that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from evals import datadir
from jobs.errors import UsageError
from jobs.settings import Settings
from pipelines import config as configs
from pipelines.config import PromotionConfig
from registry.ledger import LedgerEntry, Waiver
from registry.model import check_model_name
from registry.store import Record
from registry.wording import check_line, shown

DEFAULT_FILE = Path("promotion.yaml")
MAX_ARGUMENT_CHARS = 4096  # Linux's longest path
VERSION = click.IntRange(1, 2**31 - 1)
"""Type of an option that takes a version number; MLflow's column holds no more."""


class PlainArguments(click.Group):
    """A group whose commands take arguments of one printable line only.

    Names, reasons and paths go into ledgers, logs and terminals, where a line end or a character
    that turns the direction of writing would tell something else than was said.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Looks at every argument of the command line once, before any is used."""
        for argument in args:
            try:
                check_line(f"argument {shown(argument)}", argument, MAX_ARGUMENT_CHARS)
            except ValueError as exc:
                raise click.UsageError(str(exc), ctx) from exc
        return super().parse_args(ctx, args)


model_option = click.option("--model", help="Registered model name. [default: the settings' model]")
config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings file. [default: ./promotion.yaml if there is one, else built-in defaults]",
)
_WAIVER_OPTIONS = (
    click.option(
        "--waive",
        multiple=True,
        metavar="GATE",
        help="Let the candidate pass this gate although it did not; may be repeated. Needs "
        "--waived-by, --waiver-expires and --reason.",
    ),
    click.option("--waived-by", default="", metavar="NAME", help="The person who answers for it."),
    click.option(
        "--waiver-expires", default="", metavar="DATE", help="Last day it holds, as 2030-12-31."
    ),
)
prompt_option = click.option(
    "--prompt",
    "prompt_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Prompt template and generation settings (JSON), for a checkpoint without prompt.json.",
)
data_dir_option = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder of published data. [env LIFTLOCK_DATA_DIR; default: the settings' data_dir, else "
    "HOME/data]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def waiver_options(command: Any) -> Any:
    """Adds the options by which a person lets a gate pass."""
    for option in reversed(_WAIVER_OPTIONS):
        command = option(command)
    return command


def waiver_of(gates: tuple[str, ...], by: str, expires: str, reason: str) -> Waiver | None:
    """The waiver that the options ask for, None where they ask for none.

    Raises:
        UsageError: only a part of it is given.
    """
    if not gates:
        if by or expires:
            raise UsageError("--waived-by and --waiver-expires belong to --waive GATE; name a gate")
        return None
    absent = [
        name
        for name, value in (
            ("--waived-by", by), ("--waiver-expires", expires), ("--reason", reason),
        )
        if not value.strip()
    ]  # fmt: skip
    if absent:
        raise UsageError(f"--waive needs {', '.join(absent)} too: a named person answers for it")
    return Waiver(by=by, reason=reason, expires=expires, gates=gates)


def load_config(path: Path | None, model: str | None) -> tuple[PromotionConfig, Path | None]:
    """The settings and the folder that relative suite paths are looked up in."""
    # Also a broken link is not passed over: somebody meant other settings than the defaults.
    chosen = path or (DEFAULT_FILE if os.path.lexists(DEFAULT_FILE) else None)
    return configs.load(chosen, model=model), chosen.resolve().parent if chosen else None


def data_folder(
    settings: Settings,
    option: Path | None,
    config: PromotionConfig | None = None,
    config_folder: Path | None = None,
) -> Path:
    """The folder of published data: option, environment, settings, default. It need not exist."""
    return datadir.resolve(
        os.environ,
        option=option,
        configured=config.data_dir if config is not None else None,
        config_folder=config_folder,
        home=settings.home,
    )


def settings_for(
    record: Record, model: str, entry: LedgerEntry, path: Path | None
) -> PromotionConfig:
    """The settings that a ledger entry was made with, or those of a file given by hand."""
    from pipelines import rollback

    if path is not None:
        return configs.load(path, model=model)
    return rollback.settings_of(record, model, entry)


def checked_model(name: str) -> str:
    """A model name given on the command line.

    Raises:
        UsageError: it cannot be one.
    """
    try:
        return check_model_name(name)
    except ValueError as exc:
        raise UsageError(str(exc)) from exc
