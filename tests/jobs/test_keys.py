"""`liftlock keys` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from jobs.cli import main
from jobs.exits import Exit


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, ["--home", "home", "keys", *args], input=stdin)


def listed() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("list", "--json").stdout)
    return found


def test_an_issued_key_is_the_only_thing_on_stdout_and_is_not_shown_again() -> None:
    made = run("issue", "web team", "--rate", "200")
    assert made.exit_code == Exit.DONE
    (key,) = made.stdout.split()
    assert key.count(".") == 2
    shown = run("list").stdout
    assert "web team" in shown
    assert "200/s" in shown
    assert key not in shown


def test_rotating_leaves_the_old_key_for_the_overlap() -> None:
    first = json.loads(run("issue", "a", "--scope", "call", "--scope", "feedback", "--json").stdout)
    second = json.loads(
        run("rotate", first["key_id"], "--overlap-hours", "1", "--json").stdout
    )  # fmt: skip
    assert second["scopes"] == ["call", "feedback"]
    assert second["replaces"] == first["key_id"]
    assert second["key"] != first["key"]
    assert [key["state"] for key in listed()] == ["ending", "valid"]


def test_a_key_is_revoked_by_its_id_or_by_itself() -> None:
    first = json.loads(run("issue", "a", "--json").stdout)
    second = json.loads(run("issue", "b", "--json").stdout)
    assert run("revoke", first["key_id"]).exit_code == Exit.DONE
    assert run("revoke", "-", stdin=second["key"] + "\n").exit_code == Exit.DONE
    assert [key["state"] for key in listed()] == ["ended", "ended"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("issue", " "), Exit.USAGE),
        (("issue", "a", "--rate", "0"), Exit.USAGE),
        (("issue", "a", "--scope", "root"), Exit.USAGE),
        (("issue", "a", "--days", "0"), Exit.USAGE),
        (("revoke", "key-000000000000"), Exit.USAGE),
        (("rotate", "nonsense"), Exit.USAGE),
    ],
)
def test_what_cannot_be_is_refused_in_words(args: tuple[str, ...], code: Exit) -> None:
    refused = run(*args)
    assert refused.exit_code == code
    assert refused.stdout == ""
    assert "Traceback" not in refused.output
    assert listed() == []


def test_without_keys_the_list_says_how_to_get_one() -> None:
    assert "liftlock keys issue" in run("list").stdout
