"""Reads a tracking server into a backup file.

The ledger is read first: whatever it names was there before it, so a promotion that goes on
meanwhile cannot leave the backup with an entry whose version or evidence is missing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from registry import ledger as ledgers
from registry.backup import writer
from registry.backup.archive import Archive
from registry.backup.facts import LedgerFacts, ModelFacts, RunFacts, VersionFacts
from registry.backup.layout import Index
from registry.backup.vault import Source
from registry.errors import NotFound, RecordConflict
from registry.model import Tag

GATE_RUN_PARAM = "gate_run"
"""On a promotion's run: the stage that holds the verdict and the report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """How much was taken of one model."""

    model: str
    items: int
    versions: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A backup file that was written, read again and found whole."""

    path: Path
    digest: str
    """Names this very backup; a restored model carries it."""
    size_bytes: int
    parts: tuple[Part, ...]
    problems: tuple[str, ...]
    """What could not be taken."""


def take(
    source: Source,
    path: Path,
    models: Sequence[str],
    *,
    now: str,
    note: Callable[[str], None] = lambda text: None,
) -> Taken:
    """Backs models up.

    Raises:
        FileExistsError: the file is there already.
        RegistryError: the server did not answer, or a ledger is broken.
    """
    parts: list[Part] = []
    problems: list[str] = []
    with writer.writing(path) as out:
        for model in models:
            note(f"reading {model}")
            job = _Job(source=source, model=model, out=out, problems=problems)
            parts.append(job.run())
        out.finish(
            Index(
                made_at=now,
                source=source.address,
                members={},
                models=tuple(models),
                problems=tuple(problems),
            )
        )
    with Archive.open(path) as archive:
        digest = archive.digest
    return Taken(
        path=path,
        digest=digest,
        size_bytes=path.stat().st_size,
        parts=tuple(parts),
        problems=tuple(problems),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    source: Source
    model: str
    out: writer.Writer
    problems: list[str]

    def run(self) -> Part:
        ledger = self.source.ledger(self.model)
        ledgers.parse(ledger.params)  # what is broken already is not worth keeping
        facts = self.source.model(self.model)
        found, left_out = self._versions()
        if facts is None:
            facts = ModelFacts(model=self.model, description="", tags={}, aliases={})
        self.out.model(dataclasses.replace(facts, left_out=left_out))
        self.out.ledger(self.model, ledger)
        for version in found:
            self.out.version(self.model, version)
        runs = self._runs(ledger, found)
        return Part(model=self.model, items=len(ledger.items), versions=len(found), runs=len(runs))

    def _versions(self) -> tuple[list[VersionFacts], dict[int, str]]:
        found: list[VersionFacts] = []
        left_out: dict[int, str] = {}
        for number in sorted(self.source.digests(self.model)):
            try:
                found.append(self.source.version(self.model, number))
            except (NotFound, RecordConflict) as exc:
                left_out[number] = str(exc)
                self.problems.append(f"version {number} of {self.model} is left out: {exc}")
        return found, left_out

    def _runs(self, ledger: LedgerFacts, versions: Sequence[VersionFacts]) -> set[str]:
        """The runs that entries and versions name, and those that these hang on."""
        named = [str(run) for run in ledger.values("evidence_run")]
        wanted = list(dict.fromkeys(named))
        for version in versions:
            also = (version.run_id, version.tags.get(Tag.GATE_RUN))
            wanted += [run_id for run_id in also if run_id]
        taken: set[str] = set()
        seen: set[str] = set()
        while wanted:
            run_id = wanted.pop(0)
            if run_id in seen:
                continue
            seen.add(run_id)
            run = self.source.run(run_id)
            if run is None:
                self.problems.append(
                    f"run {run_id}, evidence of {self.model}, is gone from the server"
                )
                continue
            self._run(run)
            taken.add(run_id)
            wanted += [r for r in (run.params.get(GATE_RUN_PARAM), run.parent) if r]
        return taken

    def _run(self, run: RunFacts) -> None:
        texts: dict[str, bytes] = {}
        for name in run.texts:
            try:
                texts[name] = self.source.text(run.run_id, name).encode()
            except NotFound as exc:
                self.problems.append(f"{name} of run {run.run_id}: {exc}")
        self.out.run(self.model, dataclasses.replace(run, texts=tuple(texts)), texts)
