"""Reads a backup file, which is not trusted.

Names are matched against the few forms that a backup has and never become paths, sizes are bounded
before anything is unpacked, and every member is hashed before the first one is used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from registry import reading
from registry.backup.facts import (
    LedgerFacts,
    LedgerHead,
    ModelFacts,
    RunFacts,
    VersionFacts,
    parse,
)
from registry.backup.layout import (
    FORMAT,
    INDEX,
    MAX_INDEX_BYTES,
    MAX_MEMBER_BYTES,
    MAX_MEMBERS,
    MAX_TOTAL_BYTES,
    MEMBER,
    Index,
)
from registry.errors import BackupInvalid

_OF_EVERY_MODEL = ("model.json", "ledger.json", "ledger.jsonl")
_DEFLATES = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, RuntimeError,
    OverflowError, UnicodeError, ValueError, OSError,
)  # fmt: skip
"""What zipfile raises on bytes that are not a whole zip."""
T = TypeVar("T")


class Archive:
    """A backup that was found whole; use it as a context manager."""

    def __init__(self, path: Path, file: zipfile.ZipFile, index: Index, digest: str) -> None:
        self.path = path
        self.index = index
        self.digest = digest
        """sha256 of the index, and by it of everything; names this very backup."""
        self._file = file

    @classmethod
    def open(cls, path: Path) -> Archive:
        """Opens and checks a file.

        Raises:
            BackupInvalid: it is not there, no backup, of another format, cut off, altered or
                oversized.
        """
        try:
            handle = reading.open_regular(path)
        except reading.Unreadable as exc:
            raise BackupInvalid(f"{path} {exc}; name the file that a backup wrote") from exc
        try:
            with _whole(path):
                file = zipfile.ZipFile(handle)
                _check_directory(path, file.infolist())
                raw = _read(file, INDEX, MAX_INDEX_BYTES)
            index = _index(path, raw)
            _check_members(path, file, index)
        except BaseException:
            handle.close()
            raise
        return cls(path, file, index, f"sha256:{hashlib.sha256(raw).hexdigest()}")

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file."""
        handle = self._file.fp
        self._file.close()
        if handle is not None:
            handle.close()

    def model(self, model: str) -> ModelFacts:
        """The registered model."""
        facts = self._facts(ModelFacts, f"models/{model}/model.json")
        if facts.model != model:
            raise BackupInvalid(f"{self.path}: the model {model} calls itself {facts.model!r}")
        return facts

    def ledger(self, model: str) -> LedgerFacts:
        """The ledger; no item where there was none."""
        head = self._facts(LedgerHead, f"models/{model}/ledger.json")
        name = f"models/{model}/ledger.jsonl"
        items = tuple(self._text(name).split("\n")[:-1])
        if len(items) != len(head.keys):
            raise BackupInvalid(
                f"{self.path}: {name} has {len(items)} items, {len(head.keys)} are named"
            )
        return LedgerFacts(head=head, items=items)

    def versions(self, model: str) -> tuple[VersionFacts, ...]:
        """Every version, by number."""
        prefix = f"models/{model}/versions/"
        numbers = sorted(int(n[len(prefix) : -len(".json")]) for n in self._named(prefix))
        found = tuple(self._facts(VersionFacts, f"{prefix}{n}.json") for n in numbers)
        wrong = [n for n, v in zip(numbers, found, strict=True) if n != v.version]
        if wrong:
            raise BackupInvalid(f"{self.path}: version {wrong[0]} of {model} is another one")
        return found

    def runs(self, model: str) -> tuple[RunFacts, ...]:
        """Every run, oldest first."""
        prefix = f"models/{model}/runs/"
        names = [n for n in self._named(prefix) if "/" not in n[len(prefix) :]]
        found = [self._facts(RunFacts, name) for name in names]
        return tuple(sorted(found, key=lambda r: (r.started_at_ms, r.run_id)))

    def text(self, model: str, run: RunFacts, name: str) -> str:
        """A text artifact of a run."""
        return self._text(f"models/{model}/runs/{run.run_id}/{name}")

    def bytes(self, name: str) -> bytes:
        """A member that the index names."""
        if name not in self.index.members:
            raise BackupInvalid(f"{self.path} lacks {name}")
        with _whole(self.path):
            return _read(self._file, name, MAX_MEMBER_BYTES)

    def _text(self, name: str) -> str:
        try:
            return self.bytes(name).decode("utf-8")
        except UnicodeDecodeError as exc:
            raise BackupInvalid(f"{self.path}: {name} is not text") from exc

    def _facts(self, kind: type[T], name: str) -> T:
        return parse(kind, self.bytes(name), member=name)

    def _named(self, prefix: str) -> list[str]:
        return sorted(n for n in self.index.members if n.startswith(prefix))


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[None]:
    """Whatever zipfile makes of broken bytes is one thing to say."""
    try:
        yield
    except _BROKEN as exc:
        raise BackupInvalid(
            f"{path} is not a whole backup ({type(exc).__name__}: {exc}); it was cut off, altered "
            "or is something else. Use another copy"
        ) from exc


