"""What a status means: what waits for whom, and what is wrong. Pure."""

from __future__ import annotations

from jobs.status.facts import Edge, Owner, OwnerState, Status, Version, WorkState
from pipelines import waivers


def work_state(owner: Owner | None) -> WorkState:
    """Whether unfinished work goes on, by what is known of the model's owner."""
    if owner is None or owner.state is OwnerState.UNSEEN:
        return WorkState.UNKNOWN
    lives = owner.state is OwnerState.LIVES
    return WorkState.RUNNING if lives else WorkState.INTERRUPTED


def waiting(status: Status) -> tuple[str, ...]:
    """What waits for whom, one sentence each."""
    model, work, last, frozen = status.model, status.work, status.last, status.frozen
    found = []
    if frozen is not None:
        found.append(
            f"promotions and automatic actions wait for `liftlock thaw {model}`; {frozen.actor} "
            f"froze the model: {frozen.reason}"
        )
    if work is not None and work.state is WorkState.INTERRUPTED:
        found.append(
            f"`{work.name}` waits for somebody to run the same command again; finished stages are "
            "not redone"
        )
    if last is not None and last.is_undecided and work is None:
        found.append(
            f"{_candidate(last.version)} waits for a person: its gates could not decide; more "
            "examples or a waiver would"
        )
    if not all(kept.is_refused for kept in status.journal):
        found.append(
            "what the journal keeps waits for MLflow; the next command that reaches it enters it"
        )
    return tuple(found)


def problems(status: Status) -> tuple[str, ...]:
    """What is wrong and what to do, one sentence each."""
    edge = status.edge
    refused = [kept.text for kept in status.journal if kept.is_refused]
    refused += _waiver_over(status)
    if edge is None:
        return tuple(refused)
    found = [*refused, *_disagreement(status, edge), *_nobody_answers(status, edge)]
    for version in edge.versions:
        found += _short_of_replicas(status, version)
    if edge.last_error:
        found.append(edge.last_error)
    return (*found, *edge.refused)


def _candidate(version: int | None) -> str:
    return f"version {version}" if version is not None else "the candidate"


def _waiver_over(status: Status) -> list[str]:
    waiver = status.waiver
    if waiver is None or not waivers.has_expired(waiver, status.at):
        return []
    return [
        f"the waiver that the champion serves on expired on {waiver.expires}; promote a version "
        f"that passes {', '.join(waiver.gates)}, or ask {waiver.by} to answer for it longer"
    ]


def _is_at_work(status: Status) -> bool:
    return status.work is not None and status.work.state is not WorkState.INTERRUPTED


def _disagreement(status: Status, edge: Edge) -> list[str]:
    """What an interrupted rollout can leave: traffic that the ledger knows nothing of."""
    now = status.in_charge
    if now is None or _is_at_work(status):
        return []
    others = [v.version for v in edge.versions if v.weight and v.version != now]
    if not others:
        return []
    return [
        f"version {others[0]} has traffic, the ledger says version {now}; "
        f"`liftlock serve {status.model}` puts it right"
    ]


def _nobody_answers(status: Status, edge: Edge) -> list[str]:
    if status.champion is None or any(v.weight and v.ready for v in edge.versions):
        return []
    return [
        f"no version of {status.model} has traffic and a ready replica: callers get errors; "
        f"`liftlock serve {status.model}` brings the champion up"
    ]


def _short_of_replicas(status: Status, version: Version) -> list[str]:
    if not version.weight:
        return []
    found = []
    if version.asked is not None and version.ready < version.asked and not _is_at_work(status):
        found.append(
            f"version {version.version} has {version.ready} of {version.asked} replicas ready; "
            "`ray status` says whether the cluster has room for the rest"
        )
    if version.ejected:
        found.append(
            f"{version.ejected} of {version.ready} ready replicas of version {version.version} "
            "fail and are left out for a while; their log says why"
        )
    return found
