"""The journal against a record that never goes away: whatever happens, both hold the same."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from registry.journal import flush
from registry.model import Tag
from registry.pending import Pending
from registry.store import Evidence
from tests.fakes.record import memory_record
from tests.fakes.weather import Killed
from tests.registry.journal_story import MODEL, Home, contents

NAMES = st.sampled_from(["a", "b"])
WORDS = st.text(max_size=8)
KINDS = st.sampled_from(["away", "lost", "half"])


class JournalMachine(RuleBasedStateMachine):
    """Each rule writes the same to both records; ids differ, so pairs of ids are kept."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self._temporary = tempfile.TemporaryDirectory()
        self._unsynced = mock.patch.object(os, "fsync", return_value=None)
        self._unsynced.start()
        self.home = Home(Path(self._temporary.name) / MODEL)
        self.plain = memory_record().evidence
        self.evidence: Evidence = self.home.process().evidence
        self.at_ms = itertools.count(1)
        self.unique = itertools.count(1)

    def teardown(self) -> None:
        try:
            self.home.plan(lambda number, name: "fine")
            flush(self.home.inner, self.home.folder, self.home.notes.append)
            assert Pending(self.home.folder).waiting() == []
            assert not (self.home.folder / "aside.jsonl").exists()
            assert contents(self.home.record) == self._wanted()
        finally:
            self._unsynced.stop()
            self._temporary.cleanup()

    def _wanted(self) -> list[dict[str, Any]]:
        record = memory_record()
        record.evidence.runs = self.plain.runs  # type: ignore[attr-defined]
        return contents(record)

    @rule(target=runs, known=st.lists(runs, max_size=1))
    def open(self, known: list[tuple[str, str]]) -> tuple[str, str]:
        name, at_ms = f"run {next(self.unique)}.", next(self.at_ms)
        tags = {Tag.STAGE: "s", "of": known[0][1] if known else ""}
        parents = known[0] if known else (None, None)
        plain = self.plain.open(
            MODEL, name, {**tags, "of": known[0][0] if known else ""}, parents[0], at_ms=at_ms
        )
        return plain, self.evidence.open(MODEL, name, tags, parents[1], at_ms=at_ms)

    @rule(run=runs, value=st.floats(allow_nan=False), model=st.sampled_from([None, "m-1"]))
    def log(self, run: tuple[str, str], value: float, model: str | None) -> None:
        key, at_ms = f"p{next(self.unique)}", next(self.at_ms)
        for evidence, mine in ((self.plain, run[0]), (self.evidence, run[1])):
            evidence.log(
                mine, params={key: value}, metrics={"m": value}, model_id=model, at_ms=at_ms
            )

    @rule(run=runs, name=NAMES, content=WORDS)
    def text(self, run: tuple[str, str], name: str, content: str) -> None:
        self.plain.text(run[0], name, f"{content} {run[0]}")
        self.evidence.text(run[1], name, f"{content} {run[1]}")

    @rule(run=runs, other=runs, cells=st.lists(st.booleans() | WORDS | st.integers(), max_size=3))
    def table(self, run: tuple[str, str], other: tuple[str, str], cells: list[Any]) -> None:
        self.plain.table(run[0], "t.json", {"z": cells, "a": [other[0]]})
        self.evidence.table(run[1], "t.json", {"z": cells, "a": [other[1]]})

    @rule(run=runs, name=NAMES, value=WORDS)
    def label(self, run: tuple[str, str], name: str, value: str) -> None:
        self.plain.label(run[0], {name: value})
        self.evidence.label(run[1], {name: value})

    @rule(run=runs, failed=st.booleans(), value=WORDS)
    def close(self, run: tuple[str, str], failed: bool, value: str) -> None:
        at_ms = next(self.at_ms)
        self.plain.close(run[0], failed=failed, tags={"end": value}, at_ms=at_ms)
        self.evidence.close(run[1], failed=failed, tags={"end": value}, at_ms=at_ms)

    @rule(kind=KINDS, first=st.integers(0, 3), length=st.integers(1, 8))
    def storm(self, kind: str, first: int, length: int) -> None:
        self.home.plan(lambda n, _: kind if first <= n < first + length else "fine")

    @rule(kind=KINDS)
    def away_for_good(self, kind: str) -> None:
        self.home.plan(lambda n, _: kind)

    @rule(seconds=st.integers(1, 60))
    def wait(self, seconds: int) -> None:
        self.home.sleep(float(seconds))

    @rule()
    def next_command(self) -> None:
        flush(self.home.inner, self.home.folder, self.home.notes.append)
        self.evidence = self.home.process().evidence

    @rule(at=st.integers(0, 12), after=st.booleans())
    def command_killed_while_it_enters(self, at: int, after: bool) -> None:
        kind = "killed after" if after else "killed"
        self.home.plan(lambda n, _: kind if n == at else "fine")
        with contextlib.suppress(Killed):
            flush(self.home.inner, self.home.folder, self.home.notes.append)
        self.home.plan(lambda n, _: "fine")
        self.evidence = self.home.process().evidence

    @rule(cut=st.integers(1, 200))
    def last_write_torn(self, cut: int) -> None:
        """What a kill in the middle of the next write would leave: nobody was told of it."""
        path = self.home.folder / "journal.jsonl"
        if path.exists():
            with path.open("ab") as file:
                file.write(path.read_bytes().split(b"\n")[0][:cut])
        self.evidence = self.home.process().evidence

    @invariant()
    def no_run_twice(self) -> None:
        runs = self.home.record.evidence.runs.values()  # type: ignore[attr-defined]
        ids = [run.tags[Tag.JOURNAL] for run in runs]
        assert len(ids) == len(set(ids))


def _settings(examples: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


JournalMachine.TestCase.settings = _settings(10)
TestJournal = JournalMachine.TestCase


@pytest.mark.slow
def test_journal_machine_for_long() -> None:
    run_state_machine_as_test(JournalMachine, settings=_settings(500))
