"""Where the data directory is."""

from pathlib import Path

from evals import datadir


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
