"""Which folder is the data directory: option, then environment, then settings, then default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from evals import errors
from registry.wording import check_line, shown

VARIABLE = "LIFTLOCK_DATA_DIR"
MOST_CHARS = 4096  # Linux's PATH_MAX
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

    Raises:
        DataDirInvalid: no folder can have this name.
    """
    if option is not None:
        return _absolute(option, "--data-dir")
    if env.get(VARIABLE):
        return _absolute(Path(env[VARIABLE]), VARIABLE)
    if configured:
        return _absolute(Path(configured), "data_dir", config_folder)
    return _absolute(home / DEFAULT_NAME, "the home folder")


def _absolute(path: Path, said: str, folder: Path | None = None) -> Path:
    try:
        found = ((folder or Path.cwd()) / path.expanduser()).resolve()
        return Path(check_line("it", str(found), MOST_CHARS))
    except (OSError, RuntimeError, ValueError) as exc:  # ~nobody, links in a circle, odd characters
        raise errors.DataDirInvalid(
            f"the data directory {shown(str(path))} cannot be used: {exc}; name another by {said}"
        ) from exc
