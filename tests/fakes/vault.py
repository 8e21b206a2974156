"""A tracking server in memory, as a backup reads it and a restore writes it.

Each change is a step, and `dies_after` ends the process before a step, as a kill would.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from registry.backup.facts import (
    LedgerFacts,
    LedgerHead,
    LoggedFacts,
    ModelFacts,
    RunFacts,
    VersionFacts,
)
from registry.checkpoint import inspect
from registry.errors import NotFound, RecordConflict
from registry.ledger import Kind, Log, MarkKind
from registry.model import Tag
from tests.fakes import checkpoints

NOW = "2026-11-29T17:00:00Z"


class Killed(BaseException):
    """The process is gone."""


@dataclass
class MemoryVault:
    """`registry.backup.vault.Vault` in memory."""

    address: str = "memory:"
    models: dict[str, ModelFacts] = field(default_factory=dict)
    marks: dict[str, str] = field(default_factory=dict)
    ledgers: dict[str, LedgerFacts] = field(default_factory=dict)
    found: dict[str, dict[int, VersionFacts]] = field(default_factory=dict)
    given: dict[str, int] = field(default_factory=dict)
    runs: dict[str, RunFacts] = field(default_factory=dict)
    texts: dict[tuple[str, str], str] = field(default_factory=dict)
    unreadable: dict[int, str] = field(default_factory=dict)
    """Versions that cannot be read, with the reason."""
    faults: dict[int, str] = field(default_factory=dict)
    """Versions whose weights are not there, with the reason."""
    dies_after: int | None = None
    steps: int = 0

    def model(self, model: str) -> ModelFacts | None:
        return self.models.get(model)

    def ledger(self, model: str) -> LedgerFacts:
        return self.ledgers.get(model, LedgerFacts(head=LedgerHead(), items=()))

    def digests(self, model: str) -> Mapping[int, str]:
        return {n: v.tags.get(Tag.DIGEST, "") for n, v in sorted(self._found(model).items())}

    def version(self, model: str, version: int) -> VersionFacts:
        if version in self.unreadable:
            raise NotFound(self.unreadable[version])
        return self._found(model)[version]

    def run(self, run_id: str) -> RunFacts | None:
        return self.runs.get(run_id)

    def text(self, run_id: str, name: str) -> str:
        try:
            return self.texts[run_id, name]
        except KeyError as exc:
            raise NotFound(f"{name} of {run_id}") from exc

    def unfinished(self, model: str) -> str | None:
        return self.marks.get(model)

    def begin(self, model: str, digest: str) -> None:
        self._step()
        assert model not in self.models
        self.models[model] = ModelFacts(model=model, description="", tags={}, aliases={})
        self.marks[model] = digest

    def put_run(self, model: str, run: RunFacts, text: Callable[[str], str]) -> None:
        for name in run.texts:
            self._step()
            self.texts[run.run_id, name] = text(name)
        self._step()
        self.runs[run.run_id] = run

    def reached(self, model: str) -> int:
        return self.given.get(model, 0)

    def put_version(self, model: str, version: VersionFacts) -> None:
        self._step()
        self._next(model, version.version)
        self._found(model)[version.version] = version

    def skip_version(self, model: str, version: int) -> None:
        self._step()
        self._next(model, version)

    def put_ledger(self, model: str, ledger: LedgerFacts) -> None:
        self._step()
        self.ledgers[model] = ledger

    def finish(self, facts: ModelFacts, digest: str) -> None:
        self._step()
        kept = {a: n for a, n in facts.aliases.items() if n in self._found(facts.model)}
        self.models[facts.model] = dataclasses.replace(facts, aliases=kept, left_out={})
        self._step()
        del self.marks[facts.model]

    def weights_fault(self, model: str, version: int) -> str | None:
        return self.faults.get(version)

    def _found(self, model: str) -> dict[int, VersionFacts]:
        return self.found.setdefault(model, {})

    def _next(self, model: str, wanted: int) -> None:
        made = self.given.get(model, 0) + 1
        if made != wanted:
            raise RecordConflict(f"the server gave version {made} where {wanted} was to be")
        self.given[model] = made

    def _step(self) -> None:
        if self.dies_after is not None and self.steps >= self.dies_after:
            raise Killed
        self.steps += 1


def filled(folder: Path, model: str = "grammar") -> MemoryVault:
    """A server with versions 1, 2 and 4 (3 was deleted), of which 1 and 4 were promoted."""
    vault = MemoryVault()
    vault.found[model] = {n: version(folder / f"ck{n}", n) for n in (1, 2, 4)}
    vault.given[model] = 4
    vault.models[model] = ModelFacts(
        model=model, description="**Serving: version 4**", tags={"team": "writing"},
        aliases={"champion": 4, "previous": 1},
    )  # fmt: skip
    for number in (1, 4):
        add_run(vault, f"promotion{number}", gate_run=f"gate{number}")
        add_run(vault, f"gate{number}", parent=f"promotion{number}")
    for number in (1, 2, 4):
        add_run(vault, f"register{number}")
    log = Log().with_item(
        Log().mark(MarkKind.CLAIM, owner="p", actor="ana@host", reason="x", at=NOW, epoch=3)
    )
    for number in (1, 4):
        made = log.entry(
            Kind.PROMOTE, version=number,
            digest=vault.found[model][number].tags[Tag.DIGEST], policy_digest="sha256:p",
            evidence_run=f"promotion{number}", actor="ana@host", reason="all gates passed",
            at=NOW, epoch=3,
        )  # fmt: skip
        log = log.with_item(made)
    vault.ledgers[model] = LedgerFacts(
        head=LedgerHead(
            run_id="ledger-run",
            started_at_ms=1000,
            tags={"liftlock.ledger": model, "liftlock.beat.000003": "9 released"},
            keys=tuple(i.key for i in log.items),
        ),
        items=tuple(i.to_json() for i in log.items),
    )
    return vault


def version(folder: Path, number: int) -> VersionFacts:
    """A version whose files lie in `folder`."""
    manifest = inspect(checkpoints.make(folder, seed=number)).manifest
    return VersionFacts(
        version=number,
        tags={Tag.DIGEST.value: manifest.digest, Tag.GATE_RUN.value: f"gate{number}"}
        if number != 2
        else {Tag.DIGEST.value: manifest.digest},
        description=f"version {number}",
        run_id=f"register{number}",
        manifest=manifest.to_json(),
        storage=str(folder),
        logged=LoggedFacts(
            model_id=f"m-old{number}",
            name=f"ck{number}",
            model_type="checkpoint",
            params={"architecture": "LlamaForCausalLM"},
            tags={Tag.DIGEST.value: manifest.digest},
            mlmodel="flavors:\n  vllm: {weights: .}\nmodel_id: m-old\nrun_id: old\n",
        ),
    )


def add_run(vault: MemoryVault, run_id: str, *, parent: str | None = None, **params: str) -> None:
    """A finished run with two text artifacts."""
    vault.runs[run_id] = RunFacts(
        run_id=run_id, name=f"run {run_id}", parent=parent, status="FINISHED",
        started_at_ms=1_000_000 + len(vault.runs), ended_at_ms=2_000_000, params=params,
        tags={Tag.STAGE.value: "promotion"}, metrics={"rate": 0.99},
        texts=("promotion.yaml", "report.html"),
    )  # fmt: skip
    vault.texts[run_id, "promotion.yaml"] = f"model: grammar  # of {run_id}\n"
    vault.texts[run_id, "report.html"] = "<p>gr\u00fc\u00df dich</p>"
