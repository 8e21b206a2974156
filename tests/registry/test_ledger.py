"""The ledger: what is champion, what rollback returns to, and that tampering shows."""

from __future__ import annotations

import dataclasses
import json

import pytest

from registry import ledger
from registry.errors import RecordConflict
from registry.ledger import Kind, LedgerEntry


def written(*steps: tuple[Kind, int]) -> tuple[LedgerEntry, ...]:
    entries: tuple[LedgerEntry, ...] = ()
    for kind, version in steps:
        entry = ledger.following(
            entries, kind=kind, version=version, digest=f"sha256:{version}", policy_digest="p",
            evidence_run="r", actor="a", reason="why", at="2030-01-01T00:00:00Z",
        )  # fmt: skip
        entries = (*entries, entry)
    return entries


P, R = Kind.PROMOTE, Kind.ROLLBACK


def test_empty_ledger_has_no_champion() -> None:
    assert ledger.champion(()) is None
    assert ledger.previous(()) is None


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
    entries = written(*steps)
    now, before = ledger.champion(entries), ledger.previous(entries)
    assert now is not None
    assert now.version == champion
    assert (before.version if before else None) == previous


def test_ledger_survives_storage() -> None:
    entries = written((P, 1), (P, 2), (R, 1))
    assert ledger.parse({e.key: e.to_json() for e in entries}) == entries


def test_missing_entry_is_noticed() -> None:
    entries = written((P, 1), (P, 2), (P, 3))
    kept = {e.key: e.to_json() for e in (entries[0], entries[2])}
    with pytest.raises(RecordConflict, match="entry 2 is missing"):
        ledger.parse(kept)


def test_altered_entry_is_noticed() -> None:
    entries = list(written((P, 1), (P, 2)))
    entries[0] = dataclasses.replace(entries[0], reason="something else")
    with pytest.raises(RecordConflict, match="altered"):
        ledger.parse({e.key: e.to_json() for e in entries})


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"seq": 1}', json.dumps({"kind": "sell"})])
def test_unreadable_entry_is_named(text: str) -> None:
    with pytest.raises(RecordConflict, match=r"promotion\.000001"):
        ledger.parse({"promotion.000001": text})


def test_entry_that_does_not_fit_a_parameter_is_refused() -> None:
    entry = dataclasses.replace(written((P, 1))[0], reason="x" * ledger.MAX_ENTRY_CHARS)
    with pytest.raises(ValueError, match="shorten the reason"):
        entry.to_json()
