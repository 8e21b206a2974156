"""`liftlock backup` and `liftlock restore` as they are called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner, Result

from jobs.cli import main
from jobs.exits import Exit
from jobs.stack import Stack
from tests.fakes import vault as vaults
from tests.fakes.vault import MemoryVault

Run = Callable[..., Result]


class Server:
    """The vault that the commands reach."""

    def __init__(self, vault: MemoryVault) -> None:
        self.vault = vault

    def models(self) -> tuple[str, ...]:
        return (*self.vault.models, "Not A Model")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    made = Server(vaults.filled(tmp_path / "source"))
    monkeypatch.setattr(Stack, "tracking_uri", lambda self: "memory:")
    monkeypatch.setattr("registry.mlflow_store.vault", lambda uri: made.vault)
    monkeypatch.setattr(
        "registry.mlflow_store.catalog", lambda uri: SimpleNamespace(models=made.models)
    )
    return made


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(main, ["--home", str(tmp_path / "home"), *args])


def test_backup_and_restore_tell_what_they_did(run: Run, server: Server, tmp_path: Path) -> None:
    made = run("backup", "b.zip")
    assert made.exit_code == Exit.DONE, made.output
    assert "grammar: 3 ledger items, 3 versions, 7 runs" in made.output
    server.vault = MemoryVault()
    done = run("restore", "b.zip", "--json")
    assert done.exit_code == Exit.DONE, done.output
    found = json.loads(done.stdout)["models"]
    assert found == [
        {"model": "grammar", "ending": "restored", "ledger_items": 3, "versions": 3, "runs": 7,
         "problems": []}
    ]  # fmt: skip
    again = run("restore", "b.zip")
    assert again.exit_code == Exit.DONE
    assert "grammar: already there (3 ledger items, 3 versions)" in again.stdout


def test_backup_as_json_names_the_file_and_its_digest(run: Run, server: Server) -> None:
    found = json.loads(run("backup", "b.zip", "--model", "grammar", "--json").stdout)
    assert found["file"] == "b.zip"
    assert found["digest"].startswith("sha256:")
    assert found["size_bytes"] == Path("b.zip").stat().st_size
    assert found["models"][0]["versions"] == 3


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("backup", "there.zip"), "exists already; choose another name"),
        (("backup", "absent/b.zip"), "there is no folder absent"),
        (("backup", "b.zip", "--model", "spelling"), "known are: grammar"),
        (("backup", "b.zip", "--model", "Bad Name"), "lowercase"),
        (("restore", "absent.zip"), "absent.zip"),
        (("restore", "there.zip"), "is not a whole backup"),
        (("restore", "."), "is a directory"),
    ],
)
def test_wrong_use_is_exit_2_with_a_reason(
    run: Run, server: Server, args: tuple[str, ...], told: str
) -> None:
    Path("there.zip").write_bytes(b"something else")
    shown = run(*args)
    assert shown.exit_code == Exit.USAGE
    assert told in shown.output
    assert server.vault.steps == 0
    assert Path("there.zip").read_bytes() == b"something else"
    assert not Path("b.zip").exists()


def test_model_that_is_not_in_the_backup_is_exit_2(run: Run, server: Server) -> None:
    run("backup", "b.zip")
    shown = run("restore", "b.zip", "--model", "spelling")
    assert shown.exit_code == Exit.USAGE
    assert "it holds: grammar" in shown.output


def test_other_model_there_is_exit_1_and_unchanged(run: Run, server: Server) -> None:
    run("backup", "b.zip")
    del server.vault.found["grammar"][2]
    shown = run("restore", "b.zip")
    assert shown.exit_code == Exit.FAULT
    assert "Nothing was changed" in shown.output
    assert server.vault.steps == 0


def test_missing_weights_are_exit_1_after_the_rest_is_restored(run: Run, server: Server) -> None:
    run("backup", "b.zip")
    server.vault = MemoryVault(faults={2: "model.safetensors is not there at s3://old"})
    shown = run("restore", "b.zip")
    assert shown.exit_code == Exit.FAULT
    assert "problem: weights of version 2 of grammar: model.safetensors is not" in shown.output
    assert "mlflow/artifacts of its home" in shown.output
    assert server.vault.ledgers["grammar"].items


def test_what_could_not_be_taken_is_exit_1_with_the_file_written(run: Run, server: Server) -> None:
    server.vault.unreadable = {2: "its manifest is gone"}
    shown = run("backup", "b.zip")
    assert shown.exit_code == Exit.FAULT
    assert "problem: version 2 of grammar is left out: its manifest is gone" in shown.output
    assert Path("b.zip").exists()


def test_server_without_models_gives_an_empty_backup(run: Run, server: Server) -> None:
    server.vault = MemoryVault()
    shown = run("backup", "b.zip")
    assert shown.exit_code == Exit.DONE
    assert "no model to back up" in shown.output
    assert run("restore", "b.zip").exit_code == Exit.DONE
