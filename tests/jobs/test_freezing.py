"""`liftlock freeze` and `thaw` over a record in memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jobs import placing
from jobs.cli import main
from jobs.exits import Exit
from registry.ledger import Log, MarkKind
from registry.store import Record
from tests.fakes.record import memory_record


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Record:
    """Knows the model grammar, which somebody has worked on."""
    monkeypatch.chdir(tmp_path)
    made = memory_record()
    claim = Log().mark(
        MarkKind.CLAIM, owner="host/boot/1/1.00", actor="ana@host", reason="promote",
        at="2026-11-29T17:00:00Z", epoch=1,
    )  # fmt: skip
    made.ledger.append("grammar", claim)
    monkeypatch.setattr(placing, "open_record", lambda *args: made)
    return made


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["--home", "home", *args])


def test_a_frozen_model_is_frozen_in_the_ledger_until_it_is_thawed(record: Record) -> None:
    assert run("freeze", "grammar", "--reason", "audit").exit_code == Exit.DONE
    frozen = record.ledger.read("grammar").frozen
    assert frozen is not None
    assert frozen.reason == "audit"
    assert run("thaw", "grammar").exit_code == Exit.DONE
    assert record.ledger.read("grammar").frozen is None


@pytest.mark.parametrize("args", [("freeze", "grammer", "--reason", "audit"), ("thaw", "grammer")])
def test_a_misspelled_model_is_refused_and_the_known_ones_are_named(
    record: Record, args: tuple[str, ...]
) -> None:
    result = run(*args)
    assert result.exit_code == Exit.USAGE
    assert "grammer" in result.output
    assert "known are: grammar" in result.output
    assert record.ledger.models() == ("grammar",)
