"""Runs the stages of one promotion, each as a child run, and reuses those already done.

A stage is identified by the digest of everything that shapes its result. If the record holds a
finished stage with the same digest, its stored result is taken and nothing is computed again; an
interrupted one has no finished run and is redone.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pipelines import worker
from registry.errors import NotFound, RegistryError
from registry.model import StageEvidence, Tag, content_digest
from registry.store import Evidence

RESULT_FILE = "result.json"
AGEING = ("evaluate", "gate")
"""Stages whose evidence has an age limit; what others made is as good as on its first day."""
MAX_ERROR_CHARS = 500
DAY_S = 24 * 3600
Result = dict[str, Any]
T = TypeVar("T")


class Progress(Protocol):
    """Who is told how a promotion goes: a terminal, a log, a test."""

    def stage(self, name: str) -> None:
        """A stage begins."""
        ...

    def note(self, text: str) -> None:
        """Something happened inside the current stage."""
        ...

    def done(self, name: str, *, seconds: float, summary: str, reused: bool) -> None:
        """A stage ended well."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRun:
    """What a stage's body gets: its run and how to log to it."""

    run_id: str
    evidence: Evidence
    note: Callable[[str], None]

    def params(self, **values: Any) -> None:
        """Logs set-once parameters."""
        self.evidence.log(self.run_id, params=values)

    def metrics(self, values: Mapping[str, float], *, model_id: str | None = None) -> None:
        """Logs metrics; with a model id they show on the logged model's page too."""
        self.evidence.log(self.run_id, metrics=values, model_id=model_id)

    def text(self, name: str, content: str) -> None:
        """Stores a text artifact."""
        self.evidence.text(self.run_id, name, content)

    def work(
        self, module: str, request: Mapping[str, Any], out: Path, *, threads: int | None = None
    ) -> None:
        """Runs a worker process (see `worker.run`) and keeps its log on the run, however it ends.

        Raises:
            StageFailed: the worker failed.
        """
        try:
            worker.run(module, request, out, self.note, threads=threads)
        finally:
            with contextlib.suppress(RegistryError, OSError):
                self.text(worker.LOG_FILE, (out / worker.LOG_FILE).read_text(encoding="utf-8"))


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTime:
    """One row of the table of stage times."""

    stage: str
    seconds: float
    reused: bool
    summary: str
    run_id: str


@contextlib.contextmanager
def evidence_closed(evidence: Evidence, run_id: str) -> Iterator[None]:
    """Ends a run with the block: finished, or failed with the reason as a tag.

    On the way out of a failure the record may be away too; that must not hide the first error.
    """
    try:
        yield
    except BaseException as exc:
        reason = f"{type(exc).__name__}: {exc}"[:MAX_ERROR_CHARS]
        with contextlib.suppress(RegistryError):
            evidence.close(run_id, failed=True, tags={Tag.ERROR: reason})
        raise
    evidence.close(run_id, tags={})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reuse:
    """Which finished stages count."""

    oldest_ms: int = 0
    """Evidence that ended before this time (Unix, milliseconds) is made again."""
    rerun: frozenset[str] = frozenset()
    """Names of stages that are made again whatever the record has."""

    @classmethod
    def within(cls, days: float, now: str, rerun: frozenset[str] = frozenset()) -> Reuse:
        """What is at most so many days old at `now`, which is UTC in ISO 8601."""
        at_s = datetime.datetime.fromisoformat(now).timestamp()
        return cls(oldest_ms=int(1000 * (at_s - days * DAY_S)), rerun=rerun)


