"""The record in memory. Passes tests/registry/test_record_contract.py, as MLflow does."""

from __future__ import annotations

import dataclasses
import itertools
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from registry import ledger
from registry.checkpoint import Checkpoint
from registry.errors import NotFound, RecordConflict
from registry.ledger import LedgerEntry
from registry.model import ModelVersion, StageEvidence, Tag
from registry.store import Record, Registration


class MemoryVersions:
    def __init__(self) -> None:
        self.stored: dict[str, list[ModelVersion]] = {}
        self.folders: dict[str, Path] = {}
        self.aliases: dict[str, dict[str, int]] = {}
        self.descriptions: dict[tuple[str, int | None], str] = {}

    def register(self, model: str, checkpoint: Checkpoint, what: Registration) -> ModelVersion:
        found = self.find(model, checkpoint.digest)
        if found is not None:
            return found
        mine = self.stored.setdefault(model, [])
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
        self.folders[checkpoint.digest] = checkpoint.directory
        return made

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
            shutil.copyfile(self.folders[version.digest] / entry.path, target / entry.path)

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
    files: dict[str, Any] = dataclasses.field(default_factory=dict)
    status: str = "RUNNING"


class MemoryEvidence:
    def __init__(self) -> None:
        self.runs: dict[str, MemoryRun] = {}
        self._ids = (f"run-{n}" for n in itertools.count(1))

    def open(self, model: str, name: str, tags: Mapping[str, str], parent: str | None) -> str:
        run_id = next(self._ids)
        plain = {str(k): v for k, v in tags.items()}
        self.runs[run_id] = MemoryRun(model=model, name=name, parent=parent, tags=plain)
        return run_id

    def log(
        self,
        run_id: str,
        *,
        params: Mapping[str, Any] | None = None,
        metrics: Mapping[str, float] | None = None,
        model_id: str | None = None,
    ) -> None:
        run = self.runs[run_id]
        for key, value in (params or {}).items():
            if run.params.setdefault(key, str(value)) != str(value):
                raise RecordConflict(f"param {key} is set already")
        run.metrics.update(metrics or {})

    def text(self, run_id: str, name: str, content: str) -> None:
        self.runs[run_id].files[name] = content

    def table(self, run_id: str, name: str, columns: Mapping[str, Sequence[Any]]) -> None:
        self.runs[run_id].files[name] = {k: list(v) for k, v in columns.items()}

    def read(self, run_id: str, name: str) -> str:
        try:
            return str(self.runs[run_id].files[name])
        except KeyError as exc:
            raise NotFound(f"{name} of {run_id}") from exc

    def close(self, run_id: str, *, failed: bool = False, tags: Mapping[str, str]) -> None:
        run = self.runs[run_id]
        run.status = "FAILED" if failed else "FINISHED"
        self.label(run_id, tags)

    def label(self, run_id: str, tags: Mapping[str, str]) -> None:
        self.runs[run_id].tags.update({str(k): v for k, v in tags.items()})

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
        for run_id, run in reversed(self.runs.items()):
            if (run.model, run.tags.get(Tag.STAGE)) == (model, stage):
                yield StageEvidence(
                    run_id=run_id,
                    stage=stage,
                    inputs_digest=run.tags.get(Tag.INPUTS, ""),
                    params=run.params,
                    metrics=run.metrics,
                    tags=run.tags,
                    started_at_ms=0,
                    ended_at_ms=0,
                )

    def url(self, run_id: str) -> str:
        return f"memory:{run_id}"


class MemoryLedger:
    def __init__(self) -> None:
        self.params: dict[str, dict[str, str]] = {}

    def entries(self, model: str) -> tuple[LedgerEntry, ...]:
        return ledger.parse(self.params.get(model, {}))

    def append(self, model: str, entry: LedgerEntry) -> None:
        mine = self.params.setdefault(model, {})
        if mine.setdefault(entry.key, entry.to_json()) != entry.to_json():
            raise RecordConflict(
                f"ledger entry {entry.seq} of {model} was written first by another"
            )


def memory_record() -> Record:
    return Record(
        versions=MemoryVersions(),
        evidence=MemoryEvidence(),
        ledger=MemoryLedger(),
        address="memory:",
    )
