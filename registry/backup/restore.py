"""Makes an empty tracking server hold what a backup has.

The ledger comes last and all at once, so nobody ever reads a ledger whose evidence or versions are
not there yet. Everything before it may be repeated: a restore that was killed goes on by running it
again, known by the mark that the registered model carries until it is whole.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from registry import ledger as ledgers
from registry.backup.archive import Archive
from registry.backup.facts import LedgerFacts, ModelFacts, VersionFacts
from registry.backup.vault import Vault
from registry.errors import BackupInvalid, NotFound, RecordConflict
from registry.manifest import Manifest
from registry.model import Tag


class Ending(enum.StrEnum):
    """What came of one model."""

    RESTORED = "restored"
    """It is there now."""
    ALREADY_THERE = "already there"
    """The server held the very same; nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """One model after a restore."""

    model: str
    ending: Ending
    items: int
    versions: int
    runs: int
    problems: tuple[str, ...]
    """What is missing all the same: versions left out of the backup, weights that are not had."""
    weightless: bool
    """Whether weights are among what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Whole:
    """One model of a backup, read and found consistent."""

    facts: ModelFacts
    ledger: LedgerFacts
    versions: tuple[VersionFacts, ...]

    @property
    def digests(self) -> dict[int, str]:
        return {v.version: v.tags.get(Tag.DIGEST, "") for v in self.versions}

    def without_left_out(self, digests: Mapping[int, str]) -> dict[int, str]:
        """A server's versions without those that the backup could not take."""
        return {n: d for n, d in digests.items() if n not in self.facts.left_out}

    @property
    def last_number(self) -> int:
        """The highest number that was ever given, as far as the backup knows."""
        named = [n for n in self.ledger.values("version") if isinstance(n, int)]
        return max([0, *named, *self.digests, *self.facts.left_out])


def restore(
    archive: Archive,
    vault: Vault,
    models: Sequence[str],
    *,
    note: Callable[[str], None] = lambda text: None,
) -> tuple[Restored, ...]:
    """Restores models, each of them only where nothing of it is there.

    Nothing is written before every model was found consistent and free to be restored.

    Raises:
        BackupInvalid: the backup contradicts itself.
        NotFound: a model is not in the backup.
        RecordConflict: a model is there already and is another one.
        RecordUnavailable: the server did not answer; run it again.
    """
    absent = sorted(set(models) - set(archive.index.models))
    if absent:
        known = ", ".join(archive.index.models) or "none"
        raise NotFound(f"{', '.join(absent)} is not in {archive.path}; it holds: {known}")
    whole = {model: _read(archive, model) for model in models}
    to_write = {m: not _is_there(archive, vault, m, found) for m, found in whole.items()}
    return tuple(
        _restore(archive, vault, found, note=note) if to_write[m] else _found(vault, found)
        for m, found in whole.items()
    )


def _read(archive: Archive, model: str) -> _Whole:
    found = _Whole(
        facts=archive.model(model),
        ledger=archive.ledger(model),
        versions=archive.versions(model),
    )
    try:
        ledgers.parse(found.ledger.params)
    except RecordConflict as exc:
        raise BackupInvalid(f"{archive.path}: the ledger of {model} is broken: {exc}") from exc
    for version in found.versions:
        _check(archive, model, version)
    strays = {a: n for a, n in found.facts.aliases.items() if n not in found.digests}
    if strays := {a: n for a, n in strays.items() if n not in found.facts.left_out}:
        raise BackupInvalid(f"{archive.path}: aliases of {model} without their versions: {strays}")
    return found


def _check(archive: Archive, model: str, version: VersionFacts) -> None:
    where = f"{archive.path}: version {version.version} of {model}"
    try:
        manifest = Manifest.from_json(version.manifest)
    except ValueError as exc:
        raise BackupInvalid(f"{where} has no valid manifest: {exc}") from exc
    tagged = version.tags.get(Tag.DIGEST)
    if manifest.digest != tagged:
        raise BackupInvalid(f"{where} is tagged {tagged}, its manifest says {manifest.digest}")


def _is_there(archive: Archive, vault: Vault, model: str, found: _Whole) -> bool:
    """True where the server holds the very same, False where nothing, or a part of this restore.

    Raises:
        RecordConflict: it holds something else.
    """
    begun = vault.unfinished(model)
    if begun == archive.digest:
        return False
    if begun is not None:
        raise RecordConflict(
            f"{model} is being restored from another backup ({begun}) on {vault.address}; go on "
            "with that one, or restore onto a server without this model"
        )
    here, digests = vault.ledger(model), vault.digests(model)
    exists = vault.model(model) is not None
    if not exists and not here.items:
        return False
    same_versions = found.without_left_out(digests) == found.digests
    is_whole = exists or not found.digests  # without versions there is no registered model
    if here.params == found.ledger.params and same_versions and is_whole:
        return True
    raise RecordConflict(
        f"{model} is on {vault.address} already and is not what the backup holds: "
        f"{len(here.items)} ledger items and {_numbers(digests)} there, "
        f"{len(found.ledger.items)} and {_numbers(found.digests)} in the backup. Nothing was "
        "changed; restore onto a server without this model"
    )


def _numbers(digests: Mapping[int, str]) -> str:
    numbers = ", ".join(str(n) for n in sorted(digests))
    return f"versions {numbers}" if numbers else "no version"


def _restore(
    archive: Archive, vault: Vault, found: _Whole, *, note: Callable[[str], None]
) -> Restored:
    model = found.facts.model
    if vault.unfinished(model) is None:
        vault.begin(model, archive.digest)
    runs = archive.runs(model)
    for run in runs:
        note(f"{model}: run {run.name}")
        vault.put_run(model, run, functools.partial(archive.text, model, run))
    versions = {v.version: v for v in found.versions}
    for number in range(vault.reached(model) + 1, found.last_number + 1):
        note(f"{model}: version {number}")
        if number in versions:
            vault.put_version(model, versions[number])
        else:
            vault.skip_version(model, number)
    note(f"{model}: ledger")
    if found.ledger.items:
        vault.put_ledger(model, found.ledger)
    _compare(vault, found)
    vault.finish(found.facts, archive.digest)
    return _told(vault, found, Ending.RESTORED, len(runs))


def _compare(vault: Vault, found: _Whole) -> None:
    """What the server says it holds now, before the mark is taken away."""
    model = found.facts.model
    if vault.ledger(model).params != found.ledger.params:
        raise RecordConflict(f"{vault.address} did not keep the ledger of {model} as it was given")
    digests = dict(vault.digests(model))
    if digests != found.digests:
        raise RecordConflict(
            f"{vault.address} holds {_numbers(digests)} of {model} after the restore, the backup "
            f"{_numbers(found.digests)}; somebody else registers there, or it numbers differently"
        )


def _found(vault: Vault, found: _Whole) -> Restored:
    return _told(vault, found, Ending.ALREADY_THERE, 0)


def _told(vault: Vault, found: _Whole, ending: Ending, runs: int) -> Restored:
    model = found.facts.model
    problems = [
        f"version {number} of {model} was not in the backup: {reason}"
        for number, reason in sorted(found.facts.left_out.items())
    ]
    faults = {v.version: vault.weights_fault(model, v.version) for v in found.versions}
    problems += [
        f"weights of version {number} of {model}: {fault}"
        for number, fault in faults.items()
        if fault is not None
    ]
    return Restored(
        model=model,
        ending=ending,
        items=len(found.ledger.items),
        versions=len(found.versions),
        runs=runs,
        problems=tuple(problems),
        weightless=any(fault is not None for fault in faults.values()),
    )