def _check_directory(path: Path, members: list[zipfile.ZipInfo]) -> None:
    """Refuses what a backup never has, before anything is unpacked."""
    if len(members) > MAX_MEMBERS:
        raise BackupInvalid(f"{path} has {len(members)} members, a backup at most {MAX_MEMBERS}")
    names = [m.filename for m in members]
    if len(set(names)) != len(names):
        raise BackupInvalid(f"{path} has two members of one name; it is no backup of ours")
    if sum(m.file_size for m in members) > MAX_TOTAL_BYTES:
        raise BackupInvalid(f"{path} would unpack to more than {MAX_TOTAL_BYTES >> 30} GiB")
    for member in members:
        name = member.filename
        if name != INDEX and not MEMBER.fullmatch(name):
            raise BackupInvalid(f"{path} has a member {name!r}, which no backup of ours has")
        if member.compress_type not in _DEFLATES or member.flag_bits & _ENCRYPTED:
            raise BackupInvalid(f"{path}: {name} is packed in a way that no backup of ours is")
        if member.file_size > (MAX_INDEX_BYTES if name == INDEX else MAX_MEMBER_BYTES):
            raise BackupInvalid(f"{path}: {name} would unpack to {member.file_size} bytes")


def _read(file: zipfile.ZipFile, name: str, limit_bytes: int) -> bytes:
    try:
        with file.open(name) as member:
            data = member.read(limit_bytes + 1)
    except KeyError as exc:
        raise zipfile.BadZipFile(f"there is no {name}") from exc
    if len(data) != file.getinfo(name).file_size:
        raise zipfile.BadZipFile(f"{name} is not as long as it says")
    return data


def _index(path: Path, raw: bytes) -> Index:
    try:
        said = json.loads(raw)["format"]
    except (ValueError, TypeError, KeyError, RecursionError) as exc:
        raise BackupInvalid(f"{path} is a zip, but no backup: {INDEX} is not an index") from exc
    if said != FORMAT:
        raise BackupInvalid(
            f"{path} is of format {said!r}, this release reads {FORMAT!r}; restore it with the "
            "release that made it"
        )
    return parse(Index, raw, member=INDEX)


def _check_members(path: Path, file: zipfile.ZipFile, index: Index) -> None:
    """Every member is there, nothing else is, and each is what was written."""
    there = set(file.namelist()) - {INDEX}
    if there != set(index.members):
        odd = sorted(there ^ set(index.members))[0]
        lacks = "lacks" if odd in index.members else "has an unlisted"
        raise BackupInvalid(f"{path} {lacks} {odd}; it was altered or cut off")
    for name, entry in index.members.items():
        with _whole(path):
            found = hashlib.sha256(_read(file, name, MAX_MEMBER_BYTES)).hexdigest()
        if found != entry.sha256:
            raise BackupInvalid(f"{path}: {name} is not what was written; use another copy")
    wanted = {f"models/{m}/{n}" for m in index.models for n in _OF_EVERY_MODEL}
    strays = {m["model"] for n in there if (m := MEMBER.fullmatch(n))} - set(index.models)
    if not wanted <= there or strays:
        raise BackupInvalid(f"{path} does not hold the models that it says it does")
