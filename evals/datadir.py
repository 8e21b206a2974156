"""Which folder is the data directory: option, then environment, then settings, then default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

VARIABLE = "LIFTLOCK_DATA_DIR"
DEFAULT_NAME = "data"
"""Below the home folder."""


def resolve(
    env: Mapping[str, str],
    *,
    option: Path | None = None,
    configured: str | None = None,
    config_folder: Path | None = None,
    home: Path,
) -> Path:
    """The data directory, absolute; it need not exist.

    Args:
        env: the environment; LIFTLOCK_DATA_DIR is read from it.
        option: what `--data-dir` says.
        configured: the key `data_dir` of the settings, relative to `config_folder`.
        config_folder: folder of the settings file; None is the working directory.
        home: folder of the local stack; its `data` is the default.
    """
    if option is not None:
        return option.expanduser().resolve()
    if env.get(VARIABLE):
        return Path(env[VARIABLE]).expanduser().resolve()
    if configured:
        return ((config_folder or Path.cwd()) / Path(configured).expanduser()).resolve()
    return (home / DEFAULT_NAME).resolve()
