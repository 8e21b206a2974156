"""Evidence that goes on while MLflow is away."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from registry.entering import enter, enter_all
from registry.errors import NotFound, RecordUnavailable
from registry.model import StageEvidence, Tag
from registry.patience import Patience
from registry.pending import PROVISIONAL, Entry, Pending, counted
from registry.store import Evidence, Record

T = TypeVar("T")

FIRST_TRY_S = 2.0
LONGEST_TRY_S = 30.0


class JournaledEvidence:
    """`registry.store.Evidence` that goes on while the record is away."""

    def __init__(
        self, record: Record, pending: Pending, patience: Patience, now_ms: Callable[[], int]
    ) -> None:
        self._evidence: Evidence = record.evidence
        self._address = record.address
        self._pending = pending
        self._patience = patience
        self._now_ms = now_ms
        self._pause_s = FIRST_TRY_S
        self._next_try_s = 0.0

    def open(
        self,
        model: str,
        name: str,
        tags: Mapping[str, str],
        parent: str | None,
        *,
        at_ms: int | None = None,
    ) -> str:
        """See `Evidence.open`; while MLflow is away the id is provisional, but as good."""
        journal_id = uuid.uuid4().hex
        entry: Entry = {
            "op": "open",
            "run": f"local-{journal_id}",
            "model": model,
            "name": name,
            "tags": {str(k): str(v) for k, v in tags.items()},
            "parent": parent,
            "at_ms": self._at(at_ms),
        }
        if self._direct():
            try:
                return self._evidence.open(
                    model,
                    name,
                    {**self._pending.translate(entry["tags"]), str(Tag.JOURNAL): journal_id},
                    self._pending.created(parent) if parent else None,
                    at_ms=entry["at_ms"],
                )
            except RecordUnavailable as exc:
                self._went_away(exc)
        self._pending.add(entry)
        return str(entry["run"])

    def opened(self, model: str, journal_id: str) -> tuple[str, ...]:
        """See `Evidence.opened`."""
        return self._ask("looking for a run", lambda: self._evidence.opened(model, journal_id))

    def drop(self, run_id: str) -> None:
        """See `Evidence.drop`."""
        run = self.resolve(run_id)
        self._ask(f"deleting run {run}", lambda: self._evidence.drop(run))

    def resolve(self, run_id: str) -> str:
        """See `Evidence.resolve`; waits until the run is in MLflow."""

        def known() -> str:
            away = self._enter() if self._pending.run_of(run_id) is None else None
            if self._pending.run_of(run_id) is None and self._pending.waiting():
                raise away or RecordUnavailable("another process is entering what is kept")
            return self._pending.created(run_id)

        return self._patience.wait_for(f"entering run {run_id}", known)

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        model_id: str | None = None,
        at_ms: int | None = None,
    ) -> None:
        """See `Evidence.log`."""
        self._write(
            "log",
            run_id,
            at_ms,
            params={str(k): str(v) for k, v in (params or {}).items()},
            metrics={str(k): float(v) for k, v in (metrics or {}).items()},
            model_id=model_id,
        )

    def text(self, run_id: str, name: str, content: str) -> None:
        """See `Evidence.text`."""
        self._write("text", run_id, None, name=name, content=content)

    def table(self, run_id: str, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        """See `Evidence.table`."""
        # Pairs: the order of columns is kept, the keys of a line are sorted.
        pairs = [[str(k), [_plain(v) for v in values]] for k, values in columns.items()]
        self._write("table", run_id, None, name=name, columns=pairs)

    def label(self, run_id: str, tags: Mapping[str, str]) -> None:
        """See `Evidence.label`."""
        self._write("label", run_id, None, tags={str(k): str(v) for k, v in tags.items()})

    def close(
        self,
        run_id: str,
        *,
        failed: bool = False,
        tags: Mapping[str, str],
        at_ms: int | None = None,
    ) -> None:
        """See `Evidence.close`."""
        plain = {str(k): str(v) for k, v in tags.items()}
        self._write("close", run_id, at_ms, failed=failed, tags=plain)

    def read(self, run_id: str, name: str) -> str:
        """See `Evidence.read`; a text that is kept is read from the journal."""
        kept = self._pending.text(run_id, name)
        if kept is not None:
            return kept
        run = self._pending.created(run_id)
        return self._ask(f"reading {name} of run {run}", lambda: self._evidence.read(run, name))

    def find(self, model: str, stage: str, inputs_digest: str) -> StageEvidence | None:
        """See `Evidence.find`; what is kept is entered first, or a finished stage is missed."""
        return self._ask(
            f"looking for a finished {stage} of {model}",
            lambda: self._evidence.find(model, stage, inputs_digest),
            entered_first=True,
        )

    def recent(self, model: str, stage: str, limit: int) -> tuple[StageEvidence, ...]:
        """See `Evidence.recent`."""
        return self._ask(
            f"listing {stage} runs of {model}",
            lambda: self._evidence.recent(model, stage, limit),
            entered_first=True,
        )

    def url(self, run_id: str) -> str:
        """See `Evidence.url`. Never waits: it is for people, and the UI finds a run by its id."""
        run = self._pending.run_of(run_id)
        try:
            return self._evidence.url(run) if run is not None else self._short_url(run_id)
        except RecordUnavailable:
            return self._short_url(run_id)

    def sweep(self, model: str) -> tuple[str, ...]:
        """See `Evidence.sweep`; what is kept is entered first, so that it ends as it did."""
        return self._ask(
            f"ending unfinished runs of {model}",
            lambda: self._evidence.sweep(model),
            entered_first=True,
        )

    def flush(self) -> None:
        """Enters what waits, if that was not tried just now. Does not wait or raise for MLflow."""
        if self._pending.waiting() and self._patience.clock() >= self._next_try_s:
            self._enter()

    def settle(self, text: str) -> str:
        """A text with the record's ids in place of provisional ones; waits for them."""
        for found in PROVISIONAL.finditer(text):
            with contextlib.suppress(NotFound):  # never created: it stays as it is
                self.resolve(found[0])
        return str(self._pending.translate(text))

    def _ask(self, action: str, call: Callable[[], T], *, entered_first: bool = False) -> T:
        def asked() -> T:
            if not entered_first:
                self.flush()
            elif self._pending.waiting():
                away = self._enter()
                if away is not None:
                    raise away
            return call()

        return self._patience.wait_for(action, asked)

    def _write(self, op: str, run_id: str, at_ms: int | None, **more: Any) -> None:
        entry: Entry = {"op": op, "run": run_id, "at_ms": self._at(at_ms), **more}
        if self._direct():
            try:
                enter(entry, self._pending, self._evidence)
                return
            except RecordUnavailable as exc:
                self._went_away(exc)
        self._pending.add(entry)

    def _direct(self) -> bool:
        """Whether nothing waits, so that a write may go to MLflow without overtaking another."""
        self.flush()
        return not self._pending.waiting()

    def _enter(self) -> RecordUnavailable | None:
        entered = enter_all(self._pending, self._evidence, self._patience.note)
        self._next_try_s = self._patience.clock() + self._pause_s
        if entered.away is not None:
            self._pause_s = min(2 * self._pause_s, LONGEST_TRY_S)
        elif entered.count:
            self._pause_s = FIRST_TRY_S
            self._patience.note(f"MLflow answers again; entered: {counted(entered.count)}")
        return entered.away

    def _went_away(self, exc: RecordUnavailable) -> None:
        self._next_try_s = self._patience.clock() + self._pause_s
        self._patience.note(
            f"MLflow is away; evidence is kept in {self._pending.folder} until it answers: {exc}"
        )

    def _at(self, at_ms: int | None) -> int:
        return self._now_ms() if at_ms is None else at_ms

    def _short_url(self, run_id: str) -> str:
        if PROVISIONAL.fullmatch(run_id):
            return f"{self._pending.folder} (run {run_id}, until MLflow answers)"
        return f"{self._address.rstrip('/')}/#/runs/{run_id}"


def _plain(value: Any) -> Any:
    """A table's cell as JSON keeps it; numpy scalars become Python's."""
    plain = value.item() if hasattr(value, "item") else value
    return plain if isinstance(plain, bool | int | float | str | None) else str(plain)
