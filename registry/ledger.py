"""The ledger of a model: one append-only, hash-chained sequence of who acts and what is in charge.

Each item is one set-once parameter of one MLflow run per model. MLflow's primary key on
(run, key) makes writing a sequence number an atomic claim: of two writers that both want number
17 exactly one wins, the other gets an error and has changed nothing.

The one idea: taking over is an item of the same sequence as what is decided. Whoever appends
without having seen the newest claim, freeze or decision loses the race for the number, so an owner
that was paused and replaced is refused by the ledger itself, with no lock and no clock. Aliases
and tags only mirror the ledger and are set from it. Everything here is pure;
registry.mlflow_store does the writing.
"""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from registry.errors import RecordConflict

KEY_PREFIX = "ledger."
MAX_ENTRY_CHARS = 6000  # MLflow's limit on a parameter value
GENESIS = "0" * 64


class Kind(enum.StrEnum):
    """How a version came to be in charge."""

    PROMOTE = "promote"
    """A candidate passed its gates and answers."""
    ROLLBACK = "rollback"
    """An earlier champion was put back."""
    OVERRIDE = "override"
    """A candidate answers although a gate did not pass: a named person said so."""


class MarkKind(enum.StrEnum):
    """What else is entered; nothing of it changes what is in charge."""

    CLAIM = "claim"
    """Somebody became the owner; every older owner is refused from here on."""
    FREEZE = "freeze"
    """No promotion and no automatic action until thawed."""
    THAW = "thaw"
    """They may go on."""
    NOTED = "noted"
    """Something was done without the record and has been overtaken since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiver:
    """Who let a candidate pass a gate that did not pass, why, and until when that holds."""

    by: str
    reason: str
    expires: str
    """UTC date, ISO 8601; the day after it nothing is excused any more."""
    gates: tuple[str, ...]
    """Names of the gates that are excused; every other one must pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stored:
    """How an item is stored: as a parameter of the ledger's run."""

    seq: int

    @property
    def key(self) -> str:
        """The parameter name: zero-padded, so that the UI sorts it."""
        return _key(self.seq)

    @property
    def hash(self) -> str:
        """sha256 of the canonical item, what the next item's `previous_hash` must be."""
        return _hash(self.to_json())

    def to_json(self) -> str:
        """Canonical JSON, the stored form.

        Raises:
            ValueError: longer than a parameter may be.
        """
        plain = {k: v for k, v in dataclasses.asdict(self).items() if v is not None}
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        if len(text) > MAX_ENTRY_CHARS:
            raise ValueError(
                f"ledger entry is {len(text)} characters, at most {MAX_ENTRY_CHARS} fit; "
                "shorten the reason"
            )
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(_Stored):
    """One change of what serves."""

    kind: Kind
    version: int
    digest: str
    policy_digest: str
    evidence_run: str
    """The promotion run that justifies it."""
    actor: str
    reason: str
    at: str
    """UTC, ISO 8601, to the second."""
    previous_hash: str
    epoch: int = 0
    """Of the owner that wrote it."""
    runtime_digest: str = ""
    """What it was judged with: engine settings, software versions, kind of hardware."""
    waiver: Waiver | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark(_Stored):
    """One item that leaves what serves as it is."""

    kind: MarkKind
    actor: str
    reason: str
    at: str
    previous_hash: str
    epoch: int = 0
    """A claim's new epoch; of the others, the epoch in force."""
    owner: str = ""
    """A claim's owner: a process, as `pipelines.ownership` names it."""


