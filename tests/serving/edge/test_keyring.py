"""What an edge goes by while the list of keys is lost, damaged, older or of another clock."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from serving.edge import config, home, keyring
from serving.errors import KeysUnusable
from serving.keys.scopes import Scope
from serving.keys.store import KeyStore, Terms

TERMS = Terms(name="test", scopes=(Scope.CALL,), rate_rps=50, lifetime_s=3_600)


@pytest.fixture
def keys(tmp_path: Path) -> KeyStore:
    return KeyStore.of(tmp_path)


def ring(tmp_path: Path) -> keyring.Keyring:
    return keyring.Keyring(config.KeySettings(required=True), home.EdgeHome.of(tmp_path))


def test_a_list_that_is_gone_once_it_was_seen_clears_nothing(
    keys: KeyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keys.issue(TERMS, time.time()).record
    keys.revoke(made.key_id, time.time())
    edge = ring(tmp_path)
    before = edge.now()
    assert before.ended == (made.label,)
    keys.records_file.unlink()
    monkeypatch.setattr(keyring.files, "mark", lambda _: (1, 2, 3))
    with pytest.raises(KeysUnusable, match="goes on by the one it has"):
        edge.now()
    monkeypatch.undo()
    keys.issue(TERMS, time.time())  # of a store that remembers nothing
    assert edge.now().ended == before.ended


def test_what_was_ended_stays_so_when_an_older_list_is_put_back(
    keys: KeyStore, tmp_path: Path
) -> None:
    now = time.time()
    revoked, rotated = keys.issue(TERMS, now).record, keys.issue(TERMS, now).record
    backup = keys.records_file.read_bytes()
    keys.rotate(rotated.key_id, overlap_s=3_600, lifetime_s=3_600, unix_s=now)
    edge = ring(tmp_path)
    assert edge.now().ended == ()
    for key in (revoked, rotated):
        keys.revoke(key.key_id, now)
    ended = tuple(sorted((revoked.label, rotated.label)))
    assert edge.now().ended == ended
    keys.records_file.write_bytes(backup)
    assert edge.now().ended == ended
    keys.issue(TERMS, now)
    assert edge.now().ended == ended


def test_a_clock_that_is_behind_lets_no_ended_key_in(keys: KeyStore, tmp_path: Path) -> None:
    ahead_s = time.time() + 600
    made = keys.issue(TERMS, ahead_s).record
    keys.revoke(made.key_id, ahead_s)
    assert ring(tmp_path).now().ended == (made.label,)


def test_without_a_list_an_edge_does_not_start(tmp_path: Path) -> None:
    for spoil in (lambda: None, lambda: (tmp_path / "keys").write_text("a file")):
        spoil()
        with pytest.raises(KeysUnusable, match=r"keys\.json"):
            ring(tmp_path).refresh()
