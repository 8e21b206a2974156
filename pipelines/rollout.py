"""What share of the traffic the new version gets next. Pure.

A rollout goes through percentages (10, 50, 100). At each the version's own requests, as the edge
counted them since the step began, are held against the promise that alerts are made from: where
a budget burns fast, everything is taken back. Otherwise it stays for the bake time, until enough
requests were counted and none of the budgets is in doubt. Without observations there is no
decision: it holds, and gives up at the step's time limit rather than going on blind.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass

from pipelines.rollout_policy import RolloutPolicy
from serving.directory_state import DirectorySettings
from serving.edge.interval import Interval
from serving.slo import SLO, Sli, trial
from serving.slo.trial import Finding, Trial

GOING_BACK = 0.9
"""Share of requests that a version must answer to stay when somebody goes back to it. He knows
that the one in charge is worse; the promise is not what decides between the two."""

GONE_S = DirectorySettings().heartbeat_timeout_s
"""A version is without a replica once looks have found none for longer than this, seconds. One look
may come between two signs of life of a replica on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """On what terms a version takes over."""

    policy: RolloutPolicy
    slo: SLO
    slis: tuple[Sli, ...] = tuple(Sli)
    """The halves of the promise that it is held against."""

    def at_once(self) -> Terms:
        """For a version that has served before, when whoever goes back to it is in a hurry."""
        lenient = min(self.slo.availability, GOING_BACK)
        return Terms(
            policy=self.policy.at_once(),
            slo=dataclasses.replace(self.slo, availability=lenient),
            slis=(Sli.AVAILABILITY,),
        )


class Move(enum.StrEnum):
    """What to do now."""

    HOLD = "hold"
    """Stay at this share and look again."""
    ADVANCE = "advance"
    """Go to the next share, or finish at the last."""
    REVERT = "revert"
    """Give all traffic back to the old version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What the edge counted for the new version since the step began; None: not seen."""

    counted: Interval | None
    ready_replicas: int | None
    absent_s: float = 0.0
    """For how long looks have found no ready replica, all of them; 0 at the first one."""
    beside: Interval | None = None
    """The old version's requests of the same time. They are told and decide nothing: what is
    promised is promised whatever the old version does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A move and why."""

    move: Move
    reason: str
    trials: tuple[Trial, ...] = ()
    """What was decided by, one per half of the promise; empty where nothing was counted."""


def absent_since(before_s: float | None, ready_replicas: int | None, now_s: float) -> float | None:
    """When looks began to find no ready replica; None where this one found some, or could not tell.

    `before_s` is what it was at the look before.
    """
    if ready_replicas != 0:
        return None
    return now_s if before_s is None else before_s


def decide(terms: Terms, *, step_age_s: float, observed: Observation) -> Decision:
    """The next move at one step of a rollout."""
    if observed.absent_s > GONE_S:
        reason = f"the new version has had no ready replica for {observed.absent_s:.1f} s"
        return Decision(move=Move.REVERT, reason=reason)
    if observed.counted is None or observed.ready_replicas is None:
        return _wait(terms, step_age_s, "the edge's counts could not be read", ())
    trials = tuple(trial.of(observed.counted, terms.slo, sli) for sli in terms.slis)
    broken = [t for t in trials if t.finding is Finding.BROKEN]
    if broken:
        told = [_told(t, terms.slo) for t in broken]
        reason = "; ".join([*told, *_beside(observed.beside, terms.slo, broken)])
        return Decision(move=Move.REVERT, reason=reason, trials=trials)
    lacking = [text for t in trials if (text := _lacking(terms, t)) is not None]
    if observed.ready_replicas == 0:
        lacking.append("no replica is ready now")
    if lacking:
        return _wait(terms, step_age_s, "; ".join(lacking), trials)
    left_s = terms.policy.bake_s - step_age_s
    if left_s > 0:
        return Decision(move=Move.HOLD, reason=f"baking, {left_s:.1f} s left", trials=trials)
    told = [f"{_told(t, terms.slo)}{_caveat(t)}" for t in trials]
    return Decision(move=Move.ADVANCE, reason="; ".join(told), trials=trials)


def _lacking(terms: Terms, found: Trial) -> str | None:
    """What is missing before this half of the promise lets the rollout go on."""
    fewest = terms.policy.min_answers
    if fewest is None and found.finding is not Finding.KEPT:
        return f"{_told(found, terms.slo)}; {found.to_show:,} without one would show that it holds"
    if fewest is not None and found.requests < fewest:
        return f"{found.sli}: {found.requests} of {fewest} answers counted"
    if found.finding is Finding.DOUBTFUL:
        return f"{_told(found, terms.slo)}, too few requests to tell"
    return None


def _told(found: Trial, slo: SLO) -> str:
    """What was counted and by how much it misses or keeps the promise."""
    is_slow = found.sli is Sli.LATENCY
    what = f"slower than {slo.latency_ms:g} ms" if is_slow else "server faults"
    rate = "no burn" if found.rate is None else f"burn {found.rate:,.3g}"
    return (
        f"{found.sli}: {found.bad:,} of {found.requests:,} {what}, allowed at most "
        f"{found.budget:.3%} ({rate})"
    )


def _caveat(found: Trial) -> str:
    """Said of a step that went on without proof."""
    return "" if found.finding is Finding.KEPT else f", {found.to_show:,} would show it"


def _beside(other: Interval | None, slo: SLO, broken: list[Trial]) -> list[str]:
    """The old version's counts, for whoever asks whether it was the new one's fault."""
    if other is None:
        return []
    same = [trial.of(other, slo, found.sli) for found in broken]
    counts = ", ".join(f"{t.sli} {t.bad:,} of {t.requests:,}" for t in same)
    return [f"the old version at the same time: {counts}"]


def _wait(terms: Terms, step_age_s: float, told: str, trials: tuple[Trial, ...]) -> Decision:
    """Holds while nothing can be decided, and takes back when that has lasted too long."""
    limit_s = terms.policy.step_timeout_s
    if step_age_s < limit_s:
        return Decision(move=Move.HOLD, reason=told, trials=trials)
    reason = f"no decision within {limit_s:.0f} s: {told}"
    return Decision(move=Move.REVERT, reason=reason, trials=trials)
