"""Puts a version in charge of the traffic, and takes it back if it does not hold.

The one path for promote, rollback and serve: bring the version up beside the old, ask it directly,
move the traffic in steps that `rollout.decide` judges, confirm through the edge, let the caller
commit (ledger, aliases), and only then retire the old version, which drains. Whatever fails before
the commit ends with all traffic where it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pipelines import rollout
from pipelines.errors import RolloutReverted
from pipelines.rollout import Move, Observation, RolloutPolicy
from registry.model import ModelVersion, short
from serving.errors import ServingError
from serving.plane import Answer, Counts, Plane

LOOK_EVERY_S = 0.5
PROBE_TEXTS = (
    "She go to school every days.",
    "The teacher reads a book.",
    "They was happy yesterday.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchResult:
    """How a switch went."""

    version: int
    replaced: int | None
    start_s: float
    """From start to all replicas ready, in seconds."""
    steps: tuple[str, ...]
    """One line per step: share, counts, reason to go on."""
    answer: Answer
    """The confirming answer through the edge."""


class Switch:
    """One change of the version in charge."""

    def __init__(
        self,
        plane: Plane,
        policy: RolloutPolicy,
        *,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._plane = plane
        self._policy = policy
        self._note = note
        self._clock = clock
        self._sleep = sleep

    def to(self, version: ModelVersion, commit: Callable[[Answer], object]) -> SwitchResult:
        """Moves all traffic to a version, commits, and retires what served before.

        Args:
            version: what should serve.
            commit: called once the version answers through the edge with all traffic; if it
                raises, traffic goes back.

        Raises:
            RolloutReverted: the version did not hold; the old one serves as before.
            ServingError: it never became ready; the old one serves as before.
        """
        new = version.version
        # A version with weight that is not deployed (after a reboot, say) has no traffic to give.
        running = self._plane.running()
        before = {v: w for v, w in self._plane.weights().items() if v in running}
        old = tuple(v for v in before if v != new and before[v] > 0)
        started = self._clock()
        try:
            self._bring_up(version)
            start_s = self._clock() - started
            steps = tuple(self._step(version, share, before) for share in self._shares(before, new))
            answer = self._confirm(version)
            commit(answer)
        except BaseException:
            self._put_back(new, before)
            raise
        for stale in self._plane.running():
            if stale != new:
                self._note(f"draining version {stale}")
                self._plane.retire(stale, self._policy.drain_timeout_s)
        return SwitchResult(
            version=new,
            replaced=old[0] if old else None,
            start_s=start_s,
            steps=steps,
            answer=answer,
        )

    def _bring_up(self, version: ModelVersion) -> None:
        number = version.version
        if number not in self._plane.running():
            self._note(f"starting {self._policy.replicas} replica(s) of version {number}")
            self._plane.start(version, self._policy.replicas)
        self._plane.wait_ready(number, self._policy.replicas, self._policy.ready_timeout_s)
        for answer in self._plane.ask_replicas(number, PROBE_TEXTS[0]):
            self._check(version, answer, "a replica asked directly")
        self._note(f"version {number} is ready and answers")

    def _shares(self, before: Mapping[int, int], new: int) -> tuple[int, ...]:
        """With nothing to protect, or already in charge, there is no canary to make."""
        others = any(weight > 0 for v, weight in before.items() if v != new)
        return self._policy.steps if others else (100,)

    def _step(self, version: ModelVersion, share: int, before: Mapping[int, int]) -> str:
        new = version.version
        self._plane.set_weights(_mixed(before, new, share), self._policy.step_timeout_s)
        base = self._plane.counts(new)
        began = self._clock()
        while True:
            self._probe()
            seen = self._observe(new, base)
            base = base or self._plane.counts(new)
            decision = rollout.decide(self._policy, step_age_s=self._clock() - began, observed=seen)
            if decision.move is Move.ADVANCE:
                line = f"{share} % of traffic on version {new}: {decision.reason}"
                self._note(line)
                return line
            if decision.move is Move.REVERT:
                raise RolloutReverted(
                    f"version {new} was taken back at {share} % of traffic: {decision.reason}"
                )
            self._sleep(LOOK_EVERY_S)

    def _probe(self) -> None:
        """Sends a few requests through the edge, so that a quiet hour cannot stall a rollout.

        A failed probe is a fault that the edge counts; the decision is taken from its counts.
        """
        for text in PROBE_TEXTS:
            with contextlib.suppress(ServingError):
                self._plane.ask(text)

    def _observe(self, new: int, base: Counts | None) -> Observation:
        now, ready = self._plane.counts(new), self._plane.ready_replicas(new)
        if now is None or base is None:
            return Observation(answers=None, faults=None, ready_replicas=ready)
        return Observation(
            answers=now.answers - base.answers,
            faults=now.faults - base.faults,
            ready_replicas=ready,
        )

    def _confirm(self, version: ModelVersion) -> Answer:
        answer = self._plane.ask(PROBE_TEXTS[0])
        self._check(version, answer, "the edge")
        return answer

    def _check(self, version: ModelVersion, answer: Answer, who: str) -> None:
        if (answer.version, answer.digest) != (version.version, version.digest):
            raise RolloutReverted(
                f"{who} answered with version {answer.version} ({short(answer.digest)}), expected "
                f"version {version.version} ({short(version.digest)})"
            )

    def _put_back(self, new: int, before: Mapping[int, int]) -> None:
        """Traffic as it was, and the new version gone unless it served before."""
        try:
            if dict(self._plane.weights()) != dict(before):
                self._note("giving the traffic back")
                self._plane.set_weights(before, self._policy.step_timeout_s)
            if before.get(new, 0) == 0:
                self._plane.retire(new, self._policy.drain_timeout_s)
        except ServingError as exc:
            # The first failure is what the caller must hear; this one is told beside it.
            self._note(f"could not put everything back: {exc}")


def _mixed(before: Mapping[int, int], new: int, share: int) -> dict[int, int]:
    """Weights that give `share` percent to the new version and split the rest as before."""
    if share == 100:
        return {new: 100}
    others = {v: w for v, w in before.items() if v != new and w > 0}
    total = sum(others.values())
    mixed = {v: (100 - share) * w // total for v, w in others.items()}
    first = next(iter(mixed))
    mixed[first] += 100 - share - sum(mixed.values())
    return {**mixed, new: share}
