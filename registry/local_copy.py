"""What going back needs when there is no MLflow: a copy of the record's facts on this disk.

    ledger.jsonl         the model's log, each item as MLflow stores it, and a last line that
                         says how many there are
    versions/7.json      a version that is or was in charge: digest, manifest, tags, source
    settings/000012.yaml the settings that the log's item 12 was made with
    rollbacks.jsonl      rollbacks made without the record, until they are entered into it

Files are replaced in one step. What is loaded has been checked: the log by its hash chain, a
version by its digest, everything by checksums, so that damage is an error and never a wrong answer.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from registry import ledger
from registry.errors import JournalBroken, NotFound, RecordConflict
from registry.ledger import Log
from registry.lines import Lines, write_whole
from registry.manifest import Manifest
from registry.model import ModelVersion

CHECK = "# sha256:"


class Damaged(RecordConflict):
    """A kept file is not what was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRollback:
    """A rollback that was made without the record, to be entered into it."""

    version: int
    digest: str
    actor: str
    reason: str
    at: str
    """UTC, ISO 8601, to the second."""
    epoch: int
    """The owner's, higher than any that the edge had seen."""
    ledger_seen_hash: str
    """Hash of the last item of the log that was known; another one means that it went on."""


class LocalRollbacks:
    """The rollbacks that the record does not know of yet, oldest first."""

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path)

    def add(self, rollback: LocalRollback) -> None:
        """Keeps one; when this returns it is on the disk."""
        with self._lines.locked():
            self._lines.append(dataclasses.asdict(rollback))

    def all(self) -> tuple[LocalRollback, ...]:
        """Those that have not been entered."""
        lines = self._lines.read()
        try:
            return tuple(LocalRollback(**line) for line in lines)
        except TypeError as exc:
            raise JournalBroken(f"{self._lines.path} is of another release: {exc}") from exc

    def settle(self, rollback: LocalRollback) -> None:
        """Takes one out, once it is in the record; one that is out already is fine."""
        with self._lines.locked():
            left = list(self.all())
            if rollback in left:
                left.remove(rollback)
                self._lines.replace(dataclasses.asdict(r) for r in left)


class LocalCopy:
    """The copy of one model, in a folder of its own such as `home/journal/<model>/copy`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rollbacks = LocalRollbacks(folder / "rollbacks.jsonl")
        self._log = folder / "ledger.jsonl"

    def save_log(self, log: Log) -> None:
        """Keeps the log as it is in the record now. An older state than the kept one is ignored.

        Raises:
            RecordConflict: it is not the one that was kept before.
        """
        lines = [item.to_json() for item in log.items]
        kept: list[str] | None = None
        with contextlib.suppress(Damaged):  # a damaged copy is made again
            kept = self._kept_lines()
        if kept is None:
            write_whole(self._log, _with_end(lines))
            return
        shorter = min(len(lines), len(kept))
        if lines[:shorter] != kept[:shorter]:
            raise RecordConflict(
                f"the log in MLflow is not the one that was kept in {self._log}: an item before "
                f"number {shorter + 1} differs. If MLflow is right (it was restored, say), move "
                "that file away and run the same command again"
            )
        if len(lines) > len(kept):
            write_whole(self._log, _with_end(lines))

    def load_log(self) -> Log:
        """The log as it was kept last.

        Raises:
            NotFound: none was kept on this machine.
            RecordConflict: it is damaged, or its hash chain is broken.
        """
        lines = self._kept_lines()
        if lines is None:
            raise NotFound(
                f"no log of the model is kept in {self.folder}; it is kept by every command on "
                "this machine that reads MLflow"
            )
        return ledger.parse_lines("".join(f"{line}\n" for line in lines))

    def save_version(self, version: ModelVersion) -> None:
        """Keeps a version."""
        fields = {
            "model": version.model,
            "version": version.version,
            "digest": version.digest,
            "source": version.source,
            "model_id": version.model_id,
            "manifest": version.manifest.to_json(),
            "tags": {str(k): v for k, v in version.tags.items()},
        }
        Lines(self._version_path(version.version)).replace([fields])

    def load_version(self, number: int) -> ModelVersion:
        """A version as it was kept.

        Raises:
            NotFound: it was not kept on this machine.
            JournalBroken, RecordConflict: it is damaged, or its digest is not its manifest's.
        """
        path = self._version_path(number)
        lines = Lines(path).read()
        if not lines:
            raise NotFound(f"version {number} is not kept in {path.parent}")
        fields = lines[0]
        try:
            manifest = Manifest.from_json(fields["manifest"])
            version = ModelVersion(**{**fields, "manifest": manifest})
        except (KeyError, TypeError, ValueError) as exc:
            raise RecordConflict(f"{path} cannot be used: {exc}") from exc
        if (version.version, version.digest) != (number, manifest.digest):
            raise RecordConflict(
                f"{path} says version {version.version} with digest {version.digest}, but its "
                f"manifest has {manifest.digest}; it was altered, do not serve it"
            )
        return version

    def save_settings(self, seq: int, text: str) -> None:
        """Keeps the settings that an item of the log was made with."""
        write_whole(self._settings_path(seq), f"{_check_line(text)}\n{text}".encode())

    def load_settings(self, seq: int) -> str:
        """Those settings.

        Raises:
            NotFound: they were not kept on this machine.
            RecordConflict: they were altered.
        """
        path = self._settings_path(seq)
        content = _read(path)
        if content is None:
            raise NotFound(f"the settings of log item {seq} are not kept in {path.parent}")
        check, _, text = content.partition("\n")
        if check != _check_line(text):
            raise Damaged(f"{path} is not what was kept: its checksum is wrong")
        return text

    def _kept_lines(self) -> list[str] | None:
        content = _read(self._log)
        if content is None:
            return None
        *lines, end, last = ["", *content.split("\n")]
        if last or end != _end(lines[1:]):
            raise Damaged(
                f"{self._log} is not what was kept: it was cut or altered; it is made again by the "
                "next command that reads MLflow"
            )
        return lines[1:]

    def _version_path(self, number: int) -> Path:
        return self.folder / "versions" / f"{number}.json"

    def _settings_path(self, seq: int) -> Path:
        return self.folder / "settings" / f"{seq:06d}.yaml"


def _with_end(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in [*lines, _end(lines)]).encode()


def _end(lines: list[str]) -> str:
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    return json.dumps({"items": len(lines), "sha256": digest})


def _check_line(text: str) -> str:
    return CHECK + hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise JournalBroken(f"reading {path} failed: {exc.strerror or exc}") from exc
    except UnicodeDecodeError as exc:
        raise Damaged(f"{path} is not what was kept: {exc}") from exc
