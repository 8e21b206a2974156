"""Going back, and bringing back: the same switch as a promotion's, to a version that has served."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from pipelines import records
from pipelines.config import PromotionConfig
from pipelines.place import Place
from pipelines.promotion import describe_switch
from pipelines.stage import Stages
from pipelines.switch import Switch, SwitchResult
from registry import cache, ledger
from registry.errors import NotFound, RecordConflict
from registry.ledger import Kind, LedgerEntry
from registry.model import ModelVersion, Tag
from serving.plane import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What serves now."""

    entry: LedgerEntry
    switched: SwitchResult


def rollback(config: PromotionConfig, place: Place, *, to: int | None, reason: str) -> Restored:
    """Puts an earlier champion back in charge, in one step.

    Args:
        config: model, rollout limits and resources.
        to: the version; None takes what served before.
        reason: written into the ledger.

    Raises:
        NotFound: nothing to go back to, or that version never served.
        ServingError, RolloutReverted: it did not come up; what served still does.
    """
    model = config.model
    entries = place.record.ledger.entries(model)
    target = _target(model, entries, to)
    version = _pinned(place, model, target)
    run_id = place.record.evidence.open(
        model, f"rollback to version {target.version}", {Tag.STAGE: "rollback"}, None
    )
    change = records.Change(
        kind=Kind.ROLLBACK,
        policy_digest=target.policy_digest,
        evidence_run=run_id,
        actor=place.actor,
        reason=reason,
        at=place.now(),
    )
    done = False
    try:
        switched = _switch(config, place, version, run_id, change)
        done = True
    finally:
        place.record.evidence.close(run_id, failed=not done, tags={})
    entry = ledger.champion(place.record.ledger.entries(model))
    assert entry is not None, "a rollback has just been entered"
    return Restored(entry=entry, switched=switched)


def restore(config: PromotionConfig, place: Place) -> Restored:
    """Brings up what the ledger says is in charge, for example after a reboot; enters nothing.

    Raises:
        NotFound: nothing was ever promoted.
    """
    entries = place.record.ledger.entries(config.model)
    entry = ledger.champion(entries)
    if entry is None:
        raise NotFound(
            f"nothing was promoted to {config.model} yet; run "
            f"`liftlock promote CHECKPOINT --model {config.model}`"
        )
    version = _pinned(place, config.model, entry)
    policy = dataclasses.replace(config.rollout, steps=(100,))
    switched = Switch(place.plane(), policy, note=place.progress.note).to(version, _nothing)
    records.reconcile(place.record, config.model)
    return Restored(entry=entry, switched=switched)


def _nothing(answer: Answer) -> None:
    """Restoring changes what runs, not what is in charge."""


def _switch(
    config: PromotionConfig,
    place: Place,
    version: ModelVersion,
    run_id: str,
    change: records.Change,
) -> SwitchResult:
    # One step: the version has served before, and whoever rolls back is in a hurry.
    policy = dataclasses.replace(config.rollout, steps=(100,), bake_s=0.0)
    stages = Stages(
        model=config.model,
        run_id=run_id,
        evidence=place.record.evidence,
        progress=place.progress,
    )
    return stages.live(
        "rollout",
        lambda note: Switch(place.plane(), policy, note=note).to(
            version, lambda _: records.commit(place.record, version, change)
        ),
        describe_switch,
    )


def _target(model: str, entries: tuple[LedgerEntry, ...], to: int | None) -> LedgerEntry:
    now = ledger.champion(entries)
    if now is None:
        raise NotFound(f"nothing was promoted to {model} yet, so there is nothing to roll back")
    if to is None:
        before = ledger.previous(entries)
        if before is None:
            raise NotFound(
                f"version {now.version} is the first that served {model}; there is none before it"
            )
        return before
    served = [e for e in entries if e.version == to]
    if not served:
        known = sorted({e.version for e in entries})
        raise NotFound(
            f"version {to} never served {model}, so it is not something to roll back to; "
            f"these did: {known}. Promote it instead"
        )
    if now.version == to:
        raise NotFound(f"version {to} of {model} is in charge already; nothing to roll back")
    return served[-1]


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
