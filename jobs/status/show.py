"""A status for people and for machines. Pure: text and plain data out, nothing printed."""

from __future__ import annotations

import dataclasses
from typing import Any

from jobs.status import budget
from jobs.status.facts import Attempt, Owner, OwnerState, Status, Traffic, Version, Work
from jobs.status.facts import WorkState as State
from pipelines import waivers
from pipelines.ownership import describe
from registry.model import short

FORMAT = "liftlock/status/v1"
NOTHING_YET = "no model is known yet; `liftlock promote CHECKPOINT --model NAME` makes the first"
SOURCES = {
    "log": "ledger",
    "last": "last try",
    "work": "at work",
    "heard": "owner",
    "traffic": "now",
    "counted": "budget",
}
"""What a source that cannot be read is called, where its own name says little."""
OWNER_TOLD = {
    OwnerState.LIVES: "lives",
    OwnerState.UNSEEN: "no sign of life seen yet",
    OwnerState.SILENT: "silent; another command may take over",
    OwnerState.GONE: "its process has ended",
    OwnerState.RELEASED: "has let go",
}


def as_text(status: Status) -> str:
    """One screen."""
    lines = [("model", f"{status.model} at {status.endpoint}, {status.at}")]
    lines += _charge(status) + _edge(status) + _numbers(status)
    if status.last is not None:
        lines.append(("last try", _attempt(status.last)))
    if status.work is not None:
        lines.append(("at work", _work(status, status.work)))
    if status.owner is not None and status.owner.state is not OwnerState.RELEASED:
        lines.append(("owner", _owner(status.owner)))
    if status.frozen is not None:
        frozen = status.frozen
        lines.append(("frozen", f"by {frozen.actor} since {frozen.at}: {frozen.reason}"))
    lines += [("journal", kept.text) for kept in status.journal if not kept.is_refused]
    lines += [("waiting", sentence) for sentence in status.waiting]
    lines += [("problem", sentence) for sentence in status.problems]
    lines += [
        (SOURCES.get(source, source), f"cannot be read: {reason}")
        for source, reason in status.unread.items()
    ]
    return "\n".join(f"{label:<9} {_one_line(text)}" for label, text in lines)


def as_line(status: Status, *, numbers: bool = True) -> str:
    """One line; without `numbers` only what changes when something happened."""
    serves = "nothing promoted yet" if status.entries is not None else "ledger cannot be read"
    if status.champion is not None:
        serves = f"version {status.champion.version} is champion"
    parts = [serves, *(_share(v) for v in _shown(status))]
    if status.edge is None and "edge" not in status.unread:
        parts.append("edge not running")
    if numbers and status.now is not None:
        parts.append(_traffic(status.now))
    news = budget.lately(status.budget[0]) if status.budget else None
    parts += [news] if numbers and news is not None else []
    if status.last is not None:
        parts.append(f"last try {status.last.ending} {status.last.ended_at}")
    if status.work is not None:
        parts.append(f"{status.work.name} {status.work.state}, {status.work.stage or 'no stage'}")
    if status.frozen is not None:
        parts.append(f"frozen by {status.frozen.actor}: {status.frozen.reason}")
    parts += [f"{len(status.journal)} in the journal"] if status.journal else []
    parts += [f"problem: {problem}" for problem in status.problems]
    unread = ", ".join(SOURCES.get(s, s) for s in status.unread)
    parts += [f"cannot be read: {unread}"] if unread else []
    return _one_line(f"{status.model}  {'; '.join(parts)}")


def as_json(status: Status) -> dict[str, Any]:
    """Plain data; the keys are part of the public surface (docs/reference.md)."""
    plain = dataclasses.asdict(status)
    entries, known = plain.pop("entries"), plain.pop("known")
    slo, owner = plain.pop("slo"), plain.pop("owner")
    found: dict[str, Any] = {
        "format": FORMAT,
        **plain,
        "ledger_entries": entries,
        "models": list(known) if known is not None else None,
        "slo": slo,
        "owner": owner,
        "now": _traffic_json(status.now),
        "budget": [budget.as_json(standing) for standing in status.budget],
    }
    if status.edge is not None:
        found["edge"]["versions"] = [_version_json(v) for v in status.edge.versions]
    unreadable = status.unread.get("record") or status.unread.get("log")
    if unreadable is not None:
        found["record_error"] = unreadable
    return found


def _charge(status: Status) -> list[tuple[str, str]]:
    now, before = status.champion, status.previous
    if now is None:
        nothing = "none yet; nothing was promoted"
        return [("champion", nothing)] if status.entries is not None else []
    told = ", as this machine last knew" if status.is_copy else ""
    lines = [
        ("champion", f"version {now.version} ({short(now.digest)}) since {now.at}{told}"),
        *_went_back(status, now.version),
        ("why", f"{now.kind} by {now.actor}: {now.reason}"),
    ]
    if status.waiver is not None:
        lines.append(("waiver", waivers.sentence(status.waiver)))
    if status.evidence is not None:
        lines.append(("evidence", status.evidence))
    lines.append(("previous", f"version {before.version}" if before else "none"))
    return lines


