"""The rollout policy: what share of the traffic the new version gets next. Pure.

A rollout goes through percentages (10, 50, 100). At each it stays for the bake time and until the
edge has counted enough answers of the new version; server faults above the error allowance take
everything back. Without observations there is no decision: it holds, and gives up at the step's
time limit rather than going on blind.
"""

from __future__ import annotations

import dataclasses
import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPolicy:
    """How a new version takes over."""

    replicas: int = 1
    """Replicas of the new version before it takes traffic."""
    steps: tuple[int, ...] = (10, 50, 100)
    """Percent of traffic for the new version at each step; the last must be 100."""
    bake_s: float = 2.0
    """Least time at a step, in seconds; the demo's, production wants minutes."""
    min_answers: int = 5
    """Answers of the new version that must be counted at a step before it may go on; liftlock
    sends probes of its own through the edge where callers send fewer."""
    max_fault_rate: float = 0.01
    """Server faults (5xx and resets) per answer above which the rollout is taken back."""
    step_timeout_s: float = 120.0
    """Longest time at a step without a decision, after which the rollout is taken back."""
    ready_timeout_s: float = 600.0
    """Longest wait for the new version's replicas to answer their warm-up."""
    drain_timeout_s: float = 60.0
    """Longest wait for the old version's running requests before it stops anyway."""

    def __post_init__(self) -> None:
        if self.replicas < 1:
            raise ValueError(f"rollout replicas must be at least 1, got {self.replicas}")
        rising = list(self.steps) == sorted(set(self.steps))
        if not self.steps or self.steps[-1] != 100 or self.steps[0] < 1 or not rising:
            raise ValueError(
                f"rollout steps must rise from at least 1 to exactly 100, got {list(self.steps)}"
            )
        if not 0.0 <= self.max_fault_rate < 1.0:
            raise ValueError(f"max_fault_rate must be 0 to below 1, got {self.max_fault_rate}")
        for name in ("bake_s", "step_timeout_s", "ready_timeout_s", "drain_timeout_s"):
            value = getattr(self, name)
            if value < 0:
                raise ValueError(f"rollout {name} must be at least 0 seconds, got {value}")
        if self.min_answers < 0:
            raise ValueError(f"min_answers must be at least 0, got {self.min_answers}")

    def at_once(self) -> RolloutPolicy:
        """For a version that has served before, when whoever goes back to it is in a hurry."""
        return dataclasses.replace(self, steps=(100,), bake_s=0.0)


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

    answers: int | None
    faults: int | None
    ready_replicas: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A move and why."""

    move: Move
    reason: str


def decide(policy: RolloutPolicy, *, step_age_s: float, observed: Observation) -> Decision:
    """The next move at one step of a rollout."""
    if observed.ready_replicas == 0:
        return _revert("the new version has no ready replica left")
    if observed.answers is None or observed.faults is None or observed.ready_replicas is None:
        return _wait(policy, step_age_s, "the edge's counts could not be read")
    total = observed.answers + observed.faults
    if observed.faults > policy.max_fault_rate * total:
        return _revert(
            f"{observed.faults} of {total} answers were server faults, allowed is "
            f"{policy.max_fault_rate:.2%}"
        )
    if observed.answers < policy.min_answers:
        told = f"{observed.answers} of {policy.min_answers} answers counted"
        return _wait(policy, step_age_s, told)
    if step_age_s < policy.bake_s:
        return Decision(move=Move.HOLD, reason=f"baking, {policy.bake_s - step_age_s:.1f} s left")
    return Decision(
        move=Move.ADVANCE, reason=f"{observed.answers} answers, {observed.faults} faults"
    )


def _wait(policy: RolloutPolicy, step_age_s: float, told: str) -> Decision:
    """Holds while nothing can be decided, and takes back when that has lasted too long."""
    if step_age_s < policy.step_timeout_s:
        return Decision(move=Move.HOLD, reason=told)
    return _revert(f"no decision within {policy.step_timeout_s:.0f} s: {told}")


def _revert(reason: str) -> Decision:
    return Decision(move=Move.REVERT, reason=reason)
