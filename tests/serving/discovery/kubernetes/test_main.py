"""`python -m serving.discovery.kubernetes` shows what discovery sees, or says why it cannot."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import kmock as km
import pytest
import yaml

from serving.discovery.kubernetes import __main__ as program
from serving.discovery.kubernetes import kubernetes_source, source
from tests.serving.discovery.kubernetes.build import event, member, part, slices
from tests.serving.discovery.kubernetes.cluster import SLICES, Cluster

ONE = part(member("10.0.0.1", pod="a", zone="z"), at=9)


@pytest.fixture
def kubeconfig(kmock: km.RawHandler, tmp_path: Path) -> Path:
    path = tmp_path / "config"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": str(kmock.url)}}],
                "users": [{"name": "u", "user": {"token": "t"}}],
            }
        )
    )
    return path


async def test_each_change_is_a_line(
    kmock: km.RawHandler, kubeconfig: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    cluster = Cluster(kmock)
    cluster.lists[SLICES] = [slices(ONE)]
    watched = kubernetes_source("ns", port_name="http", kubeconfig=kubeconfig)
    showing = asyncio.create_task(program.show(watched, is_once=False, patience_s=5.0))
    await cluster.until_watched()
    cluster.say(SLICES, event("MODIFIED", part(at=20)))
    said = b""
    async with asyncio.timeout(5.0):
        while said.count(b"\n") < 2:
            await asyncio.sleep(0.01)
            said += capfdbinary.readouterr().out
    showing.cancel()
    await asyncio.wait([showing])
    first, second = map(json.loads, said.splitlines())
    assert first["endpoints"][0]["replica_id"] == "ns/a"
    assert first["endpoints"][0]["zone"] == "z"
    assert second["endpoints"] == []
    assert cluster.asked(SLICES, watch=False)[0].headers["Authorization"] == "Bearer t"


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["kubernetes", *arguments])
    return program.main()


def test_options_that_make_no_sense_are_code_2(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--namespace", "A/B") == 2
    assert "not a name of Kubernetes" in capsys.readouterr().err
    assert run(monkeypatch, "--namespace", "ns", "--kubeconfig", str(tmp_path / "none")) == 2
    assert "cannot be used" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        run(monkeypatch)


def test_a_cluster_that_is_away_is_code_1(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    unused_tcp_port: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "config"
    cluster = {"server": f"http://127.0.0.1:{unused_tcp_port}"}
    path.write_text(
        "current-context: x\ncontexts: [{name: x, context: {cluster: x, user: x}}]\n"
        f"clusters: [{{name: x, cluster: {json.dumps(cluster)}}}]\nusers: [{{name: x}}]\n"
    )
    options = ("--all-namespaces", "--kubeconfig", str(path), "--once", "--patience", "0.2")
    assert run(monkeypatch, *options) == 1
    assert "not known yet" in capsys.readouterr().err


def test_outside_of_a_cluster_a_kubeconfig_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(source.errors.AccessInvalid, match="give a kubeconfig"):
        kubernetes_source("ns")
