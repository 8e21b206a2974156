"""The store of keys: what it keeps, what it refuses, how a key ends."""

from __future__ import annotations

import hashlib
import json
import math
import stat
import threading
from pathlib import Path

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from serving.errors import EdgeError, KeysUnusable, NoSuchKey
from serving.keys import record, rules, scopes, signing, store
from tests.fakes.full_disk import writing_fails

NOW = 1_800_000_000.0
DAY_S = 86_400
TERMS = store.Terms(name="web team", scopes=(scopes.Scope.CALL,), rate_rps=50, lifetime_s=DAY_S)


@pytest.fixture
def keys(tmp_path: Path) -> store.KeyStore:
    return store.KeyStore.of(tmp_path)


def claims(keys: store.KeyStore, text: str) -> dict[str, object]:
    public = jwt.PyJWKSet.from_json(keys.public_set()).keys[0]
    options: dict[str, object] = {"verify_exp": False, "verify_aud": False}
    return jwt.decode(
        text, public, algorithms=["ES256"], issuer="liftlock", options=options  # type: ignore[arg-type]
    )  # fmt: skip


def test_a_key_says_what_it_allows_and_the_public_half_verifies_it(keys: store.KeyStore) -> None:
    made = keys.issue(TERMS, NOW)
    assert claims(keys, made.text) == {
        "iss": "liftlock",
        "jti": f"{made.record.key_id}@50",
        "aud": ["call"],
        "exp": int(NOW) + DAY_S,
    }
    assert len(made.text) < 400


def test_the_text_of_a_key_is_kept_nowhere(keys: store.KeyStore, tmp_path: Path) -> None:
    made = keys.issue(TERMS, NOW)
    kept = b"".join(file.read_bytes() for file in (tmp_path / "keys").iterdir())
    signature = made.text.rpartition(".")[2]
    assert made.text.encode() not in kept
    assert signature.encode() not in kept
    assert hashlib.sha256(made.text.encode()).hexdigest().encode() in kept
    assert made.text not in repr(made)


def test_only_its_owner_reads_what_signs(keys: store.KeyStore, tmp_path: Path) -> None:
    keys.issue(TERMS, NOW)
    mode = stat.S_IMODE((tmp_path / "keys" / "signing-key.pem").stat().st_mode)
    folder = stat.S_IMODE((tmp_path / "keys").stat().st_mode)
    assert (mode, folder) == (0o600, 0o700)
    assert '"d"' not in keys.public_set()


def test_a_revoked_key_is_ended_until_it_would_have_expired(keys: store.KeyStore) -> None:
    made = keys.issue(TERMS, NOW).record
    keys.revoke(made.key_id, NOW + 5)
    assert rules.rules(keys.listed(), NOW + 5).ended == (made.label,)
    assert keys.revoke(made.key_id, NOW + 9).ends_at == int(NOW) + 5
    gone_s = DAY_S + rules.CLOCK_SKEW_S + rules.LATE_CLOCK_S + 1
    assert rules.rules(keys.listed(), NOW + gone_s) == rules.KeyRules()


def test_a_rotated_key_is_taken_for_the_overlap_and_its_heir_has_its_terms(
    keys: store.KeyStore,
) -> None:
    old = keys.issue(TERMS, NOW).record
    heir = keys.rotate(old.key_id, overlap_s=60, lifetime_s=DAY_S, unix_s=NOW).record
    assert (heir.name, heir.scopes, heir.rate_rps) == (old.name, old.scopes, old.rate_rps)
    assert heir.replaces == old.key_id
    assert [r.state(NOW + 59) for r in keys.records()] == ["ending", "valid"]
    assert rules.rules(keys.listed(), NOW + 59).ended == ()
    assert rules.rules(keys.listed(), NOW + 60).ended == (old.label,)


def test_an_overlap_is_cut_short_by_revoking(keys: store.KeyStore) -> None:
    old = keys.issue(TERMS, NOW).record
    keys.rotate(old.key_id, overlap_s=3_600, lifetime_s=DAY_S, unix_s=NOW)
    keys.revoke(old.key_id, NOW + 1)
    assert rules.rules(keys.listed(), NOW + 1).ended == (old.label,)


def test_what_has_ended_has_no_heir(keys: store.KeyStore) -> None:
    old = keys.issue(TERMS, NOW).record
    keys.revoke(old.key_id, NOW)
    with pytest.raises(NoSuchKey, match="is ended; issue a new key"):
        keys.rotate(old.key_id, overlap_s=60, lifetime_s=DAY_S, unix_s=NOW + 1)


def test_unknown_keys_are_refused_by_name(keys: store.KeyStore) -> None:
    with pytest.raises(NoSuchKey, match="no key has the id key-000000000000"):
        keys.revoke("key-000000000000", NOW)
    assert not keys.records()


