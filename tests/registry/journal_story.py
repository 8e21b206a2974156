"""What the journal's tests write, and how two records are compared."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from registry.entering import SPOILED
from registry.journal import flush, journaled
from registry.model import Tag
from registry.pending import Pending
from registry.store import Evidence, Record
from tests.fakes.record import MemoryEvidence, memory_record
from tests.fakes.weather import Weather, outdoors

MODEL = "grammar"


class Home:
    """One machine and one record behind it, whose processes come and go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record = memory_record()
        self.weather = Weather()
        self.notes: list[str] = []
        self.now_s = 0.0
        self._ms = itertools.count(1)

    @property
    def inner(self) -> Record:
        """The record, with weather."""
        return outdoors(self.record, self.weather)

    def process(self, patience_s: float = 0.0) -> Record:
        """A new process's record; each thing it does happens a millisecond after the last."""
        return journaled(
            self.inner,
            self.folder,
            patience_s=patience_s,
            note=self.notes.append,
            clock=lambda: self.now_s,
            sleep=self.sleep,
            now_ms=lambda: next(self._ms),
        )

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    def plan(self, plan: Callable[[int, str], str]) -> None:
        """What happens from the next call on, counted from 0."""
        first = len(self.weather.calls)
        self.weather.plan = lambda number, name: plan(number - first, name)


def promotion(
    evidence: Evidence,
    sleep: Callable[[float], None] = lambda s: None,
    *,
    model: str = MODEL,
    model_id: str = "m-1",
) -> str:
    """A run with two stages below it, as a promotion writes them; returns the run's id."""
    top = evidence.open(model, "promote", {Tag.STAGE: "promotion"}, None)
    evidence.log(top, params={"actor": "a", "number": 1})
    for stage in ("quantize", "evaluate"):
        sleep(3.0)
        run = evidence.open(model, stage, {Tag.STAGE: stage, Tag.INPUTS: f"sha256:{stage}"}, top)
        evidence.text(run, "inputs.json", f'{{"top": "{top}"}}')
        evidence.log(run, params={"parent": top}, metrics={"m": 0.5, "n": 1.0}, model_id=model_id)
        evidence.log(run, metrics={"m": 0.25})
        evidence.table(run, "t.json", {"run": [run, top], "b": [1, 2.5], "a": [True, None]})
        evidence.text(run, "result.json", "first")
        evidence.text(run, "result.json", f"last, of {run}")
        evidence.close(run, tags={"done": stage})
        evidence.label(top, {"last": stage, "evidence": run})
    sleep(3.0)
    evidence.close(top, failed=True, tags={Tag.ERROR: "x"})
    return top


def contents(record: Record) -> list[dict[str, Any]]:
    """Everything in a record, with names of runs in place of ids and without journal ids."""
    evidence = record.evidence
    assert isinstance(evidence, MemoryEvidence)
    names = {run_id: f"<{run.name}>" for run_id, run in evidence.runs.items()}

    def named(value: Any) -> Any:
        if isinstance(value, str):
            for run_id in sorted(names, key=len, reverse=True):
                value = value.replace(run_id, names[run_id])
            return value
        if isinstance(value, dict):
            return {k: named(v) for k, v in value.items()}
        return [named(v) for v in value] if isinstance(value, list) else value

    runs = sorted(evidence.runs.values(), key=lambda r: (r.started_at_ms, r.name))
    return [
        {
            "name": run.name,
            "parent": names[run.parent] if run.parent else None,
            "tags": named({k: v for k, v in run.tags.items() if k != Tag.JOURNAL}),
            "params": named(run.params),
            "metrics": run.metrics,
            "points": sorted(run.points, key=str),
            "files": named(run.files),
            "status": run.status,
            "at": (run.started_at_ms, run.ended_at_ms),
        }
        for run in runs
    ]


def expected(tmp_path: Path) -> list[dict[str, Any]]:
    """The record after a promotion in fine weather."""
    home = Home(tmp_path / "fine")
    promotion(home.process().evidence)
    assert SPOILED not in str(contents(home.record))
    return contents(home.record)


def always(kind: str) -> Callable[[int, str], str]:
    """The same weather for every call."""
    return lambda number, name: kind


def folders(tmp_path: Path) -> Iterator[Path]:
    """A folder of its own for each of many homes."""
    return (tmp_path / str(number) / MODEL for number in itertools.count())


def settled(home: Home) -> list[dict[str, Any]]:
    """The record after the next command, in fine weather, has entered what is left."""
    home.plan(always("fine"))
    flush(home.inner, home.folder, home.notes.append)
    assert Pending(home.folder).waiting() == []
    assert not (home.folder / "journal.jsonl").exists()
    return contents(home.record)