Item = LedgerEntry | Mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Log:
    """A verified ledger, oldest item first."""

    items: tuple[Item, ...] = ()

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        """What was put in charge, oldest first."""
        return tuple(item for item in self.items if isinstance(item, LedgerEntry))

    @property
    def champion(self) -> LedgerEntry | None:
        """What should be serving: the last entry."""
        return self.entries[-1] if self.entries else None

    @property
    def previous(self) -> LedgerEntry | None:
        """What a rollback returns to."""
        return previous(self.entries)

    def newest_of(self, version: int) -> LedgerEntry | None:
        """The last time that a version was put in charge."""
        return next((e for e in reversed(self.entries) if e.version == version), None)

    @property
    def waiver(self) -> Waiver | None:
        """What the champion was let through on; going back to it does not lift that."""
        now = self.champion
        judged = [e for e in self.entries if e.kind is not Kind.ROLLBACK]
        of = next((e for e in reversed(judged) if now and e.version == now.version), None)
        return of.waiver if of is not None else None

    @property
    def claim(self) -> Mark | None:
        """The newest claim: its owner is the only one that may act."""
        return next((m for m in reversed(self._marks) if m.kind is MarkKind.CLAIM), None)

    @property
    def frozen(self) -> Mark | None:
        """The freeze in force, if there is one."""
        said = (m for m in reversed(self._marks) if m.kind in (MarkKind.FREEZE, MarkKind.THAW))
        last = next(said, None)
        return last if last is not None and last.kind is MarkKind.FREEZE else None

    @property
    def epoch(self) -> int:
        """The highest epoch; 0 in an empty ledger."""
        return max((item.epoch for item in self.items), default=0)

    @property
    def next_seq(self) -> int:
        """The number of the item that would come next."""
        return len(self.items) + 1

    @property
    def head(self) -> str:
        """The hash that the next item continues."""
        return self.items[-1].hash if self.items else GENESIS

    @property
    def _marks(self) -> tuple[Mark, ...]:
        return tuple(item for item in self.items if isinstance(item, Mark))

    def time(self, now: str) -> str:
        """`now`, or the last item's time where a clock was set back: entries never run backwards.

        Both are UTC in the same ISO 8601 form, so text compares as time does.
        """
        return max(now, self.items[-1].at) if self.items else now

    def mark(self, kind: MarkKind, **values: Any) -> Mark:
        """The mark that would continue this ledger; its epoch is the one in force if not given."""
        own = {"epoch": self.epoch, **values, "at": self.time(values["at"])}
        return Mark(seq=self.next_seq, kind=kind, previous_hash=self.head, **own)

    def entry(self, kind: Kind, **values: Any) -> LedgerEntry:
        """The entry that would continue this ledger."""
        own = {**values, "at": self.time(values["at"])}
        return LedgerEntry(seq=self.next_seq, kind=kind, previous_hash=self.head, **own)

    def with_item(self, item: Item) -> Log:
        """This ledger continued by one item.

        Raises:
            RecordConflict: the item does not continue it.
        """
        longer = (*self.items, item)
        verify(longer)
        return Log(items=longer)

    def to_jsonl(self) -> str:
        """One stored item a line; `hash(line)` is the next line's `previous_hash`."""
        return "".join(f"{item.to_json()}\n" for item in self.items)


def _key(seq: int) -> str:
    return f"{KEY_PREFIX}{seq:06d}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def parse(params: Mapping[str, str]) -> Log:
    """Reads a run's parameters into a verified ledger.

    Raises:
        RecordConflict: a number is missing, an item is unreadable, or the hash chain is broken.
    """
    items = [_item(key, params[key]) for key in sorted(params) if key.startswith(KEY_PREFIX)]
    verify(items)
    return Log(items=tuple(items))


def parse_lines(text: str) -> Log:
    """Reads what `Log.to_jsonl` wrote.

    Raises:
        RecordConflict: as `parse`, with the line's number.
    """
    items = [_item(_key(n), line) for n, line in enumerate(text.splitlines(), start=1)]
    verify(items)
    return Log(items=tuple(items))


def _item(key: str, text: str) -> Item:
    try:
        raw = json.loads(text)
        item = _entry(raw) if raw["kind"] in set(Kind) else _mark(raw)
    except (ValueError, TypeError, KeyError) as exc:
        raise RecordConflict(f"ledger entry {key} cannot be read: {exc}") from exc
    if item.key != key:
        raise RecordConflict(f"ledger entry {key} claims to be number {item.seq}")
    return item


def _entry(raw: dict[str, Any]) -> LedgerEntry:
    waiver = raw.get("waiver")
    if waiver is not None:
        waiver = Waiver(**{**waiver, "gates": tuple(waiver["gates"])})
    return LedgerEntry(**{**raw, "kind": Kind(raw["kind"]), "waiver": waiver})


def _mark(raw: dict[str, Any]) -> Mark:
    return Mark(**{**raw, "kind": MarkKind(raw["kind"])})


def verify(items: Sequence[Item]) -> None:
    """Checks that numbers run 1, 2, 3, … and that each item hashes the one before.

    Raises:
        RecordConflict: with the first item that does not fit.
    """
    expected = GENESIS
    for number, item in enumerate(items, start=1):
        if item.seq != number:
            raise RecordConflict(f"ledger entry {number} is missing; found {item.seq} instead")
        if item.previous_hash != expected:
            raise RecordConflict(
                f"ledger entry {number} does not continue entry {number - 1}: it was altered or "
                "written by something else"
            )
        expected = item.hash


def previous(entries: Sequence[LedgerEntry]) -> LedgerEntry | None:
    """What a rollback returns to: what was in charge before the current champion took over.

    A rollback steps down a stack: after promote 1, 2, 3 and one rollback (to 2), the next one
    goes to 1, not back to 3, which was just found wanting.
    """
    stack: list[LedgerEntry] = []
    for entry in entries:
        below = [e.version for e in stack]
        if entry.kind is Kind.ROLLBACK and entry.version in below:
            del stack[below.index(entry.version) + 1 :]
        elif not stack or stack[-1].version != entry.version:
            stack.append(entry)
    return stack[-2] if len(stack) > 1 else None
