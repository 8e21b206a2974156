"""Addresses on the command line: every option that takes one refuses the same ones as wrong use."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from jobs import web_address
from jobs.cli import main
from jobs.exits import Exit

COMMANDS = {
    "evaluate": ("evaluate", "--endpoint"),
    "correct": ("correct", "-", "--endpoint"),
    "status": ("slo", "status", "--prometheus"),
    "rules": ("slo", "rules", "--out", "rules", "--runbooks"),
    "fetch": ("suites", "fetch", "--mirror"),
    "tracking": ("--tracking-uri",),
}
WRONG = {
    "ftp://x": "must be like http://",
    "127.0.0.1:8000": "must be like http://",
    "http://": "must be like http://",
    "http://h:0": "must be like http://",
    "http://a b": "must be like http://",
    "http://h:99999": "Port out of range",
    "http://[::1": "Invalid IPv6",
    "http://h/?a=b": "must end before",
    "http://me:secret@h": "no user name or password",
    "http://me:secret@h:port": "no user name or password",
    "http://me:secret@[::1": "is none",
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("address", WRONG)
def test_every_option_refuses_what_is_no_address_as_wrong_use(
    command: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    *head, option = COMMANDS[command]
    rest = ["status"] if command == "tracking" else []
    result = CliRunner().invoke(main, ["--home", "home", *head, option, address, *rest], input="")
    assert result.exit_code == Exit.USAGE, result.output
    assert WRONG[address] in result.output
    assert option in result.output
    assert "secret" not in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address", ["http://h", "https://h.example:8443/base/", "http://[::1]:1", "HTTP://h"]
)
def test_addresses_of_servers_are_taken(address: str) -> None:
    assert web_address.fault(address) is None


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_has_a_fault_that_is_one_line(text: str) -> None:
    for given_text in (text, f"http://{text}"):
        assert "\n" not in (web_address.fault(given_text) or "")
