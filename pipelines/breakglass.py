"""Going back without MLflow, and entering it there afterwards.

What is needed lies on this machine: a copy of the ledger, of every version that was in charge and
of the settings it was promoted with, and the weights in the cache. Serve and the edge refuse every
older owner from the moment the plane is opened; the ledger hears of it when it answers again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipelines import config as configs
from pipelines import local, records
from pipelines.config import SETTINGS_FILE, PromotionConfig
from pipelines.errors import NothingToServe
from pipelines.rollout import Terms
from pipelines.stage import evidence_closed
from pipelines.switch import Switch, SwitchResult
from registry import cache, ledger
from registry.appending import append_following
from registry.errors import NotFound
from registry.ledger import Item, Kind, LedgerEntry, Log, MarkKind
from registry.local_copy import LocalCopy, LocalRollback
from registry.model import ModelVersion, Tag
from registry.store import Record
from serving.plane import Answer, Plane


@dataclass(frozen=True, slots=True, kw_only=True)
class Emergency:
    """What going back works with."""

    model: str
    copy: LocalCopy
    plane: Callable[[int, PromotionConfig], Plane]
    """Opens the serving plane under an epoch; must not ask MLflow."""
    edge_epoch: Callable[[], int]
    cache: Path
    note: Callable[[str], None]
    now: Callable[[], str]
    actor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WentBack:
    """What serves now."""

    version: ModelVersion
    replaced: int | None
    switched: SwitchResult


def go_back(emergency: Emergency, *, to: int | None, reason: str) -> WentBack:
    """Puts an earlier version in charge at once, over the head of whoever owns the model.

    Raises:
        NothingToServe: there is none, or what it needs is not on this machine.
        ServingError: it did not come up; what served still does.
    """
    records.check_reason(reason)
    copy, model = emergency.copy, emergency.model
    try:
        log = copy.load_log()
    except NotFound as exc:
        raise NothingToServe(f"going back without MLflow is not possible here: {exc}") from exc
    done = copy.rollbacks.all()
    serving = done[-1].version if done else _champion(log, model).version
    entry = _target(log, model, to, serving)
    version, config = _kept(emergency, entry)
    epochs = [log.epoch, emergency.edge_epoch(), *(r.epoch for r in done)]
    epoch = max(epochs) + 1
    terms = Terms(policy=config.rollout, slo=config.slo).at_once()

    def commit(answer: Answer) -> None:
        copy.rollbacks.add(
            LocalRollback(
                version=version.version,
                digest=version.digest,
                actor=emergency.actor,
                reason=reason,
                at=log.time(emergency.now()),
                epoch=epoch,
                ledger_seen_hash=log.head,
            )
        )

    switched = Switch(emergency.plane(epoch, config), terms, note=emergency.note).to(
        version, commit, in_charge=lambda: serving
    )
    return WentBack(version=version, replaced=switched.replaced, switched=switched)


def _champion(log: Log, model: str) -> LedgerEntry:
    champion = log.champion
    if champion is None:
        raise NothingToServe(f"nothing was ever promoted to {model}, as far as this machine knows")
    return champion


def _target(log: Log, model: str, to: int | None, serving: int) -> LedgerEntry:
    """The entry to go back to, by what this machine knows."""
    if to is not None:
        served = log.newest_of(to)
        if served is None or to == serving:
            raise NothingToServe(
                f"version {to} never served {model}, or serves already; these served: "
                f"{sorted({e.version for e in log.entries})}"
            )
        return served
    before = _previous(log, serving)
    if before is None:
        told = records.others(log.entries, serving)
        raise NothingToServe(f"no version served {model} before version {serving}{told}")
    return before


def _previous(log: Log, serving: int) -> LedgerEntry | None:
    """What was in charge before the version that serves, which may not be entered yet."""
    entries, known = log.entries, log.newest_of(serving)
    if known is not None and known is not entries[-1]:
        entries = (*entries, dataclasses.replace(known, kind=Kind.ROLLBACK))
    return ledger.previous(entries)


def _kept(emergency: Emergency, entry: LedgerEntry) -> tuple[ModelVersion, PromotionConfig]:
    copy, number = emergency.copy, entry.version
    try:
        version = copy.load_version(number)
        settings = copy.load_settings(entry.seq)
    except NotFound as exc:
        raise NothingToServe(
            f"version {number} cannot be brought back without MLflow: {exc}. Choose another with "
            "--to, or go back without --now once MLflow answers"
        ) from exc
    folder = cache.path_for(emergency.cache, version.digest)
    if not folder.is_dir():
        raise NothingToServe(
            f"the weights of version {number} are not on this machine ({folder}); choose another "
            "with --to, or go back without --now once MLflow answers"
        )
    return version, configs.parse_text(settings, source=f"settings of ledger entry {entry.seq}")


def enter(
    record: Record, model: str, copy: LocalCopy, note: Callable[[str], None]
) -> tuple[Item, ...]:
    """Enters into the ledger what was done without it, oldest first, each once.

    Raises:
        RegistryError: the record did not answer; what is kept stays.
    """
    entered = []
    for made in copy.rollbacks.all():
        item = _enter(record, model, copy, made)
        local.keep_or_tell(record, model, copy, note)  # from here on it says what is in charge
        copy.rollbacks.settle(made)
        if item is None:
            continue
        entered.append(item)
        if isinstance(item, LedgerEntry):
            note(f"the rollback to version {made.version} of {made.at} is in the ledger now")
        else:
            note(
                f"the rollback to version {made.version} of {made.at} was overtaken before it "
                "could be entered; the ledger notes it"
            )
    return tuple(entered)


def _enter(record: Record, model: str, copy: LocalCopy, made: LocalRollback) -> Item | None:
    if _is_entered(record.ledger.read(model), made):
        return None
    run_id = _evidence(record, model, copy, made)

    def following(log: Log) -> Item | None:
        if _is_entered(log, made):
            return None
        if any(entry.epoch > made.epoch for entry in log.entries):
            text = f"rollback to version {made.version} without MLflow, overtaken: {made.reason}"
            return log.mark(
                MarkKind.NOTED, owner=str(made.epoch), actor=made.actor, reason=text, at=made.at
            )
        served = _served(log, made)
        return log.entry(
            Kind.ROLLBACK,
            version=made.version,
            digest=made.digest,
            policy_digest=served.policy_digest,
            evidence_run=run_id,
            actor=made.actor,
            reason=made.reason,
            at=made.at,
            epoch=made.epoch,
            runtime_digest=served.runtime_digest,
        )

    return append_following(record.ledger, model, following)


def _is_entered(log: Log, made: LocalRollback) -> bool:
    """Whether it is there already, as an entry or as a note."""
    said = (made.epoch, made.version, made.actor, made.reason)
    return any(
        said == (item.epoch, item.version, item.actor, item.reason)
        if isinstance(item, LedgerEntry)
        else item.kind is MarkKind.NOTED and item.owner == str(made.epoch)
        for item in log.items
    )


def _served(log: Log, made: LocalRollback) -> LedgerEntry:
    """When the version that was gone back to served before."""
    served = log.newest_of(made.version)
    assert served is not None, "only what is in the ledger is gone back to"
    return served


def _evidence(record: Record, model: str, copy: LocalCopy, made: LocalRollback) -> str:
    """A run with the settings, so that the version can be served again from the record alone."""
    served = _served(copy.load_log(), made)
    evidence = record.evidence
    run_id = evidence.open(
        model, f"rollback --now to version {made.version}", {Tag.STAGE: "rollback"}, None
    )
    with evidence_closed(evidence, run_id):
        evidence.text(run_id, SETTINGS_FILE, copy.load_settings(served.seq))
        evidence.log(
            run_id, params={"actor": made.actor, "reason": made.reason, "made_at": made.at}
        )
    return run_id
