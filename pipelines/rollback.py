"""Going back, and bringing back: the same switch as a promotion's, to a version that has served.

A version is served again with the settings it was promoted with (engine, replicas, resources).
They lie on the run that its ledger entry names; settings given by hand win.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipelines import config as configs
from pipelines import local, ownership, records, recovery, switch_record
from pipelines.config import SETTINGS_FILE, PromotionConfig
from pipelines.errors import ConfigInvalid, NothingToServe
from pipelines.ownership import Owned, Timing
from pipelines.place import Place
from pipelines.rollout import Terms
from pipelines.stage import Stages, evidence_closed
from pipelines.switch import Switch, SwitchResult
from registry import cache
from registry.errors import NotFound, RecordConflict
from registry.ledger import Kind, LedgerEntry, Log
from registry.model import ModelVersion, Tag
from registry.store import Record
from serving.plane import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What serves now."""

    entry: LedgerEntry
    switched: SwitchResult


def rollback(
    target: LedgerEntry,
    config: PromotionConfig,
    place: Place,
    *,
    reason: str,
    timing: Timing | None = None,
) -> Restored:
    """Puts an earlier champion back in charge, in one step.

    Args:
        target: the ledger entry to go back to, from `target_of`.
        config: model, rollout limits and resources, from `settings_of`.
        reason: written into the ledger.

    Raises:
        OwnedByAnother: another command works on the model.
        ServingError, RolloutReverted: it did not come up; what served still does.
    """
    records.check_reason(reason)
    model = config.model
    what = f"roll back to version {target.version}"
    with ownership.owned(place, model, what, timing=timing) as mine:
        recovery.tidy(place, mine)
        restored = _rollback(target, config, place, mine, reason)
        local.keep_quietly(place, model)
    return restored


def _rollback(
    target: LedgerEntry, config: PromotionConfig, place: Place, mine: Owned, reason: str
) -> Restored:
    model, evidence = config.model, place.record.evidence
    log = place.record.ledger.read(model)
    version = _pinned(place, model, target)
    run_id = evidence.open(
        model, f"rollback to version {target.version}", {Tag.STAGE: "rollback"}, None
    )
    evidence.text(run_id, SETTINGS_FILE, config.to_yaml())
    change = records.Change(
        kind=Kind.ROLLBACK,
        policy_digest=target.policy_digest,
        evidence_run=run_id,
        actor=place.actor,
        reason=reason,
        now=place.now,
        entries_seen=len(log.entries),
        epoch=mine.epoch,
        runtime_digest=target.runtime_digest,
    )
    with evidence_closed(evidence, run_id):
        switched = _switch(config, place, version, change, mine)
    written = place.record.ledger.read(model).champion
    assert written is not None, "a rollback has just been entered"
    return Restored(entry=written, switched=switched)


def restore(
    entry: LedgerEntry, config: PromotionConfig, place: Place, *, timing: Timing | None = None
) -> Restored:
    """Brings up what the ledger says is in charge, for example after a reboot; enters nothing."""
    model = config.model
    what = f"serve version {entry.version}"
    with ownership.owned(place, model, what, timing=timing) as mine:
        recovery.tidy(place, mine)
        version = _pinned(place, model, entry)
        terms = Terms(policy=config.rollout, slo=config.slo).at_once()
        switched = Switch(place.plane(mine.epoch), terms, note=place.progress.note).to(
            version, _nothing, in_charge=lambda: records.in_charge(place.record, model)
        )
        records.reconcile(place.record, model)
        local.keep_quietly(place, model)
    return Restored(entry=entry, switched=switched)


def champion_of(record: Record, model: str) -> LedgerEntry:
    """The ledger entry that is in charge.

    Raises:
        NothingToServe: nothing was ever promoted.
    """
    return _champion(record.ledger.read(model), model)


def _champion(log: Log, model: str) -> LedgerEntry:
    if log.champion is None:
        raise NothingToServe(
            f"nothing was promoted to {model} yet; run "
            f"`liftlock promote CHECKPOINT --model {model}`"
        )
    return log.champion


def interrupted(record: Record, model: str, to: int | None) -> LedgerEntry | None:
    """The rollback that was entered by a command that never ended, if this asks for the same.

    Running it again must finish it (`restore`), not go back one version more.
    """
    log = record.ledger.read(model)
    last, claim = log.champion, log.claim
    if last is None or claim is None or last.kind is not Kind.ROLLBACK:
        return None
    if last.epoch != claim.epoch or to not in (None, last.version):
        return None
    has_ended = record.ledger.beats(model).get(claim.epoch, "").endswith(ownership.RELEASED)
    return None if has_ended else last


def target_of(record: Record, model: str, to: int | None) -> LedgerEntry:
    """The ledger entry to go back to.

    Args:
        to: the version; None takes what served before.

    Raises:
        NothingToServe: there is none before, or that version never served or serves already.
    """
    log = record.ledger.read(model)
    now, entries = _champion(log, model), log.entries
    if to is None:
        before = log.previous
        if before is None:
            raise NothingToServe(
                f"version {now.version} is the first that served {model}; there is none before it"
                f"{records.others(entries, now.version)}"
            )
        return before
    served = log.newest_of(to)
    if served is None:
        known = sorted({e.version for e in entries})
        raise NothingToServe(
            f"version {to} never served {model}, so it is not something to roll back to; "
            f"these did: {known}. Promote it instead"
        )
    if now.version == to:
        raise NothingToServe(f"version {to} of {model} is in charge already")
    return served


def settings_of(record: Record, model: str, entry: LedgerEntry) -> PromotionConfig:
    """The settings that a ledger entry was made with.

    Raises:
        ConfigInvalid: they are gone or cannot be read; give them with --config.
    """
    try:
        stored = record.evidence.read(entry.evidence_run, SETTINGS_FILE)
    except NotFound as exc:
        raise ConfigInvalid(
            f"the settings that version {entry.version} of {model} was promoted with are not on "
            f"run {entry.evidence_run} any more; give them with --config"
        ) from exc
    return configs.parse_text(stored, source=f"{SETTINGS_FILE} of {entry.evidence_run}")


def _nothing(answer: Answer) -> None:
    """Restoring changes what runs, not what is in charge."""


def _switch(
    config: PromotionConfig,
    place: Place,
    version: ModelVersion,
    change: records.Change,
    mine: Owned,
) -> SwitchResult:
    terms = Terms(policy=config.rollout, slo=config.slo).at_once()
    stages = Stages(
        model=config.model,
        run_id=change.evidence_run,
        evidence=place.record.evidence,
        progress=place.progress,
        enter=mine.enter,
    )
    return switch_record.recorded(
        stages,
        lambda note, keep: Switch(
            place.plane(mine.epoch), terms, note=note, keep=keep, check=mine.check
        ).to(
            version,
            lambda _: records.commit(place.record, version, change, note),
            in_charge=lambda: records.in_charge(place.record, config.model),
        ),
    )


def _pinned(place: Place, model: str, entry: LedgerEntry) -> ModelVersion:
    """The version with the very bytes that served, in the local cache."""
    version = place.record.versions.get(model, entry.version)
    if version.digest != entry.digest:
        raise RecordConflict(
            f"version {entry.version} of {model} has digest {version.digest}, the ledger says "
            f"{entry.digest}; it is not what served before"
        )
    cache.fetch(place.record.versions, version, place.cache)
    return version