def _went_back(status: Status, champion: int) -> list[tuple[str, str]]:
    if status.in_charge in (None, champion):
        return []
    told = f"version {status.in_charge}, gone back to without the ledger, which says {champion}"
    return [("in charge", f"{told}; the next command that reaches MLflow enters it")]


def _edge(status: Status) -> list[tuple[str, str]]:
    if status.edge is None:
        told = "not running; `liftlock serve` brings the champion up"
        return [("edge", told)] if "edge" not in status.unread else []
    lines = [("edge", status.edge.url)]
    for version in _shown(status):
        told = _share(version)
        if version.now is not None:
            told += f": {_traffic(version.now)}"
        lines.append(("traffic", told))
    return lines


def _shown(status: Status) -> list[Version]:
    """Without those whose cluster only lingers in the edge until running requests have ended."""
    versions = status.edge.versions if status.edge is not None else ()
    return [v for v in versions if v.weight or v.endpoints or v.draining]


def _share(version: Version) -> str:
    asked = f" of {version.asked}" if version.asked is not None else ""
    replicas = "replica" if version.ready == 1 and not asked else "replicas"
    more = "".join(
        f", {number} {word}"
        for number, word in ((version.draining, "draining"), (version.ejected, "failing"))
        if number
    )
    return (
        f"{version.weight} % on version {version.version}{_copies(version)}, "
        f"{version.ready}{asked} ready {replicas}{more}"
    )


def _copies(version: Version) -> str:
    return f" and copies of {100 * version.mirrored:g} %" if version.mirrored else ""


def _numbers(status: Status) -> list[tuple[str, str]]:
    lines = []
    if status.now is not None:
        promised = ""
        if status.slo is not None and status.now.latency_ms is not None:
            promised = f" (promised: {status.slo.latency_ms:g} ms)"
        lines.append(("now", _traffic(status.now) + promised))
    told = [budget.as_line(standing) for standing in status.budget]
    return lines + [("budget", line) for line in told if line is not None]


def _traffic(now: Traffic) -> str:
    share = now.fault_share
    if share is None:
        return f"no traffic in the last {now.seconds:.1f} s"
    latency = "not measured" if now.latency_ms is None else f"{_ms(now.latency_ms)} ms"
    return (
        f"{now.requests / now.seconds:.1f} requests/s, p{now.latency_quantile * 100:g} {latency}, "
        f"faults {_percent(share)} ({now.faults} of {now.requests:,} in {now.seconds:.1f} s)"
    )


def _attempt(last: Attempt) -> str:
    version = f" (version {last.version})" if last.version is not None else ""
    actor = f" by {last.actor}" if last.actor else ""
    return f"{last.ending} {last.ended_at}: {last.name}{version}{actor}: {last.why or 'no reason'}"


def _work(status: Status, work: Work) -> str:
    actor = f" by {work.actor}" if work.actor else ""
    stage = f"stage {work.stage}" if work.stage is not None else "between two stages"
    told = f"{work.name}{actor}: {stage} since {work.stage_since} ({_span(work.seconds)})"
    if work.steps and work.version is not None and status.edge is not None:
        weight = next((v.weight for v in status.edge.versions if v.version == work.version), 0)
        steps = ", ".join(str(step) for step in work.steps)
        told += f"; version {work.version} has {weight} % of the traffic (steps: {steps})"
    if work.state is State.INTERRUPTED:
        return f"{told}; interrupted"
    return told if work.state is State.RUNNING else f"{told}; not known whether it still runs"


def _owner(owner: Owner) -> str:
    if owner.beat_age_s is not None:
        heard = f"sign of life {owner.beat_age_s:.1f} s ago"
    else:
        heard = (
            f"not heard of in the {owner.watched_s:.1f} s of this look (every few s it would be)"
        )
    who = f"{describe(owner.owner)} by {owner.actor} to {owner.doing}, epoch {owner.epoch}"
    return f"{who}: {OWNER_TOLD[owner.state]}, {heard}"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _ms(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _one_line(text: str) -> str:
    """What others wrote (reasons, errors) must not break the screen, nor steer the terminal."""
    return "".join(c if c.isprintable() else " " for c in " ".join(text.split()))


def _traffic_json(now: Traffic | None) -> dict[str, Any] | None:
    return {**dataclasses.asdict(now), "fault_share": now.fault_share} if now is not None else None


def _version_json(version: Version) -> dict[str, Any]:
    plain = dataclasses.asdict(version)
    return {
        **plain,
        "endpoints": list(version.endpoints),
        "ready": version.ready,
        "now": _traffic_json(version.now),
    }
