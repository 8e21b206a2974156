"""From what was read to a status. Pure: no clock, no I/O."""

from __future__ import annotations

import dataclasses
import datetime

from jobs.status import judge
from jobs.status.facts import (
    Attempt,
    Edge,
    Frozen,
    Owner,
    Status,
    Traffic,
    Version,
    Work,
    WorkState,
)
from jobs.status.gathered import Gathered
from jobs.status.reading import Unread, had
from registry.model import INTERRUPTED, StageEvidence, Tag
from serving.edge.interval import Interval, together
from serving.edge.status import VersionStatus
from serving.slo import SLO, burn

RUN_NAME = "mlflow.runName"


def assemble(found: Gathered) -> Status:
    """The status."""
    log, slo = had(found.log), _slo(found)
    kept = had(found.kept)
    known = log if log is not None else kept.log if kept is not None else None
    owner = _owner(found)
    last = _last(found)
    work = _work(found, owner, last)
    frozen = known.frozen if known is not None else None
    status = Status(
        model=found.model,
        at=found.at,
        endpoint=found.endpoint,
        record=None if isinstance(found.record, Unread) else found.record,
        champion=known.champion if known is not None else None,
        previous=known.previous if known is not None else None,
        waiver=known.waiver if known is not None else None,
        entries=len(log.entries) if log is not None else None,
        is_copy=log is None and kept is not None,
        evidence=had(found.evidence),
        slo=slo,
        edge=_edge(found, slo),
        now=_now(found, slo),
        budget=_budget(found, slo),
        last=last,
        work=work,
        owner=owner,
        frozen=Frozen(actor=frozen.actor, reason=frozen.reason, at=frozen.at) if frozen else None,
        journal=had(found.journal) or (),
        known=had(found.models),
        unread=found.unread,
    )
    return dataclasses.replace(
        status, waiting=judge.waiting(status), problems=judge.problems(status)
    )


def iso(at_ms: int) -> str:
    """Unix milliseconds as UTC, ISO 8601 to the second."""
    at = datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _slo(found: Gathered) -> SLO | None:
    config, kept = had(found.settings), had(found.kept)
    if config is None and kept is not None:
        config = kept.config
    return config.slo if config is not None else None


def _traffic(interval: Interval | None, slo: SLO | None) -> Traffic | None:
    if interval is None:
        return None
    quantile = (slo or SLO()).latency_quantile
    return Traffic(
        seconds=interval.seconds,
        requests=interval.requests,
        faults=interval.faults,
        latency_ms=interval.latency_ms(quantile),
        latency_quantile=quantile,
    )


def _now(found: Gathered, slo: SLO | None) -> Traffic | None:
    seen = had(found.traffic) or {}
    return _traffic(together(s.interval for s in seen.values()), slo)


def _budget(found: Gathered, slo: SLO | None) -> tuple[burn.Standing, ...]:
    if slo is None:
        return ()
    counted = had(found.counted)
    return burn.standings(slo, counted.over if counted is not None else lambda _: None)


def _edge(found: Gathered, slo: SLO | None) -> Edge | None:
    edge = had(found.edge)
    if edge is None:
        return None
    mine = [v for v in edge.versions if v.model == found.model]
    return Edge(
        url=edge.url,
        versions=tuple(_version(found, v, slo) for v in mine),
        source_age_s=edge.source_age_s,
        last_error=edge.last_error,
        refused=tuple(r for r in edge.refused if f"of {found.model!r}" in r),
    )


def _version(found: Gathered, version: VersionStatus, slo: SLO | None) -> Version:
    seen = (had(found.traffic) or {}).get(version.version)
    return Version(
        version=version.version,
        weight=version.weight,
        endpoints=version.endpoints,
        asked=_asked(found, version.version),
        draining=version.draining,
        ejected=seen.ejected if seen is not None else None,
        now=_traffic(seen.interval, slo) if seen is not None else None,
        mirrored=version.mirrored,
    )


def _asked(found: Gathered, version: int) -> int | None:
    """Replicas that a version's settings ask for."""
    log, work = had(found.log), had(found.work)
    config = None
    if log is not None and log.champion is not None and log.champion.version == version:
        config = had(found.settings)
    elif work is not None and _number(work.run.params.get("candidate_version")) == version:
        config = work.config
    return config.rollout.replicas if config is not None else None


def _owner(found: Gathered) -> Owner | None:
    log, heard = had(found.log), had(found.heard)
    if log is None or log.claim is None or heard is None:
        return None
    claim, changed_s = log.claim, heard.changed_s
    return Owner(
        owner=claim.owner,
        actor=claim.actor,
        doing=claim.reason,
        epoch=claim.epoch,
        claimed_at=claim.at,
        state=heard.state,
        said=heard.said,
        beat_age_s=heard.now_s - changed_s if changed_s is not None else None,
        watched_s=heard.now_s - heard.since_s,
    )


def _last(found: Gathered) -> Attempt | None:
    last = had(found.last)
    if last is None:
        return None
    run, url = last
    log = had(found.log)
    entries = log.entries if log is not None else ()
    entry = next((e for e in entries if e.evidence_run == run.run_id), None)
    ending = _ending(run)
    name = run.tags.get(RUN_NAME, run.stage).removesuffix(f": {ending}")
    why = run.tags.get(Tag.ERROR) or run.params.get("verdict_reason") or ""
    version = _number(run.params.get("candidate_version"))
    return Attempt(
        name=name,
        ending=ending,
        why=entry.reason if entry is not None else why,
        version=entry.version if entry is not None else version,
        actor=entry.actor if entry is not None else run.params.get("actor"),
        is_undecided=ending == "refused" and run.params.get("verdict") == "underpowered",
        run_id=run.run_id,
        url=url,
        ended_at=iso(run.ended_at_ms),
    )


def _ending(run: StageEvidence) -> str:
    if Tag.ENDING in run.tags:
        return run.tags[Tag.ENDING]
    if run.tags.get(Tag.ERROR) == INTERRUPTED:
        return INTERRUPTED
    if Tag.ERROR in run.tags:
        return "failed"
    return "rolled back" if run.stage == "rollback" else "ended"


def _work(found: Gathered, owner: Owner | None, last: Attempt | None) -> Work | None:
    work = had(found.work)
    if work is None:
        return None
    run, state = work.run, judge.work_state(owner)
    if (
        state is not WorkState.RUNNING
        and last is not None
        and iso(run.started_at_ms) <= (last.ended_at)
    ):
        return None  # left by a command that was killed, and overtaken since
    stage = next((s for s in reversed(work.stages) if s.is_running), None)
    ended_ms = [s.ended_at_ms for s in work.stages if s.ended_at_ms is not None]
    since_ms = stage.started_at_ms if stage else max(ended_ms, default=run.started_at_ms)
    return Work(
        name=run.name,
        state=state,
        actor=run.params.get("actor") or (owner.actor if owner is not None else None),
        run_id=run.run_id,
        started_at=iso(run.started_at_ms),
        stage=stage.stage if stage is not None else None,
        stage_since=iso(since_ms),
        seconds=max(0.0, (found.at_ms - since_ms) / 1000),
        version=_number(run.params.get("candidate_version")),
        steps=work.config.rollout.steps if work.config is not None else (),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
