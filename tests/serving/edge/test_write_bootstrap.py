"""The bootstrap of an Envoy that something else runs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from serving.edge import process, tls, write_bootstrap
from tests.serving.edge import certificates

GIVEN = ("--discovery", "discovery:18000", "--edge-id", "e1", "--url", "http://e1:8000")


def test_envoy_accepts_it_and_it_says_who_asks_whom(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert write_bootstrap.main([*GIVEN, "--zone", "z1", "--access-log", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed)
    assert (found["node"]["id"], found["node"]["locality"]) == ("e1", {"zone": "z1"})
    (cluster,) = found["static_resources"]["clusters"]
    assert cluster["type"] == "STRICT_DNS"
    assert "discovery" in json.dumps(cluster["load_assignment"])
    file = tmp_path / "bootstrap.json"
    file.write_text(printed)
    done = subprocess.run(
        [process.envoy_binary(), "--mode", "validate", "--config-path", file],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("where", ["nowhere", "host:port"])
def test_an_address_without_a_port_is_refused(
    where: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["--discovery", where, *GIVEN[2:]]
    assert write_bootstrap.main(given) == 1
    assert "HOST:PORT" in capsys.readouterr().err


def test_it_is_written_with_the_file_that_leads_to_the_certificate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    certificates.Authority(tmp_path).issue(tmp_path / "edge.crt", tmp_path / "edge.key")
    config = tmp_path / "edge.yaml"
    config.write_text("tls: {certificate: edge.crt, key: edge.key}")
    assert write_bootstrap.main([*GIVEN, "--config", str(config)]) == 1
    assert "--into" in capsys.readouterr().err
    into = tmp_path / "into"
    assert write_bootstrap.main([*GIVEN, "--config", str(config), "--into", str(into)]) == 0
    assert capsys.readouterr().out == ""
    leads = tls.secret_file(into)
    assert str(leads) in (into / "bootstrap.json").read_text()
    assert str(tmp_path / "edge.crt") in leads.read_text()
    assert "PRIVATE" not in leads.read_text()


def test_statistics_have_a_port_of_their_own_where_the_admins_is_known(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert write_bootstrap.main([*GIVEN, "--metrics-port", "9902"]) == 0
    listeners = json.loads(capsys.readouterr().out)["static_resources"]["listeners"]
    assert [each["name"] for each in listeners] == ["edge", "metrics"]
    assert write_bootstrap.main([*GIVEN, "--metrics-port", "9902", "--admin-port", "0"]) == 1
    assert "admin_port" in capsys.readouterr().err
