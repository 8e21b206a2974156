"""`liftlock status` and `liftlock history` as they are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jobs import inspecting
from jobs.cli import main
from jobs.exits import Exit
from jobs.status import looks
from jobs.status.ports import Ports
from tests.jobs.status.world import World, serving

Run = Callable[..., Result]


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = serving()
    ports: Ports = made.ports()
    monkeypatch.setattr("jobs.status.live.live", lambda settings: ports)
    return made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("MLFLOW_TRACKING_URI", "LIFTLOCK_HOME", "LIFTLOCK_PORT", "LIFTLOCK_MLFLOW_PORT"):
        monkeypatch.delenv(name, raising=False)
    return lambda *args: CliRunner().invoke(main, ["--home", str(tmp_path / "home"), *args])


def test_status_of_a_model_is_text_or_json(run: Run, world: World) -> None:
    shown = run("status", "grammar")
    assert shown.exit_code == Exit.DONE
    assert "champion  version 2" in shown.output
    found = json.loads(run("status", "grammar", "--json").output)
    assert found["champion"]["version"] == 2


def test_without_a_model_there_is_one_line_per_known_model(run: Run, world: World) -> None:
    world.known = ("grammar", "grammar-de")
    shown = run("status")
    assert shown.exit_code == Exit.DONE
    assert [line.split()[0] for line in shown.output.splitlines()] == ["grammar", "grammar-de"]
    found = json.loads(run("status", "--json").output)
    assert [m["model"] for m in found["models"]] == ["grammar", "grammar-de"]


def test_without_any_model_it_says_how_to_make_the_first(run: Run, world: World) -> None:
    world.known, world.versions = (), ()
    shown = run("status")
    assert shown.exit_code == Exit.DONE
    assert "no model is known yet; `liftlock promote" in shown.output


def test_unknown_model_is_exit_2_and_names_the_known_ones(run: Run, world: World) -> None:
    world.known, world.versions, world.entries = ("grammar-de", "spelling"), (), ()
    shown = run("status", "grammar")
    assert shown.exit_code == Exit.USAGE
    assert "no model grammar here; known are: grammar-de, spelling" in shown.output


def test_record_that_is_away_is_exit_1_with_all_that_is_known(run: Run, world: World) -> None:
    world.away = "MLflow does not answer"
    shown = run("status", "grammar")
    assert shown.exit_code == Exit.FAULT
    assert "record    cannot be read: MLflow does not answer" in shown.output
    assert "100 % on version 2" in shown.output
    shown = run("status")
    assert shown.exit_code == Exit.FAULT
    assert "ledger cannot be read" in shown.output


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--watch", "grammar"), "goes before --watch"),
        (("grammar", "--watch", "0.1"), "must be 1 to 86400 seconds"),
        (("grammar", "--watch", "nan"), "must be 1 to 86400 seconds"),
    ],
)
def test_wrong_period_is_exit_2_with_a_reason(run: Run, args: tuple[str, ...], told: str) -> None:
    shown = run("status", *args)
    assert shown.exit_code == Exit.USAGE
    assert told in shown.output


def test_watch_ends_with_0_on_ctrl_c(
    run: Run, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("jobs.status.watch.time.sleep", interrupt)
    shown = run("status", "grammar", "--watch")
    assert shown.exit_code == Exit.DONE
    assert len(shown.output.splitlines()) == 1
    assert "version 2 is champion" in shown.output


def test_status_and_history_start_nothing(run: Run, tmp_path: Path) -> None:
    for verb in ("status", "history"):
        shown = run(verb, "grammar")
        assert shown.exit_code == Exit.FAULT
        assert "no MLflow server runs" in shown.output
    assert not (tmp_path / "home").exists()


def test_the_error_for_an_unknown_model_says_what_would_make_it() -> None:
    assert "no model is known yet" in str(inspecting.unknown("x", ()))
    assert "`liftlock promote CHECKPOINT --model x`" in str(inspecting.unknown("x", ("y",)))


def test_watching_all_keeps_a_model_shown_when_the_record_goes_away(world: World) -> None:
    world.known, world.versions = ("grammar", "spelling"), ()
    look = looks.every(world.ports())
    assert [s.model for s in look()] == ["grammar", "spelling"]
    world.away = "MLflow does not answer"
    found = look()
    assert [s.model for s in found] == ["grammar", "spelling"]
    assert all(s.unread for s in found)
