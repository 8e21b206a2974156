"""Settings that cannot be are refused before anything is started or written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.errors import UsageError
from jobs.settings import resolve


@pytest.mark.parametrize(
    "uri",
    [
        "http://127.0.0.1:5000",
        "https://mlflow.example/base/",
        "http://[::1]:5000",
        "databricks",
        "databricks-uc",
        "databricks://profile",
        "databricks-uc://profile",
    ],
)
def test_addresses_of_tracking_servers_are_accepted(tmp_path: Path, uri: str) -> None:
    assert resolve({}, home=tmp_path, tracking_uri=uri).tracking_uri == uri


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("mlruns", "is not one of an MLflow server"),
        ("./databricks/x", "is not one of an MLflow server"),
        ("file:///tmp/mlruns", "is not one of an MLflow server"),
        ("sqlite:///x.db", "is not one of an MLflow server"),
        ("ftp://host", "is not one of an MLflow server"),
        ("http://", "is not one of an MLflow server"),
        ("http:///path", "is not one of an MLflow server"),
        ("127.0.0.1:5000", "is not one of an MLflow server"),
        ("http://host:99999", "is none: Port out of range"),
        ("http://host:port", "is none: Port could not"),
        ("http://[::1", "is none: Invalid IPv6"),
        ("http://host:0", "is not one"),
        ("http://ann:secret@host:5000", "MLFLOW_TRACKING_USERNAME"),
    ],
)
def test_other_addresses_are_refused_and_make_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uri: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=told) as refused:
        resolve({"MLFLOW_TRACKING_URI": uri})
    assert "secret" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("port", ["0", "65536", "-1", "8e3", "²", "٣", " 8000", "9" * 5_000, "x"])
def test_a_port_that_is_none_is_refused(tmp_path: Path, port: str) -> None:
    for name in ("LIFTLOCK_PORT", "LIFTLOCK_MLFLOW_PORT"):
        with pytest.raises(UsageError, match=r"port"):
            resolve({name: port}, home=tmp_path)


@pytest.mark.parametrize(
    ("home", "told"),
    [
        ("x" * 5_000, "cannot be used"),
        ("/tmp/" + "y/" * 3_000, "cannot be used"),
        ("~nosuchuser/x", "cannot be used"),
        ("a\nb", "cannot be used"),
        ("/dev/null/x", "is not a folder"),
        ("/proc/x", "cannot be written"),
    ],
)
def test_a_home_that_cannot_be_is_refused(home: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        resolve({"LIFTLOCK_HOME": home})


def test_links_in_a_circle_are_no_home(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(UsageError, match="cannot be used"):
        resolve({}, home=tmp_path / "round")


NAMES = st.sampled_from(
    ["LIFTLOCK_HOME", "MLFLOW_TRACKING_URI", "LIFTLOCK_PORT", "LIFTLOCK_MLFLOW_PORT"]
)


@given(st.dictionaries(NAMES, st.text(st.characters(exclude_characters="\0"), max_size=20)))
def test_any_environment_is_settings_or_refused(env: Mapping[str, str]) -> None:
    try:
        resolve(env)
    except UsageError as exc:
        told = str(exc)
    else:
        told = ""
    assert "\n" not in told


def test_the_edges_settings_are_the_homes_unless_another_file_is_named(tmp_path: Path) -> None:
    assert resolve({}, home=tmp_path).edge_file is None
    (tmp_path / "edge.yaml").touch()
    assert resolve({}, home=tmp_path).edge_file == tmp_path.resolve() / "edge.yaml"
    other = {"LIFTLOCK_EDGE_CONFIG": str(tmp_path / "other.yaml")}
    assert resolve(other, home=tmp_path).edge_file == tmp_path.resolve() / "other.yaml"