class Stages:
    """The stages of one promotion run."""

    def __init__(
        self,
        *,
        model: str,
        run_id: str,
        evidence: Evidence,
        progress: Progress,
        reuse: Reuse | None = None,
        enter: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`enter` is told of each stage first; it raises where this promotion must not go on."""
        self._model = model
        self._run_id = run_id
        self._evidence = evidence
        self._progress = progress
        self._reuse = reuse or Reuse()
        self._enter = enter
        self.times: list[StageTime] = []

    def find(self, name: str, inputs: Mapping[str, Any]) -> StageEvidence | None:
        """The finished stage with these inputs, if the record has one that is young enough."""
        found = self._evidence.find(self._model, name, inputs_digest(name, inputs))
        is_old = found is not None and found.ended_at_ms < self._reuse.oldest_ms
        return None if is_old and name in AGEING else found

    def run(
        self,
        name: str,
        inputs: Mapping[str, Any],
        body: Callable[[StageRun], Result],
        *,
        still_valid: Callable[[Result], bool] = lambda result: True,
        shown: str | None = None,
    ) -> Result:
        """The stage's result: the recorded one, or the body's.

        Args:
            name: stage name, what the record is searched for.
            inputs: everything that shapes the result, as plain data.
            body: computes the result and logs its evidence. The result must be plain data with a
                `summary` for people.
            still_valid: asked of a recorded result; False computes it again.
            shown: name for people, where the stage runs for more than one thing.
        """
        started = time.monotonic()
        shown = shown or name
        self._enter(shown)
        self._progress.stage(shown)
        found = None if {name, shown} & self._reuse.rerun else self.find(name, inputs)
        if found is not None:
            result = self._recorded(found)
            if result is not None and still_valid(result):
                return self._finish(shown, started, result, found.run_id, reused=True)
        run_id, result = self._compute(name, inputs, body)
        return self._finish(shown, started, result, run_id, reused=False)

    def live(
        self,
        name: str,
        body: Callable[[Callable[[str], None]], T],
        describe: Callable[[T], Result],
        *,
        kept: Callable[[], Mapping[str, str]] = dict,
    ) -> T:
        """A stage that acts on the world and is therefore never taken from the record.

        Args:
            name: stage name.
            body: acts; gets a function to say what it does.
            describe: its result as plain data for the record.
            kept: texts by file name that stay on the run however it ends.
        """
        started = time.monotonic()
        self._enter(name)
        self._progress.stage(name)
        run_id = self._evidence.open(self._model, name, {Tag.STAGE: name}, self._run_id)
        said: list[str] = []

        def note(text: str) -> None:
            said.append(text)
            self._progress.note(text)

        with evidence_closed(self._evidence, run_id):
            try:
                value = body(note)
            finally:
                with contextlib.suppress(RegistryError):
                    self._evidence.text(run_id, "events.txt", "\n".join(said) + "\n")
                    for file, text in kept().items():
                        self._evidence.text(run_id, file, text)
            result = describe(value)
            self._evidence.log(run_id, metrics=result.get("metrics", {}))
            self._evidence.text(run_id, RESULT_FILE, json.dumps(result, indent=2))
        self._finish(name, started, result, run_id, reused=False)
        return value

    def _recorded(self, found: StageEvidence) -> Result | None:
        try:
            result: Result = json.loads(self._evidence.read(found.run_id, RESULT_FILE))
        except (NotFound, ValueError):
            return None  # the artifact is gone: evidence that cannot be read is no evidence
        return result

    def _compute(
        self, name: str, inputs: Mapping[str, Any], body: Callable[[StageRun], Result]
    ) -> tuple[str, Result]:
        digest = inputs_digest(name, inputs)
        tags = {str(Tag.STAGE): name, str(Tag.INPUTS): digest}
        run_id = self._evidence.open(self._model, name, tags, self._run_id)
        stage = StageRun(run_id=run_id, evidence=self._evidence, note=self._progress.note)
        with evidence_closed(self._evidence, run_id):
            stage.text("inputs.json", json.dumps(inputs, indent=2, default=str))
            result = body(stage)
            stage.text(RESULT_FILE, json.dumps(result, indent=2))
        return run_id, result

    def _finish(
        self, name: str, started: float, result: Result, run_id: str, *, reused: bool
    ) -> Result:
        seconds = time.monotonic() - started
        summary = str(result.get("summary", ""))
        self.times.append(
            StageTime(stage=name, seconds=seconds, reused=reused, summary=summary, run_id=run_id)
        )
        self._progress.done(name, seconds=seconds, summary=summary, reused=reused)
        return result


def inputs_digest(name: str, inputs: Mapping[str, Any]) -> str:
    """Identity of a stage: its name and all its inputs."""
    return content_digest({"stage": name, "inputs": inputs})
