"""The command line: help, exit codes, and messages instead of tracebacks."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jobs import doctor
from jobs.cli import main
from jobs.exits import Exit
from jobs.settings import Settings, resolve
from tests.fakes import checkpoints

REFERENCE = (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
TABLE = REFERENCE.partition("## Commands")[2].partition("Before the verb")[0]
VERBS = sorted(set(re.findall(r"(?:^\| |, )`([a-z]+)(?:[ `])", TABLE, re.MULTILINE)))
"""Every verb that the reference lists."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    for name in ("MLFLOW_TRACKING_URI", "LIFTLOCK_HOME", "LIFTLOCK_PORT", "LIFTLOCK_MLFLOW_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(main, ["--home", str(tmp_path / "home"), *args])


def test_every_verb_of_the_reference_is_there_with_examples() -> None:
    assert sorted(main.commands) == VERBS
    for verb in VERBS:
        shown = CliRunner().invoke(main, [verb, "--help"])
        assert shown.exit_code == 0
        assert "liftlock" in shown.output or verb == "demo"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("promote", "nowhere"), "does not exist"),
        (("promote", "nowhere", "--model", "Bad Name"), "lowercase"),
        (("promote", "nowhere", "--config", "absent.yaml"), "absent.yaml"),
        (("status", "Bad Name"), "lowercase"),
        (("promote",), "Missing argument"),
        (("--port", "99999", "status"), "1..65535"),
        (("sing",), "No such command"),
        (("gate", "power", "--psi", "nan"), "--psi must be a share from 0 to 1"),
        (
            (
                "promote",
                "ck",
                "--plan",
                "--waive",
                "g",
                "--waived-by",
                "Ann",
                "--waiver-expires",
                "2020-01-01",
                "--reason",
                "r",
            ),
            "expired on 2020-01-01",
        ),
        (("--home", "/proc/nohome", "status"), "choose another with --home"),
        (("--home", "/etc/passwd", "status"), "is a file"),
        (("promote", "nowhere", "--config", "deep.yaml"), "nested too deeply"),
    ],
)
def test_wrong_use_is_exit_2_with_a_reason(run: object, args: tuple[str, ...], told: str) -> None:
    Path("deep.yaml").write_text("[" * 5000)
    checkpoints.make(Path("ck"))
    result: Result = run(*args)  # type: ignore[operator]
    assert result.exit_code == Exit.USAGE
    assert told in result.output
    assert "Traceback" not in result.output


def test_unknown_setting_is_exit_2_and_starts_nothing(run: object, tmp_path: Path) -> None:
    (tmp_path / "promotion.yaml").write_text("gates: {margin: 1}\n")
    checkpoints.make(tmp_path / "ck")
    result: Result = run("promote", "ck")  # type: ignore[operator]
    assert result.exit_code == Exit.USAGE
    assert "unknown key gates.margin" in result.output
    assert not (tmp_path / "home").exists()


def test_plan_without_a_record_starts_nothing(run: object, tmp_path: Path) -> None:
    checkpoints.make(tmp_path / "ck")
    result: Result = run("promote", "ck", "--plan", "--json")  # type: ignore[operator]
    assert result.exit_code == Exit.DONE, result.output
    plan = json.loads(result.output)
    assert [s["stage"] for s in plan["steps"]] == [
        "register", "quantize", "evaluate", "gate", "rollout",
    ]  # fmt: skip
    assert {s["state"] for s in plan["steps"]} == {"run"}
    assert not (tmp_path / "home").exists()


def test_status_with_nothing_running_says_what_to_do(run: object) -> None:
    result: Result = run("status", "grammar")  # type: ignore[operator]
    assert result.exit_code == Exit.FAULT
    assert "liftlock serve" in result.output


def test_history_without_a_record_is_a_fault(run: object) -> None:
    result: Result = run("history", "grammar")  # type: ignore[operator]
    assert result.exit_code == Exit.FAULT
    assert "no MLflow server runs" in result.output


def test_taken_port_is_named_and_nothing_is_left(
    run: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.make(tmp_path / "ck")
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        monkeypatch.setenv("LIFTLOCK_MLFLOW_PORT", str(other.getsockname()[1]))
        result: Result = run("promote", "ck")  # type: ignore[operator]
    assert result.exit_code == Exit.FAULT
    assert "taken by another program" in result.output
    assert "LIFTLOCK_MLFLOW_PORT" in result.output
    assert list((tmp_path / "home" / "run").glob("*.json")) == []


def test_stop_with_nothing_running_is_done(run: object) -> None:
    result: Result = run("serve", "--stop")  # type: ignore[operator]
    assert result.exit_code == Exit.DONE
    assert "nothing was running" in result.output


def test_settings_come_from_options_then_environment(tmp_path: Path) -> None:
    env = {
        "LIFTLOCK_HOME": "/elsewhere",
        "LIFTLOCK_PORT": "9000",
        "MLFLOW_TRACKING_URI": "http://x",
    }
    found = resolve(env, home=tmp_path, endpoint_port=9001)
    assert (found.home, found.endpoint_port, found.tracking_uri) == (tmp_path, 9001, "http://x")
    assert resolve(env).endpoint_url == "http://127.0.0.1:9000"


def test_doctor_finds_a_taken_port_and_says_how_to_go_on(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        checks = {c.name: c for c in doctor.examine(Settings(home=tmp_path, endpoint_port=port))}
    assert checks[f"port {port}"].mark is doctor.Mark.BAD
    assert "--port" in checks[f"port {port}"].text
    assert checks["python"].mark is doctor.Mark.OK
    assert checks["packages"].mark is doctor.Mark.OK
    assert checks["envoy"].mark is doctor.Mark.OK
