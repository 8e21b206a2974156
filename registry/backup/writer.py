"""Writes a backup file, which appears whole or not at all."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from registry.backup.facts import LedgerFacts, ModelFacts, RunFacts, VersionFacts, to_json
from registry.backup.layout import INDEX, MAX_MEMBER_BYTES, MEMBER, Entry, Index


@dataclass
class Writer:
    """Writes members one by one; the index comes last."""

    file: zipfile.ZipFile
    members: dict[str, Entry] = field(default_factory=dict)

    def model(self, facts: ModelFacts) -> None:
        """The registered model."""
        self.add(f"models/{facts.model}/model.json", to_json(facts))

    def ledger(self, model: str, facts: LedgerFacts) -> None:
        """The ledger: its items as they are stored, one a line, and the rest beside them."""
        self.add(f"models/{model}/ledger.jsonl", "".join(f"{i}\n" for i in facts.items).encode())
        self.add(f"models/{model}/ledger.json", to_json(facts.head))

    def version(self, model: str, facts: VersionFacts) -> None:
        """One version."""
        self.add(f"models/{model}/versions/{facts.version}.json", to_json(facts))

    def run(self, model: str, facts: RunFacts, texts: Mapping[str, bytes]) -> None:
        """One run and its text artifacts."""
        folder = f"models/{model}/runs/{facts.run_id}"
        self.add(f"{folder}.json", to_json(facts))
        for name, data in texts.items():
            self.add(f"{folder}/{name}", data)

    def add(self, name: str, data: bytes) -> None:
        """One member; a second one of the same name is a mistake of the caller."""
        if name in self.members or not MEMBER.fullmatch(name):
            raise ValueError(f"{name!r} is no name for another member of a backup")
        if len(data) > MAX_MEMBER_BYTES:
            raise ValueError(f"{name} has {len(data)} bytes, at most {MAX_MEMBER_BYTES} fit")
        self.members[name] = entry_of(data)
        _put(self.file, name, data)

    def finish(self, index: Index) -> None:
        """The index, last."""
        _put(self.file, INDEX, to_json(dataclasses.replace(index, members=self.members)))


@contextlib.contextmanager
def writing(path: Path) -> Iterator[Writer]:
    """A writer whose file appears under `path` when the block ends well, or not at all.

    Raises:
        FileExistsError: there is a file already.
    """
    _refuse_existing(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as raw:
            with zipfile.ZipFile(raw, "w") as file:
                yield Writer(file=file)
            raw.flush()
            os.fsync(raw.fileno())
        _refuse_existing(path)
        part.rename(path)
    finally:
        part.unlink(missing_ok=True)


def _refuse_existing(path: Path) -> None:
    if path.exists():
        raise FileExistsError(f"{path} exists already; choose another name")


def entry_of(data: bytes) -> Entry:
    """What the index says of a member."""
    return Entry(sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data))


def _put(file: zipfile.ZipFile, name: str, data: bytes) -> None:
    info = zipfile.ZipInfo(name)  # a fixed date, so that the same content is the same file
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o600 << 16
    file.writestr(info, data)
