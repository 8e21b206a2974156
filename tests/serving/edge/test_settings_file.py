"""The edge's settings as a file: what is taken, and what is refused in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from serving.edge import __main__ as edge_main
from serving.edge import config, settings_file
from serving.errors import EdgeError

EVERYTHING = """
listen_host: 0.0.0.0
port: 8443
workers: 4
edges: 10
access_log: 0.01
keys: {required: true, folder: ../keys}
tls: {certificate: tls/tls.crt, key: /etc/tls/tls.key}
quotas:
  - {model: grammar, rate_rps: 500}
retry: {retries: 1}
ejection: {max_percent: 10}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "edge.yaml"
    file.write_text(text)
    return file


def test_every_kind_of_setting_is_read_and_paths_are_the_files_neighbors(tmp_path: Path) -> None:
    found = settings_file.load(written(tmp_path, EVERYTHING))
    assert (found.port, found.workers, found.edges, found.access_log) == (8443, 4, 10, 0.01)
    assert found.keys == config.KeySettings(required=True, folder=tmp_path / "../keys")
    assert found.tls == config.TlsSettings(
        certificate=tmp_path / "tls/tls.crt", key=Path("/etc/tls/tls.key")
    )
    assert found.quotas == (config.ModelQuota(model="grammar", rate_rps=500),)
    assert found.retry.retries == 1
    assert found.ejection.max_percent == 10


def test_an_empty_file_means_the_defaults(tmp_path: Path) -> None:
    assert settings_file.load(written(tmp_path, "# nothing\n")) == config.EdgeSettings()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("prot: 8000", "unknown key prot, did you mean port?"),
        ("keys: {require: true}", "unknown key keys.require, did you mean required?"),
        ("quotas: [{model: a, rate: 5}]", "unknown key quotas.rate, did you mean rate_rps?"),
        ("keys: {required: yes please}", "keys.required"),
        ('port: "8000"', "port: Input should be a valid integer"),
        ("port: 0", "port must be 1 to 65535"),
        ("keys: true", "keys"),
        ("tls: {certificate: a.crt}", "tls.key"),
        ("quotas: [{model: a, rate_rps: 1}, {model: a, rate_rps: 2}]", "one per model"),
        ("quotas: [{model: a, rate_rps: 0}]", "1 to 1000000"),
        ("access_log: 2", "a share, 0 to 1"),
        ("edges: .inf", "not a finite number"),
        ("port: 1\nport: 2", "more than once"),
        ("- port", "must hold `key: value`"),
        ("port: [", "edge.yaml"),
        ("1: 2", "unknown key 1"),
        ("drain_s: 2026-01-01", "hold what settings cannot"),
        ("x" * 70_000, "64.0 KiB"),
    ],
)
def test_settings_that_cannot_be_are_refused_by_name(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(EdgeError) as refused:
        settings_file.load(written(tmp_path, text))
    assert told in str(refused.value)
    assert "edge.yaml" in str(refused.value)


def test_options_win_over_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "port: 9000\nadmin_port: 9001")
    given = ["--home", str(tmp_path), "--endpoints", "none.json", "--config", str(file)]
    assert edge_main.main([*given, "--port", "9001"]) == 1
    assert capsys.readouterr().err == "edge: admin_port must be not the port, found 9001\n"


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(EdgeError, match=r"absent.yaml: does not exist"):
        settings_file.load(tmp_path / "absent.yaml")