def test_a_found_key_leads_to_its_id_and_a_foreign_one_does_not(keys: store.KeyStore) -> None:
    made = keys.issue(TERMS, NOW)
    assert keys.id_of(f"{made.text}\n") == made.record.key_id
    with pytest.raises(NoSuchKey, match="was not issued here"):
        keys.id_of(made.text + "x")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"rate_rps": 0}, "rate_rps must be 1"),
        ({"scopes": ()}, "at least one"),
        ({"scopes": (scopes.Scope.CALL,) * 2}, "each once"),
        ({"name": " "}, "whose key"),
        ({"name": "a\nb"}, "one line"),
        ({"lifetime_s": 0}, "expires_at"),
    ],
)
def test_terms_that_cannot_be_leave_no_key(
    keys: store.KeyStore, change: dict[str, object], told: str
) -> None:
    terms = {"name": "a", "scopes": (scopes.Scope.CALL,), "rate_rps": 1, "lifetime_s": 9, **change}
    with pytest.raises(ValueError, match=told):
        keys.issue(store.Terms(**terms), NOW)  # type: ignore[arg-type]
    assert keys.records() == ()


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b"\xff", b'{"format": "other", "keys": []}', b'{"keys": []}',
     b'{"format": "liftlock/keys/v1", "keys": [{}]}', b'{"format": "liftlock/keys/v1", "keys": 3}',
     b"[" * 100_000],
)  # fmt: skip
def test_a_damaged_list_is_refused_and_never_taken_for_an_empty_one(
    keys: store.KeyStore, content: bytes
) -> None:
    keys.issue(TERMS, NOW)
    keys.records_file.write_bytes(content)
    with pytest.raises(KeysUnusable, match="put its backup back"):
        keys.records()
    with pytest.raises(KeysUnusable):
        keys.issue(TERMS, NOW)
    assert keys.records_file.read_bytes() == content


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate_rps", 1.5), ("rate_rps", True), ("ends_at", "5"), ("ends_at", math.nan),
        ("ends_at", math.inf), ("expires_at", math.inf), ("issued_at", 0.5), ("name", 5),
        ("key_id", 5), ("replaces", []), ("sha256", None),
    ],
)  # fmt: skip
def test_a_record_that_nobody_wrote_so_is_refused(
    keys: store.KeyStore, name: str, value: object
) -> None:
    """An end that no clock reaches would let a revoked key in, half a request stop every edge."""
    keys.issue(TERMS, NOW)
    listed = json.loads(keys.records_file.read_text())
    listed["keys"][0][name] = value
    keys.records_file.write_text(json.dumps(listed))
    with pytest.raises(KeysUnusable, match="put its backup back"):
        keys.records()


def test_a_damaged_signing_key_is_not_replaced(keys: store.KeyStore, tmp_path: Path) -> None:
    keys.issue(TERMS, NOW)
    (tmp_path / "keys" / "signing-key.pem").write_text("garbage")
    with pytest.raises(KeysUnusable, match="does not sign keys"):
        keys.issue(TERMS, NOW)
    assert len(keys.records()) == 1


@pytest.mark.parametrize("left", ["jwks.json keys.json", "jwks.json", "keys.json"])
def test_without_what_signs_no_key_is_made_that_no_edge_takes(
    keys: store.KeyStore, tmp_path: Path, left: str
) -> None:
    key_id = keys.issue(TERMS, NOW).record.key_id
    before = {file.name: file.read_bytes() for file in (tmp_path / "keys").iterdir()}
    for name in before.keys() - set(left.split()):
        (tmp_path / "keys" / name).unlink()
    with pytest.raises(KeysUnusable, match=r"signing-key\.pem is gone.*move the folder `keys`"):
        keys.issue(TERMS, NOW)
    with pytest.raises((KeysUnusable, NoSuchKey)):
        keys.rotate(key_id, overlap_s=1, lifetime_s=DAY_S, unix_s=NOW)
    kept = {file.name: file.read_bytes() for file in (tmp_path / "keys").iterdir()}
    assert kept == {name: data for name, data in before.items() if name in left} | {"lock": b""}


def test_what_signs_otherwise_than_edges_verify_is_refused(
    keys: store.KeyStore, tmp_path: Path
) -> None:
    keys.issue(TERMS, NOW)
    file = tmp_path / "keys" / "signing-key.pem"
    right = file.read_bytes()
    file.write_bytes(signing.new_private_key())
    with pytest.raises(KeysUnusable, match=r"is not what jwks\.json verifies"):
        keys.issue(TERMS, NOW)
    file.write_bytes(right)
    assert len(keys.issue(TERMS, NOW).record.scopes) == 1


