"""How a new version takes over: the block `rollout` of `promotion.yaml`.

What it is held against is not here: that is the promise (`slo`), which alerts read too.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

MIN_ANSWERS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutPolicy:
    """How a new version takes over."""

    replicas: int = 1
    """Replicas of the new version before it takes traffic."""
    steps: tuple[int, ...] = (10, 50, 100)
    """Percent of traffic for the new version at each step; the last must be 100."""
    bake_s: float = 2.0
    """Least time at a step, in seconds; the demo's, production wants minutes."""
    min_answers: int | None = MIN_ANSWERS
    """Answers of the new version that must be counted at a step before it may go on; liftlock
    sends probes of its own through the edge where callers send fewer. None: as many as it takes to
    show that the budgets of the promise do not burn fast."""
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
        for name in ("bake_s", "step_timeout_s", "ready_timeout_s", "drain_timeout_s"):
            value = getattr(self, name)
            if value < 0:
                raise ValueError(f"rollout {name} must be at least 0 seconds, got {value}")
        if self.min_answers is not None and self.min_answers < 0:
            raise ValueError(f"min_answers must be at least 0 or null, got {self.min_answers}")

    def at_once(self) -> RolloutPolicy:
        """For a version that has served before, when whoever goes back to it is in a hurry."""
        few = MIN_ANSWERS if self.min_answers is None else min(self.min_answers, MIN_ANSWERS)
        return dataclasses.replace(self, steps=(100,), bake_s=0.0, min_answers=few)
