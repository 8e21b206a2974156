"""What is kept of a key: enough to list and to end it, not enough to use it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from registry.wording import check_line, shown
from serving.keys.scopes import Scope

MAX_NAME_CHARS = 100
MAX_RATE_RPS = 1_000_000
RATE_MARK = "@"
_ID = re.compile(r"key-[0-9a-f]{12}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord:
    """One key. Times are whole seconds since 1970."""

    key_id: str
    name: str
    """Whose it is, for people."""
    sha256: str
    """Of the key's text, in hexadecimal."""
    scopes: tuple[Scope, ...]
    rate_rps: int
    """Requests a second that it may make, all edges together."""
    issued_at: int
    expires_at: int
    """Stands in the key itself and cannot be changed."""
    ends_at: int | None = None
    """When it was, or will be, ended before that; None where nobody asked for it."""
    replaces: str | None = None
    """The key that it was rotated from."""

    def __post_init__(self) -> None:
        for name, number in (
            ("rate_rps", self.rate_rps),
            ("issued_at", self.issued_at),
            ("expires_at", self.expires_at),
            ("ends_at", 0 if self.ends_at is None else self.ends_at),
        ):
            if type(number) is not int:
                raise ValueError(f"{name} must be a whole number, is {shown(number)}")
        if not isinstance(self.name, str):
            raise ValueError(f"name must be a text, is {shown(self.name)}")
        for name, value in (("key_id", self.key_id), ("replaces", self.replaces)):
            if value is not None and not _ID.fullmatch(value):
                raise ValueError(f"{name} must look like key-0123456789ab, is {shown(value)}")
        if not _SHA256.fullmatch(self.sha256):
            raise ValueError(f"sha256 must be 64 hexadecimal digits, is {shown(self.sha256)}")
        if not self.name.strip():
            raise ValueError("name must say whose key it is, is empty")
        check_line("name", self.name, MAX_NAME_CHARS)
        if not self.scopes or len(set(self.scopes)) != len(self.scopes):
            raise ValueError("scopes must name at least one, and each once")
        if not 1 <= self.rate_rps <= MAX_RATE_RPS:
            raise ValueError(f"rate_rps must be 1..{MAX_RATE_RPS}, is {self.rate_rps}")
        if not 0 <= self.issued_at < self.expires_at:
            raise ValueError(f"expires_at must be after {self.issued_at}, is {self.expires_at}")

    @property
    def label(self) -> str:
        """What the key says of itself (its claim `jti`): `key-0123456789ab@50`, id and rate.

        One text, since the edge copies it to a header for every request.
        """
        return f"{self.key_id}{RATE_MARK}{self.rate_rps}"

    def state(self, unix_s: float) -> str:
        """`valid`, `ending` (rotated, still taken), `ended` or `expired`."""
        if unix_s >= self.expires_at:
            return "expired"
        if self.ends_at is None:
            return "valid"
        return "ended" if self.ends_at <= unix_s else "ending"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyList:
    """All keys, oldest first, as the last command left them."""

    records: tuple[KeyRecord, ...] = ()
    written_at: int = 0
    """Whole seconds since 1970, by the clock of who wrote it; never before that of an earlier one.
    What has ended by then has ended, whatever an edge's own clock says."""