@pytest.mark.parametrize("room_for_files", [1, 2, 3])
def test_a_full_disk_loses_no_key_and_leaves_none_that_nobody_has(
    keys: store.KeyStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room_for_files: int
) -> None:
    with (
        writing_fails(monkeypatch, under=tmp_path, after_files=room_for_files),
        pytest.raises(
            EdgeError, match=r"keys/[a-z-]+\.[a-z]+ could not be written \(No space left"
        ),
    ):
        keys.issue(TERMS, NOW)
    assert keys.records() == ()
    made = keys.issue(TERMS, NOW).record
    with writing_fails(monkeypatch, under=tmp_path, after_files=1), pytest.raises(EdgeError):
        keys.revoke(made.key_id, NOW)
    assert keys.records() == (made,)
    assert sorted(file.name for file in (tmp_path / "keys").iterdir()) == [
        *("jwks.json", "keys.json", "lock", "signing-key.pem")
    ]


def test_commands_at_the_same_moment_lose_no_key(keys: store.KeyStore) -> None:
    threads = [threading.Thread(target=keys.issue, args=(TERMS, NOW)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({r.key_id for r in keys.records()}) == 8


def test_the_installations_own_key_is_short_and_needs_the_signing_key(
    keys: store.KeyStore,
) -> None:
    assert keys.own_key(NOW) is None
    keys.issue(TERMS, NOW)
    own = keys.own_key(NOW)
    assert own is not None
    assert claims(keys, own)["exp"] == int(NOW) + 600
    assert len(keys.records()) == 1


@given(
    ends=st.lists(st.none() | st.integers(1, 200), min_size=1, max_size=8),
    now=st.integers(0, 600),
)
def test_rules_name_exactly_what_ended_and_has_not_expired(
    ends: list[int | None], now: int
) -> None:
    records = [
        record.KeyRecord(
            key_id=f"key-{number:012x}", name="n", sha256="0" * 64, scopes=(scopes.Scope.CALL,),
            rate_rps=number + 1, issued_at=0, expires_at=100, ends_at=end,
        )
        for number, end in enumerate(ends)
    ]  # fmt: skip
    found = rules.rules(record.KeyList(records=tuple(records)), now)
    for r in records:
        gone = now > r.expires_at + rules.CLOCK_SKEW_S + rules.LATE_CLOCK_S
        ended = r.ends_at is not None and r.ends_at <= now
        assert (r.label in found.ended) == (ended and not gone)
        assert (r.rate_rps in found.rates_rps) == (not ended and not gone)


def test_a_key_is_ended_for_an_edge_whose_clock_is_behind(keys: store.KeyStore) -> None:
    made, other = keys.issue(TERMS, NOW).record, keys.issue(TERMS, NOW).record
    keys.revoke(made.key_id, NOW)
    keys.rotate(other.key_id, overlap_s=60, lifetime_s=DAY_S, unix_s=NOW)
    assert rules.rules(keys.listed(), NOW - 300).ended == (made.label,)
    keys.issue(TERMS, NOW - 5)  # by another clock
    assert keys.listed().written_at == int(NOW)


def test_a_list_of_before_does_not_say_when_it_was_written(keys: store.KeyStore) -> None:
    keys.issue(TERMS, NOW)
    listed = json.loads(keys.records_file.read_text())
    del listed["written_at"]
    keys.records_file.write_text(json.dumps(listed))
    assert keys.listed().written_at == 0
    assert len(keys.listed().records) == 1
    listed["written_at"] = math.inf
    keys.records_file.write_text(json.dumps(listed))
    with pytest.raises(KeysUnusable, match="written_at must be a whole number"):
        keys.listed()


def test_an_ended_key_stays_so_at_an_edge_whose_clock_is_hours_late(
    keys: store.KeyStore,
) -> None:
    made, other = keys.issue(TERMS, NOW), keys.issue(TERMS, NOW)
    keys.revoke(made.record.key_id, NOW)
    found = rules.rules(keys.listed(), NOW + DAY_S + 23 * 3_600)
    assert found.ended == (made.record.label,)
    assert found.rates_rps == (other.record.rate_rps,)


def test_another_kind_of_key_does_not_sign() -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    pem = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(ValueError, match="P-256"):
        signing.public_set(pem)


def test_what_edges_read_is_plain_json(keys: store.KeyStore) -> None:
    keys.issue(TERMS, NOW)
    (only,) = json.loads(keys.public_set())["keys"]
    assert (only["alg"], only["crv"], only["use"]) == ("ES256", "P-256", "sig")


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"keys": []}', '{"keys": [{"kty": "EC", "kid": "k", "d": "AQ"}]}']
)
def test_what_is_no_set_of_public_keys_is_refused(
    keys: store.KeyStore, tmp_path: Path, text: str
) -> None:
    keys.issue(TERMS, NOW)
    (tmp_path / "keys" / "jwks.json").write_text(text)
    with pytest.raises(KeysUnusable, match="public keys"):
        keys.public_set()
