"""Who may change what serves a model: the one rule, for every place that is changed.

The one idea is the epoch. Whoever starts a rollout, a rollback or a restore owns the model under an
epoch, and a higher one takes over. Every place that an owner changes (the edge's traffic plan,
Serve) compares the epoch and makes the change as one step of its own, so an owner that was paused
in between, replaced and woken up again is refused there, whatever it had seen before.

No I/O here; where the claim in force is kept is the business of each place.
"""

from __future__ import annotations

from dataclasses import dataclass

from serving.errors import StaleEpoch


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One owner's hold on one model.

    Raises:
        ValueError: the model has no name, or the epoch is below 1.
    """

    model: str
    epoch: int
    """Higher than that of every owner before."""
    owner: str
    """Who holds it; tells two owners of one epoch apart. Empty where nobody wrote it down."""

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("the model of a claim must have a name, found an empty one")
        if self.epoch < 1:
            raise ValueError(f"epoch of {self.model} must be at least 1, found {self.epoch}")


def admit(known: Claim | None, offered: Claim, action: str) -> Claim:
    """The claim in force once `offered` was let in: it is the one known already, or a newer one.

    Args:
        known: the claim in force; None where the model has no owner yet.
        offered: under which somebody wants to act.
        action: what that is, for the error ("deploy grammar-v2").

    Raises:
        StaleEpoch: another owner is in force.
    """
    if known is None or offered.epoch > known.epoch or offered == known:
        return offered
    raise refusal(known, offered.epoch, action)


def refusal(known: Claim, epoch: int, action: str) -> StaleEpoch:
    """What somebody is told who wants to act under `epoch` while `known` is in force."""
    holder = known.owner or "an owner that left no name"
    return StaleEpoch(
        f"refused to {action} under epoch {epoch}: {holder} has taken {known.model} over with "
        f"epoch {known.epoch}; see `liftlock status` and start again from the current state"
    )
