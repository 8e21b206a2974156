"""The ledger: what is champion, what rollback returns to, and that tampering shows."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from registry import ledger
from registry.errors import RecordConflict
from registry.ledger import Kind, LedgerEntry, Log, Mark, MarkKind, Waiver


def written(*steps: tuple[Kind, int]) -> Log:
    log = Log()
    for kind, version in steps:
        log = log.with_item(entry_after(log, kind, version))
    return log


def entry_after(log: Log, kind: Kind, version: int) -> LedgerEntry:
    return log.entry(
        kind, version=version, digest=f"sha256:{version}", policy_digest="p", evidence_run="r",
        actor="a", reason="why", at="2030-01-01T00:00:00Z",
    )  # fmt: skip


def mark_after(log: Log, kind: MarkKind, **more: Any) -> Mark:
    return log.mark(kind, **{"actor": "a", "reason": "why", "at": "2030-01-01T00:00:00Z", **more})


P, R = Kind.PROMOTE, Kind.ROLLBACK


def test_empty_ledger_has_no_champion() -> None:
    assert (Log().champion, Log().previous, Log().claim, Log().frozen) == (None,) * 4
    assert (Log().epoch, Log().next_seq, Log().head) == (0, 1, ledger.GENESIS)


@pytest.mark.parametrize(
    ("steps", "champion", "previous"),
    [
        (((P, 1),), 1, None),
        (((P, 1), (P, 2)), 2, 1),
        (((P, 1), (P, 2), (R, 1)), 1, None),
        (((P, 1), (P, 2), (P, 3), (R, 2)), 2, 1),
        (((P, 1), (P, 2), (P, 3), (R, 2), (R, 1)), 1, None),
        (((P, 1), (P, 2), (R, 1), (P, 3)), 3, 1),
        (((P, 1), (P, 2), (P, 3), (R, 1)), 1, None),
        (((P, 1), (P, 2), (P, 1)), 1, 2),
    ],
)
def test_rollback_steps_down_and_never_back_up(
    steps: tuple[tuple[Kind, int], ...], champion: int, previous: int | None
) -> None:
    log = written(*steps)
    now, before = log.champion, log.previous
    assert now is not None
    assert now.version == champion
    assert (before.version if before else None) == previous


def test_ledger_survives_storage() -> None:
    log = written((P, 1), (P, 2), (R, 1))
    waiver = Waiver(by="Ann", reason="a typo", expires="2030-02-01", gates=("g", "h"))
    log = log.with_item(mark_after(log, MarkKind.CLAIM, epoch=7, owner="here/1"))
    log = log.with_item(dataclasses.replace(entry_after(log, Kind.OVERRIDE, 3), waiver=waiver))
    assert ledger.parse({e.key: e.to_json() for e in log.items}) == log
    assert ledger.parse_lines(log.to_jsonl()) == log


def test_missing_entry_is_noticed() -> None:
    entries = written((P, 1), (P, 2), (P, 3)).items
    kept = {e.key: e.to_json() for e in (entries[0], entries[2])}
    with pytest.raises(RecordConflict, match="entry 2 is missing"):
        ledger.parse(kept)


def test_altered_entry_is_noticed() -> None:
    entries = list(written((P, 1), (P, 2)).entries)
    entries[0] = dataclasses.replace(entries[0], reason="something else")
    with pytest.raises(RecordConflict, match="altered"):
        ledger.parse({e.key: e.to_json() for e in entries})


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"seq": 1}', json.dumps({"kind": "sell"})])
def test_unreadable_entry_is_named(text: str) -> None:
    with pytest.raises(RecordConflict, match=r"ledger\.000001"):
        ledger.parse({"ledger.000001": text})


def test_entry_that_does_not_fit_a_parameter_is_refused() -> None:
    entry = dataclasses.replace(written((P, 1)).entries[0], reason="x" * ledger.MAX_ENTRY_CHARS)
    with pytest.raises(ValueError, match="shorten the reason"):
        entry.to_json()


def test_marks_change_nothing_of_what_is_in_charge() -> None:
    log = written((P, 1), (P, 2))
    for kind in MarkKind:
        log = log.with_item(mark_after(log, kind))
    assert log.champion is not None
    assert log.champion.version == 2
    assert log.entries == written((P, 1), (P, 2)).entries


def test_newest_claim_and_its_epoch_are_found() -> None:
    log = written((P, 1))
    for epoch, owner in ((3, "a"), (4, "b")):
        log = log.with_item(mark_after(log, MarkKind.CLAIM, epoch=epoch, owner=owner))
    log = log.with_item(mark_after(log, MarkKind.FREEZE))
    assert log.claim is not None
    assert (log.claim.owner, log.epoch) == ("b", 4)


def test_freeze_holds_until_it_is_thawed() -> None:
    log = written((P, 1))
    assert log.frozen is None
    log = log.with_item(mark_after(log, MarkKind.FREEZE, reason="audit"))
    log = log.with_item(mark_after(log, MarkKind.CLAIM))
    assert log.frozen is not None
    assert log.frozen.reason == "audit"
    assert log.with_item(mark_after(log, MarkKind.THAW)).frozen is None


def test_time_never_runs_backwards_where_a_clock_does() -> None:
    log = written((P, 1))
    late = log.mark(MarkKind.CLAIM, actor="a", reason="r", at="2029-12-31T23:59:59Z")
    assert late.at == log.items[-1].at


def test_item_that_does_not_continue_the_ledger_is_refused() -> None:
    log = written((P, 1))
    with pytest.raises(RecordConflict, match="does not continue"):
        log.with_item(dataclasses.replace(entry_after(log, P, 2), previous_hash="0" * 64))
