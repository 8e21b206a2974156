"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from jobs.errors import UsageError
from pipelines import config as configs
from pipelines.config import PromotionConfig
from registry.ledger import LedgerEntry
from registry.model import check_model_name
from registry.store import Record

DEFAULT_FILE = Path("promotion.yaml")

model_option = click.option("--model", help="Registered model name. [default: the settings' model]")
config_option = click.option(
    "--config",
    "config_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Settings file. [default: ./promotion.yaml if there is one, else built-in defaults]",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")


def load_config(path: Path | None, model: str | None) -> tuple[PromotionConfig, Path | None]:
    """The settings and the folder that relative suite paths are looked up in."""
    chosen = path or (DEFAULT_FILE if DEFAULT_FILE.is_file() else None)
    return configs.load(chosen, model=model), chosen.resolve().parent if chosen else None


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
