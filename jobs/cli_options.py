"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

from pipelines import config as configs
from pipelines.config import PromotionConfig

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
