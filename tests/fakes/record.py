"""The record in memory. Passes tests/registry/test_record_contract.py, as MLflow does."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from registry import ledger
from registry.checkpoint import Checkpoint
from registry.errors import NotFound, RecordConflict, RecordRefused
from registry.ledger import Item, Log
from registry.model import INTERRUPTED, ModelVersion, StageEvidence, Tag
from registry.store import Record, Registration


class MemoryVersions:
    def __init__(self) -> None:
        self.stored: dict[str, list[ModelVersion]] = {}
        self.files: dict[str, dict[str, bytes]] = {}
        """By digest and path; whoever registered a folder may remove it."""
        self.aliases: dict[str, dict[str, int]] = {}
        self.descriptions: dict[tuple[str, int | None], str] = {}
        self.uploads: dict[str, str] = {}
        """Model of each upload that has not become a version."""

    def register(self, model: str, checkpoint: Checkpoint, what: Registration) -> ModelVersion:
        found = self.find(model, checkpoint.digest)
        if found is not None:
            return found
        mine = self.stored.setdefault(model, [])
        if what.pointer is None:
            self._upload(model, checkpoint)
        made = ModelVersion(
            model=model,
            version=len(mine) + 1,
            digest=checkpoint.digest,
            source=f"models:/m-{len(mine) + 1}",
            model_id=f"m-{len(mine) + 1}",
            manifest=checkpoint.manifest,
            tags={**what.tags, Tag.DIGEST: checkpoint.digest},
        )
        mine.append(made)
        self.files[checkpoint.digest] = {
            entry.path: (checkpoint.directory / entry.path).read_bytes()
            for entry in checkpoint.manifest.files
        }
        return made

    def again(self, version: ModelVersion, tags: Mapping[str, str]) -> ModelVersion:
        for known in self.stored[version.model]:
            if known.digest == version.digest and tags.items() <= known.tags.items():
                return known
        mine = self.stored[version.model]
        made = dataclasses.replace(
            version,
            version=len(mine) + 1,
            tags={**version.tags, **{str(k): v for k, v in tags.items()}},
        )
        mine.append(made)
        return made

    def _upload(self, model: str, checkpoint: Checkpoint) -> None:
        upload = f"upload-{len(self.uploads) + 1}"
        self.uploads[upload] = model
        for entry in checkpoint.manifest.files:
            if not (checkpoint.directory / entry.path).is_file():
                raise RecordRefused(f"{entry.path} is gone")
        del self.uploads[upload]

    def sweep(self, model: str) -> tuple[str, ...]:
        swept = tuple(upload for upload, its in self.uploads.items() if its == model)
        for upload in swept:
            del self.uploads[upload]
        return swept

    def find(self, model: str, digest: str) -> ModelVersion | None:
        return next((v for v in self.stored.get(model, []) if v.digest == digest), None)

    def get(self, model: str, version: int) -> ModelVersion:
        found = [v for v in self.stored.get(model, []) if v.version == version]
        if not found:
            raise NotFound(f"no version {version} of {model}")
        return found[0]

    def download(self, version: ModelVersion, target: Path) -> None:
        for entry in version.manifest.files:
            (target / entry.path).parent.mkdir(parents=True, exist_ok=True)
            (target / entry.path).write_bytes(self.files[version.digest][entry.path])

    def tag(self, version: ModelVersion, tags: Mapping[str, str]) -> None:
        current = self.get(version.model, version.version)
        mine = self.stored[version.model]
        changed = dataclasses.replace(current, tags={**current.tags, **tags})
        mine[mine.index(current)] = changed

    def describe(self, model: str, version: int | None, text: str) -> None:
        self.descriptions[model, version] = text

    def mirror(self, model: str, aliases: Mapping[str, int | None]) -> None:
        mine = self.aliases.setdefault(model, {})
        for alias, version in aliases.items():
            if version is None:
                mine.pop(alias, None)
            else:
                mine[alias] = version


@dataclasses.dataclass
class MemoryRun:
    model: str
    name: str
    parent: str | None
    tags: dict[str, str]
    params: dict[str, str] = dataclasses.field(default_factory=dict)
    metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    points: set[tuple[str, float, int, str | None]] = dataclasses.field(default_factory=set)
    """Metrics as MLflow keeps them: the same key, value and time is the same point."""
    files: dict[str, Any] = dataclasses.field(default_factory=dict)
    status: str = "RUNNING"
    started_at_ms: int = 0
    ended_at_ms: int = 0


def _at(at_ms: int | None) -> int:
    return time.time_ns() // 1_000_000 if at_ms is None else at_ms


class MemoryEvidence:
    def __init__(self) -> None:
        self.runs: dict[str, MemoryRun] = {}
        self.now_ms = 1_893_456_000_000  # 2030-01-01
        self._ids = (f"run-{n}" for n in itertools.count(1))

    def open(
        self,
        model: str,
        name: str,
        tags: Mapping[str, str],
        parent: str | None,
        *,
        at_ms: int | None = None,
    ) -> str:
        run_id = next(self._ids)
        plain = {str(k): v for k, v in tags.items()}
        self.runs[run_id] = MemoryRun(
            model=model, name=name, parent=parent, tags=plain, started_at_ms=_at(at_ms)
        )
        return run_id

    def opened(self, model: str, journal_id: str) -> tuple[str, ...]:
        found = [
            run_id
            for run_id, run in self.runs.items()
            if (run.model, run.tags.get(Tag.JOURNAL)) == (model, journal_id)
        ]
        return tuple(sorted(found, key=lambda r: self.runs[r].started_at_ms))

    def drop(self, run_id: str) -> None:
        self.runs.pop(run_id, None)

    def resolve(self, run_id: str) -> str:
        return run_id

    def _run(self, run_id: str) -> MemoryRun:
        try:
            return self.runs[run_id]
        except KeyError as exc:
            raise NotFound(f"no run {run_id}") from exc

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        model_id: str | None = None,
        at_ms: int | None = None,
    ) -> None:
        run = self._run(run_id)
        for key, value in (params or {}).items():
            if run.params.setdefault(key, str(value)) != str(value):
                raise RecordConflict(f"param {key} is set already")
        run.metrics.update(metrics or {})
        at = _at(at_ms)
        run.points.update((k, float(v), at, model_id) for k, v in (metrics or {}).items())

    def text(self, run_id: str, name: str, content: str) -> None:
        self._run(run_id).files[name] = content

    def table(self, run_id: str, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        self._run(run_id).files[name] = {k: list(v) for k, v in columns.items()}

    def read(self, run_id: str, name: str) -> str:
        try:
            return str(self.runs[run_id].files[name])
        except KeyError as exc:
            raise NotFound(f"{name} of {run_id}") from exc

    def close(
        self,
        run_id: str,
        *,
        failed: bool = False,
        tags: Mapping[str, str],
        at_ms: int | None = None,
    ) -> None:
        run = self._run(run_id)
        run.status = "FAILED" if failed else "FINISHED"
        run.ended_at_ms = self.now_ms if at_ms is None else at_ms
        self.label(run_id, tags)

    def sweep(self, model: str) -> tuple[str, ...]:
        left = [r for r, run in self.runs.items() if (run.model, run.status) == (model, "RUNNING")]
        for run_id in left:
            self.runs[run_id].status = "KILLED"
            self.label(run_id, {Tag.ERROR: INTERRUPTED})
        return tuple(left)

    def label(self, run_id: str, tags: Mapping[str, str]) -> None:
        self._run(run_id).tags.update({str(k): v for k, v in tags.items()})

    def find(self, model: str, stage: str, inputs_digest: str) -> StageEvidence | None:
        for found in self._search(model, stage):
            status = self.runs[found.run_id].status
            if found.inputs_digest == inputs_digest and status == "FINISHED":
                return found
        return None

    def recent(self, model: str, stage: str, limit: int) -> tuple[StageEvidence, ...]:
        ended = (e for e in self._search(model, stage) if self.runs[e.run_id].status != "RUNNING")
        return tuple(itertools.islice(ended, limit))

    def _search(self, model: str, stage: str) -> Iterator[StageEvidence]:
        # The newest first; of those that started in the same millisecond, the one opened last.
        oldest = sorted(self.runs.items(), key=lambda r: r[1].started_at_ms)
        for run_id, run in reversed(oldest):
            if (run.model, run.tags.get(Tag.STAGE)) == (model, stage):
                yield StageEvidence(
                    run_id=run_id,
                    stage=stage,
                    inputs_digest=run.tags.get(Tag.INPUTS, ""),
                    params=run.params,
                    metrics=run.metrics,
                    tags=run.tags,
                    started_at_ms=run.started_at_ms,
                    ended_at_ms=run.ended_at_ms,
                )

    def url(self, run_id: str) -> str:
        return f"memory:{run_id}"


class MemoryLedger:
    def __init__(self) -> None:
        self.params: dict[str, dict[str, str]] = {}
        self.signs: dict[str, dict[int, str]] = {}

    def read(self, model: str) -> Log:
        return ledger.parse(self.params.get(model, {}))

    def append(self, model: str, item: Item) -> None:
        mine = self.params.setdefault(model, {})
        if mine.setdefault(item.key, item.to_json()) != item.to_json():
            raise RecordConflict(f"ledger entry {item.seq} of {model} was written first by another")

    def models(self) -> tuple[str, ...]:
        return tuple(sorted(self.params))

    def beat(self, model: str, epoch: int, text: str) -> None:
        self.signs.setdefault(model, {})[epoch] = text

    def beats(self, model: str) -> Mapping[int, str]:
        return dict(self.signs.get(model, {}))


def memory_record() -> Record:
    return Record(
        versions=MemoryVersions(),
        evidence=MemoryEvidence(),
        ledger=MemoryLedger(),
        address="memory:",
    )
