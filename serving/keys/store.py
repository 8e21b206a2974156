"""The keys of one installation, in one folder: who has one, and what signs them.

`signing-key.pem` makes keys and is nobody's but the operator's; `keys.json` (no key, only its hash)
and `jwks.json` are what edges read. The text of a key is returned once and kept nowhere.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry import reading
from registry.wording import shown
from serving.discovery import files
from serving.errors import KeysUnusable, NoSuchKey
from serving.keys import signing
from serving.keys.record import KeyList, KeyRecord
from serving.keys.scopes import Scope

FORMAT = "liftlock/keys/v1"
MAX_BYTES = 64 << 20
OWN_S = 600
"""How long the key lasts that this installation makes for itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a key is issued for."""

    name: str
    scopes: tuple[Scope, ...]
    rate_rps: int
    lifetime_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Issued:
    """A new key: what is kept of it, and the text that is shown once."""

    record: KeyRecord
    text: str = dataclasses.field(repr=False)


class KeyStore:
    """The folder `keys` of a liftlock home; nothing is made before the first key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @classmethod
    def of(cls, home: Path) -> KeyStore:
        """The store of a liftlock home."""
        return cls(home / "keys")

    @property
    def records_file(self) -> Path:
        """What edges watch."""
        return self._folder / "keys.json"

    def records(self) -> tuple[KeyRecord, ...]:
        """All keys, oldest first; none where there is no store. Raises KeysUnusable."""
        return (self._read() or KeyList()).records

    def listed(self) -> KeyList:
        """What edges go by. Raises KeysUnusable, also where there is none: that says nothing about
        what was revoked."""
        found = self._read()
        if found is None:
            raise KeysUnusable(
                f"API keys are required, but {self.records_file} is not there; issue a first key "
                "with `liftlock keys issue`, or put the list back. A running edge goes on by the "
                "one it has"
            )
        return found

    def _read(self) -> KeyList | None:
        try:
            data = json.loads(reading.read_text(self.records_file, MAX_BYTES))
            return _parse(data)
        except reading.Absent:
            return None
        except (reading.Unreadable, ValueError, TypeError, KeyError, RecursionError) as exc:
            raise KeysUnusable(
                f"{self.records_file} is no list of keys that this version wrote ({exc!s}); put "
                "its backup back. Until then edges go on by the list they have"
            ) from exc

    def public_set(self) -> str:
        """What edges verify keys with. Raises KeysUnusable before the first key."""
        path = self._folder / "jwks.json"
        try:
            text = reading.read_text(path, MAX_BYTES)
        except reading.Unreadable as exc:
            raise KeysUnusable(
                f"API keys are required, but {path} {exc!s}; issue a first key with `liftlock keys "
                "issue`, or copy jwks.json and keys.json from where keys are issued"
            ) from exc
        if not signing.is_public_set(text):
            raise KeysUnusable(
                f"API keys are required, but {path} is no set of public keys (RFC 7517); copy "
                "jwks.json from where keys are issued, and nothing that signs"
            )
        return text

    def issue(self, terms: Terms, unix_s: float) -> Issued:
        """Make a key. Raises ValueError for terms that cannot be, KeysUnusable."""
        with self._changing(unix_s) as records:
            made = self._make(terms, int(unix_s), replaces=None)
            records.append(made.record)
        return made

    def rotate(self, key_id: str, *, overlap_s: int, lifetime_s: int, unix_s: float) -> Issued:
        """Make a key of the same terms; the old one ends after the overlap.

        Raises NoSuchKey for a key that is unknown, or has ended or expired; KeysUnusable.
        """
        with self._changing(unix_s) as records:
            place, old = _find(records, key_id)
            if old.state(unix_s) != "valid":
                raise NoSuchKey(
                    f"{key_id} of {old.name} is {old.state(unix_s)}; issue a new key instead"
                )
            terms = Terms(
                name=old.name, scopes=old.scopes, rate_rps=old.rate_rps, lifetime_s=lifetime_s
            )
            made = self._make(terms, int(unix_s), replaces=key_id)
            records[place] = dataclasses.replace(old, ends_at=int(unix_s) + overlap_s)
            records.append(made.record)
        return made

    def revoke(self, key_id: str, unix_s: float) -> KeyRecord:
        """End a key now; one that has ended stays as it was. Raises NoSuchKey, KeysUnusable."""
        with self._changing(unix_s) as records:
            place, old = _find(records, key_id)
            if old.ends_at is None or old.ends_at > unix_s:
                records[place] = dataclasses.replace(old, ends_at=int(unix_s))
            return records[place]

    def id_of(self, text: str) -> str:
        """The id of a key whose text somebody found. Raises NoSuchKey, KeysUnusable."""
        digest = _digest(text)
        found = next((r.key_id for r in self.records() if r.sha256 == digest), None)
        if found is None:
            raise NoSuchKey("this key was not issued here, or was kept in another store")
        return found

    def own_key(self, unix_s: float) -> str | None:
        """A key for this installation's own questions, for ten minutes; None without a store."""
        try:
            private = (self._folder / "signing-key.pem").read_bytes()
        except OSError:
            return None
        return signing.sign(
            private,
            {"jti": "own", "aud": [str(Scope.CALL)], "exp": int(unix_s) + OWN_S},
        )

    def _make(self, terms: Terms, now: int, *, replaces: str | None) -> Issued:
        unsigned = KeyRecord(
            key_id=f"key-{secrets.token_hex(6)}",
            name=terms.name,
            sha256=_digest(""),
            scopes=terms.scopes,
            rate_rps=terms.rate_rps,
            issued_at=now,
            expires_at=now + terms.lifetime_s,
            replaces=replaces,
        )
        claims = {
            "jti": unsigned.label,
            "aud": [str(scope) for scope in terms.scopes],
            "exp": unsigned.expires_at,
        }
        text = signing.sign(self._private_key(), claims)
        return Issued(record=dataclasses.replace(unsigned, sha256=_digest(text)), text=text)

    def _private_key(self) -> bytes:
        """What signs, made with the first key. Raises KeysUnusable where no edge would take what
        it signs."""
        path, verifies = self._folder / "signing-key.pem", self._folder / "jwks.json"
        if not path.exists():
            if verifies.exists() or self.records_file.exists():
                raise KeysUnusable(f"{path} is gone, {_NO_SIGNER}")
            files.write_atomic(path, signing.new_private_key(), durable=True, mode=0o600)
        private = path.read_bytes()
        try:
            public = signing.public_set(private)
        except (ValueError, TypeError) as exc:
            raise KeysUnusable(f"{path} does not sign keys: {exc}; put its backup back") from exc
        if not verifies.exists():
            files.write_atomic(verifies, public.encode(), durable=True)
        elif not signing.key_ids(public) <= signing.key_ids(self.public_set()):
            raise KeysUnusable(f"{path} is not what {verifies.name} verifies, {_NO_SIGNER}")
        return private

    @contextlib.contextmanager
    def _changing(self, unix_s: float) -> Iterator[list[KeyRecord]]:
        """The list to change; written when the body ends, one command at a time."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self._folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            known = self._read() or KeyList()
            records = list(known.records)
            yield records
            data = {
                "format": FORMAT,
                "written_at": max(known.written_at, int(unix_s)),
                "keys": [dataclasses.asdict(r) for r in records],
            }
            files.write_atomic(self.records_file, json.dumps(data, indent=1).encode(), durable=True)


_NO_SIGNER = (
    "so edges would take no key that is made here. Issue keys where that file is, or put its "
    "backup back; if it is lost, move the folder `keys` away, issue all anew and restart the edges"
)


def _parse(data: Any) -> KeyList:
    if data["format"] != FORMAT:
        raise ValueError(f"its format is {data['format']!r}, not {FORMAT}")
    written_at = data.get("written_at", 0)  # absent in lists of before
    if type(written_at) is not int:
        raise ValueError(f"written_at must be a whole number, is {shown(written_at)}")
    records = tuple(
        KeyRecord(**{**item, "scopes": tuple(Scope(s) for s in item["scopes"])})
        for item in data["keys"]
    )
    return KeyList(records=records, written_at=written_at)


def _find(records: list[KeyRecord], key_id: str) -> tuple[int, KeyRecord]:
    for place, record in enumerate(records):
        if record.key_id == key_id:
            return place, record
    raise NoSuchKey(f"no key has the id {key_id}; `liftlock keys list` shows each with its id")


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().encode()).hexdigest()
