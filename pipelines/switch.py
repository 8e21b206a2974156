"""Puts a version in charge of the traffic, and takes it back if it does not hold.

The one path for promote, rollback and serve: bring the version up beside the old, ask it directly,
move the traffic in steps that `rollout.decide` judges, confirm through the edge, let the caller
commit (ledger, aliases), and only then retire the old version, which drains. Whatever fails before
the commit ends with all traffic where it was.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from pipelines import rollout
from pipelines.errors import Fenced, RolloutReverted
from pipelines.rollout import Decision, Move, Observation, Terms
from registry.errors import RegistryError
from registry.model import ModelVersion, short
from serving.edge import interval
from serving.edge.interval import Interval
from serving.errors import DeploymentFailed, ServingError, StaleEpoch
from serving.plane import Answer, Plane

LOOK_EVERY_S = 0.5
PROBE_TEXTS = (
    "She go to school every days.",
    "The teacher reads a book.",
    "They was happy yesterday.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How one step of a rollout ended."""

    version: int
    share_percent: int
    """Of the traffic, for the new version."""
    seconds: float
    decision: Decision

    def __str__(self) -> str:
        return (
            f"{self.share_percent} % of traffic on version {self.version}: {self.decision.reason}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchResult:
    """How a switch went."""

    version: int
    replaced: int | None
    start_s: float
    """From start to all replicas ready, in seconds."""
    steps: tuple[Step, ...]
    answer: Answer
    """The confirming answer through the edge."""


class Switch:
    """One change of the version in charge."""

    def __init__(
        self,
        plane: Plane,
        terms: Terms,
        *,
        note: Callable[[str], None],
        keep: Callable[[Step], None] = lambda step: None,
        check: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`keep` is told how each step ended, the one too that takes the version back; `check` is
        asked while traffic moves, and raises Fenced for an owner that was replaced."""
        self._plane = plane
        self._terms = terms
        self._policy = terms.policy
        self._note = note
        self._keep = keep
        self._check_owner = check
        self._clock = clock
        self._sleep = sleep

    def to(
        self,
        version: ModelVersion,
        commit: Callable[[Answer], object],
        *,
        in_charge: Callable[[], int | None],
    ) -> SwitchResult:
        """Moves all traffic to a version, commits, and retires what served before.

        Args:
            version: what should serve.
            in_charge: asks the ledger what serves. That, and not what the edge happens to do, is
                what a failure goes back to: an interrupted rollout may have left traffic on a
                version that was never recorded, and a rival may have been recorded meanwhile.
            commit: called once the version answers through the edge with all traffic; if it
                raises, traffic goes back.

        Raises:
            RolloutReverted: the version did not hold; the old one serves as before.
            ServingError: it never became ready; the old one serves as before.
        """
        new = version.version
        known = in_charge()
        beside = self._beside(new, known)
        started = self._clock()
        try:
            self._bring_up(version)
            start_s = self._clock() - started
            shares = self._policy.steps if beside is not None else (100,)
            if beside is None:
                self._note("no other version serves, so all traffic goes over at once")
            steps = tuple(self._step(version, share, beside) for share in shares)
            answer = self._confirm(version)
            commit(answer)
        except (StaleEpoch, Fenced):
            # Another owner is in charge of what happens now; whatever we did, it would undo.
            self._note("another owner has taken over; leaving everything to it")
            raise
        except BaseException:
            with contextlib.suppress(RegistryError):  # away: what was known has to do
                known = in_charge()
            self._put_back(new, known)
            raise
        self._retire_all_but(new)
        return SwitchResult(
            version=new,
            replaced=beside,
            start_s=start_s,
            steps=steps,
            answer=answer,
        )

    def _beside(self, new: int, in_charge: int | None) -> int | None:
        """The version to share traffic with in steps: the one in charge, if it can answer at all.

        One that is not deployed (after a reboot, say) or has no ready replica has nothing to give,
        and nothing to be protected.
        """
        if in_charge is None or in_charge == new or in_charge not in self._plane.running():
            return None
        return in_charge if self._answers(in_charge) else None

    def _answers(self, version: int) -> bool:
        """Whether it has a ready replica; one whose sign of life is late is waited for."""
        began = self._clock()
        while not (ready := self._plane.ready_replicas(version)):
            if ready is None or self._clock() - began > rollout.GONE_S:
                return False
            self._sleep(LOOK_EVERY_S)
        return True

    def _retire_all_but(self, new: int) -> None:
        """Drains what served before and what interrupted rollouts left. It is decided already, so
        a slow drain is told and not raised."""
        for stale in self._plane.running():
            if stale != new:
                self._note(f"draining version {stale}")
                try:
                    self._plane.retire(stale, self._policy.drain_timeout_s)
                except StaleEpoch:
                    self._note("another owner has taken over; it takes the old version down")
                    return
                except ServingError as exc:
                    self._note(f"version {stale} is still draining: {exc}")

    def _bring_up(self, version: ModelVersion) -> None:
        number, replicas = version.version, self._policy.replicas
        if number not in self._plane.running():
            self._note(f"starting {replicas} replica(s) of version {number}")
        # Also where it runs: the number of replicas may differ, or it may be broken.
        self._plane.start(version, replicas)
        self._plane.wait_ready(number, replicas, self._policy.ready_timeout_s)
        answers = self._plane.ask_replicas(number, PROBE_TEXTS[0])
        for answer in answers:
            self._check(version, answer, "a replica asked directly")
        if len(answers) < replicas:
            raise DeploymentFailed(
                f"{len(answers)} of {replicas} replicas of version {number} could be asked; look "
                "at `liftlock status` and run it again"
            )
        self._note(f"version {number} is ready and answers")

    def _step(self, version: ModelVersion, share: int, beside: int | None) -> Step:
        new, old = version.version, None if share == 100 else beside
        weights = {new: share} if old is None else {old: 100 - share, new: share}
        self._plane.set_weights(weights, self._policy.step_timeout_s)
        began = self._clock()
        mine = _Tally(self._plane, new)
        others = None if old is None else _Tally(self._plane, old)
        absent_s: float | None = None
        while True:
            self._check_owner()
            self._probe()
            age_s = self._clock() - began
            ready = self._plane.ready_replicas(new)
            absent_s = rollout.absent_since(absent_s, ready, age_s)
            seen = Observation(
                counted=mine.until(age_s),
                ready_replicas=ready,
                absent_s=0.0 if absent_s is None else age_s - absent_s,
                beside=None if others is None else others.until(age_s),
            )
            decision = rollout.decide(self._terms, step_age_s=age_s, observed=seen)
            if decision.move is not Move.HOLD:
                step = Step(version=new, share_percent=share, seconds=age_s, decision=decision)
                return self._ended(step)
            self._sleep(LOOK_EVERY_S)

    def _ended(self, step: Step) -> Step:
        self._keep(step)
        if step.decision.move is Move.REVERT:
            raise RolloutReverted(
                f"version {step.version} was taken back at {step.share_percent} % of traffic: "
                f"{step.decision.reason}"
            )
        self._note(str(step))
        return step

    def _probe(self) -> None:
        """Sends a few requests through the edge, so that a quiet hour cannot stall a rollout.

        A failed probe is a fault that the edge counts; the decision is taken from its counts.
        """
        for text in PROBE_TEXTS:
            with contextlib.suppress(ServingError):
                self._plane.ask(text)

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

    def _put_back(self, new: int, in_charge: int | None) -> None:
        """All traffic on the version in charge, and the new one gone unless it is that."""
        self._note("undoing what was begun; this waits for running requests")
        deployed = in_charge is not None and in_charge in self._plane.running()
        wanted = {in_charge: 100} if deployed and in_charge is not None else {}
        try:
            if dict(self._plane.weights()) != wanted:
                self._note("giving the traffic back")
                self._plane.set_weights(wanted, self._policy.step_timeout_s)
            if new != in_charge:
                self._plane.retire(new, self._policy.drain_timeout_s)
        except StaleEpoch:
            self._note("another owner has taken over; leaving everything to it")
        except ServingError as exc:
            # The first failure is what the caller must hear; this one is told beside it.
            self._note(f"could not put everything back: {exc}")


class _Tally:
    """One version's requests since it was made; a restart of Envoy loses none that were read."""

    def __init__(self, plane: Plane, version: int) -> None:
        self._plane = plane
        self._version = version
        self._last = plane.counts(version)
        self._seen = interval.added((), seconds=0.0)

    def until(self, age_s: float) -> Interval | None:
        """What was counted so far, `age_s` after it was made; None where it cannot be read now."""
        now = self._plane.counts(self._version)
        if now is None:
            return None
        if self._last is not None:
            more = interval.between(self._last, now, seconds=0.0)
            self._seen = interval.added((self._seen, more), seconds=age_s)
        self._last = now
        return self._seen
