"""Where the data directory is."""

from pathlib import Path

import pytest

from evals import datadir
from evals.errors import DataDirInvalid


def test_option_beats_environment_beats_settings_beats_default(tmp_path: Path) -> None:
    env = {datadir.VARIABLE: str(tmp_path / "env")}
    option, home = tmp_path / "option", tmp_path / "home"
    configured = {"configured": "corpora", "config_folder": tmp_path / "conf"}
    assert datadir.resolve(env, option=option, home=home, **configured) == option
    assert datadir.resolve(env, home=home, **configured) == tmp_path / "env"
    assert datadir.resolve({}, home=home, **configured) == tmp_path / "conf" / "corpora"
    assert datadir.resolve({}, home=home) == home / "data"


def test_empty_variable_is_not_set(tmp_path: Path) -> None:
    assert datadir.resolve({datadir.VARIABLE: ""}, home=tmp_path) == tmp_path / "data"


def test_home_of_the_user_is_known() -> None:
    found = datadir.resolve({}, option=Path("~/corpora"), home=Path("/h"))
    assert found == Path.home() / "corpora"
    assert datadir.resolve({}, configured="/abs", home=Path("/h")) == Path("/abs")


@pytest.mark.parametrize("name", ["~nobody-of-that-name/x", "a\0b", "a\x1b[2J", "/tmp/\udcff"])
def test_what_cannot_be_a_folder_is_refused_whoever_says_it(name: str, tmp_path: Path) -> None:
    with pytest.raises(DataDirInvalid, match=r"data directory .* cannot be used: .*--data-dir"):
        datadir.resolve({}, option=Path(name), home=tmp_path)
    with pytest.raises(DataDirInvalid, match="name another by LIFTLOCK_DATA_DIR"):
        datadir.resolve({datadir.VARIABLE: name}, home=tmp_path)
    with pytest.raises(DataDirInvalid, match="name another by data_dir"):
        datadir.resolve({}, configured=name, home=tmp_path)
