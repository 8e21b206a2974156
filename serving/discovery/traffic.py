"""Which version of a model gets which of its requests: one file, one owner per model.

Whoever steers a model's traffic (a rollout, a rollback) does so under an epoch, and older epochs
are refused (`serving.fence`), so that a rollout that was paused, replaced and woken up again cannot
undo what its successor did. The same owner may change its own shares as often as it likes (1, 10,
50, 100 percent) under one epoch. Who owns a model stays in the plan also while it has no traffic.

Shares and mirrors are set apart, so that a step of a rollout neither starts nor silently stops a
comparison. What they mean is said in `serving.discovery.shares`.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from registry.wording import refuse_unknown
from serving import fence
from serving.discovery import errors, files, shares, typed
from serving.discovery.shares import Mirror, ModelTraffic, Weight, whole
from serving.errors import StaleEpoch

__all__ = [
    "FORMAT", "Mirror", "ModelTraffic", "TrafficPlan", "Weight", "apply", "claim", "from_json",
    "load", "mirror", "steer", "store", "to_json", "whole",
]  # fmt: skip

FORMAT = "liftlock/traffic/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficPlan:
    """The shares of every model behind the edge. The first model is the default one."""

    epoch: int
    """The highest that anybody has steered or claimed a model under."""
    models: tuple[ModelTraffic, ...] = ()
    claims: tuple[fence.Claim, ...] = ()
    """Who owns each model, those without shares included."""

    def __post_init__(self) -> None:
        if self.epoch < 0:
            raise ValueError(f"epoch must be at least 0, found {self.epoch}")
        for listed in ((t.model for t in self.models), (c.model for c in self.claims)):
            twice = [m for m, n in Counter(listed).items() if n > 1]
            if twice:
                raise ValueError(f"models {twice} are listed more than once")

    def model(self, name: str) -> ModelTraffic | None:
        """The shares of one model, or None when the plan does not name it."""
        return next((traffic for traffic in self.models if traffic.model == name), None)

    def claim(self, model: str) -> fence.Claim | None:
        """Who owns one model, or None when nobody ever did."""
        return next((claim for claim in self.claims if claim.model == model), None)

    def with_model(self, traffic: ModelTraffic) -> TrafficPlan:
        """This plan with one model's shares replaced (or added last)."""
        known = self.model(traffic.model) is not None
        replaced = tuple(traffic if m.model == traffic.model else m for m in self.models)
        return dataclasses.replace(self, models=replaced if known else (*self.models, traffic))

    def without_model(self, model: str) -> TrafficPlan:
        """This plan with one model's shares taken out; its requests are answered 404."""
        left = tuple(traffic for traffic in self.models if traffic.model != model)
        return dataclasses.replace(self, models=left)

    def with_claim(self, claim: fence.Claim) -> TrafficPlan:
        """This plan with one model's owner replaced (or added last)."""
        others = tuple(c for c in self.claims if c.model != claim.model)
        epoch = max(self.epoch, claim.epoch)
        return dataclasses.replace(self, epoch=epoch, claims=(*others, claim))


def apply(current: TrafficPlan | None, new: TrafficPlan) -> TrafficPlan:
    """The plan in force after `new` was offered; raises StaleEpoch where it would bring a former
    owner back."""
    if current is None:
        return new
    if new.epoch < current.epoch:
        raise StaleEpoch(
            f"refused a traffic plan of epoch {new.epoch}: epoch {current.epoch} is in force. "
            f"Another rollout took over since; start again from the current state"
        )
    for claim in current.claims:
        offered = new.claim(claim.model)
        if offered is None or offered.epoch < claim.epoch:
            raise fence.refusal(claim, offered.epoch if offered else 0, "take a traffic plan")
    return new


def claim(current: TrafficPlan | None, offered: fence.Claim) -> TrafficPlan:
    """The plan that says who owns a model from now on; shares and other models stay.

    Raises StaleEpoch when another owner is in force.
    """
    plan = current or TrafficPlan(epoch=0)
    known = plan.claim(offered.model)
    return plan.with_claim(fence.admit(known, offered, f"steer the traffic of {offered.model}"))


def steer(
    current: TrafficPlan | None, model: str, traffic: ModelTraffic | None, *, epoch: int
) -> TrafficPlan:
    """The plan after one model's owner changed its shares, or took it out (None).

    Mirrors stay as `shares.after_step` says. Raises StaleEpoch when another owner has claimed the
    model since, ValueError when `traffic` has mirrors, which are set with `mirror`.
    """
    if traffic is None:
        return _owned(current, model, epoch).without_model(model)
    if traffic.mirrors:
        raise ValueError(f"shares of {model} are set without mirrors; set those apart")
    plan = _owned(current, model, epoch)
    return plan.with_model(shares.after_step(plan.model(model), traffic))


def mirror(
    current: TrafficPlan | None, model: str, fractions: Mapping[int, float], *, epoch: int
) -> TrafficPlan:
    """The plan after one model's owner said which versions get copies of which fraction of its
    requests: these and no others. Shares stay.

    Raises StaleEpoch when another owner has claimed the model since, TrafficPlanInvalid when
    the model has no traffic to copy or the mirrors are none (see `shares.ModelTraffic`).
    """
    plan = _owned(current, model, epoch)
    known = plan.model(model)
    if known is None:
        raise errors.TrafficPlanInvalid(
            f"cannot mirror {model}: the traffic plan gives it no shares; set them first"
        )
    try:
        mirrors = tuple(Mirror(version=v, fraction=f) for v, f in fractions.items())
        return plan.with_model(dataclasses.replace(known, mirrors=mirrors))
    except ValueError as exc:
        raise errors.TrafficPlanInvalid(f"cannot mirror {model}: {exc}") from exc


def _owned(current: TrafficPlan | None, model: str, epoch: int) -> TrafficPlan:
    """The plan for the owner of a model to change; raises StaleEpoch for a former one."""
    plan = current or TrafficPlan(epoch=0)
    known = plan.claim(model)
    if known is not None and epoch < known.epoch:
        raise fence.refusal(known, epoch, f"change the traffic of {model}")
    if known is None or epoch > known.epoch:  # steered without a claim
        plan = plan.with_claim(fence.Claim(model=model, epoch=epoch, owner=""))
    return plan


def to_json(plan: TrafficPlan) -> dict[str, Any]:
    """The plan as it lies in its file."""
    epochs = {claim.model: claim.epoch for claim in plan.claims}
    models = [
        {
            "model": traffic.model,
            # Said twice: a process of an older release, woken up late, looks for it here.
            "epoch": epochs.get(traffic.model, 0),
            "weights": [dataclasses.asdict(weight) for weight in traffic.weights],
            "mirrors": [dataclasses.asdict(mirrored) for mirrored in traffic.mirrors],
        }
        for traffic in plan.models
    ]
    claims = [dataclasses.asdict(claim) for claim in plan.claims]
    return {"format": FORMAT, "epoch": plan.epoch, "models": models, "claims": claims}


def from_json(data: object) -> TrafficPlan:
    """Read a plan back; raises TrafficPlanInvalid and says which part is wrong."""
    try:
        return _parse(data)
    except (KeyError, TypeError, ValueError) as exc:
        raise errors.TrafficPlanInvalid(f"the traffic plan is not valid: {exc!s}") from exc


def _parse(data: object) -> TrafficPlan:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"expected an object with format {FORMAT!r}, found {str(data)[:80]!r}")
    # Passed over, it would be lost as soon as somebody changes the plan and writes it anew.
    refuse_unknown(data, ("format", "epoch", "models", "claims"))
    return TrafficPlan(
        epoch=typed.whole_number(data["epoch"], "epoch"),
        models=tuple(_model(item) for item in data["models"]),
        claims=tuple(_claim(item) for item in _claims(data)),
    )


def _model(item: Any) -> ModelTraffic:
    _refuse_unknown(item, ("model", "epoch", "weights", "mirrors"), "models")
    return ModelTraffic(
        model=typed.text(item["model"], "model"),
        weights=tuple(map(_weight, item["weights"])),
        mirrors=tuple(map(_mirror, item.get("mirrors", ()))),  # older files have none
    )


def _weight(item: Any) -> Weight:
    _refuse_unknown(item, ("version", "percent"), "models.weights")
    return Weight(
        version=typed.whole_number(item["version"], "version"),
        percent=typed.whole_number(item["percent"], "percent"),
    )


def _mirror(item: Any) -> Mirror:
    _refuse_unknown(item, ("version", "fraction"), "models.mirrors")
    return Mirror(
        version=typed.whole_number(item["version"], "version"),
        fraction=typed.number(item["fraction"], "fraction"),
    )


def _claims(data: Any) -> list[Any]:
    """The claims of a plan. Older files have each model's epoch beside its shares, and no owner."""
    for claim in data.get("claims", ()):
        _refuse_unknown(claim, ("model", "epoch", "owner"), "claims")
    return data["claims"] if "claims" in data else [m for m in data["models"] if m.get("epoch")]


def _refuse_unknown(item: Any, known: tuple[str, ...], place: str) -> None:
    refuse_unknown(typed.mapping(item, f"each of {place}"), known, f"{place}.")


def _claim(item: Any) -> fence.Claim:
    return fence.Claim(
        model=typed.text(item["model"], "model"),
        epoch=typed.whole_number(item["epoch"], "epoch"),
        owner=typed.text(item.get("owner", ""), "owner"),
    )


def load(path: Path) -> TrafficPlan | None:
    """The plan in a file, None when there is no file; raises TrafficPlanInvalid."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        data = json.loads(raw)
    except (ValueError, RecursionError) as exc:  # nested too deeply is one
        raise errors.TrafficPlanInvalid(f"{path} is not JSON: {exc}. Publish it anew") from exc
    return from_json(data)


def store(path: Path, plan: TrafficPlan) -> None:
    """Write a plan so that it survives a crash and no reader sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, json.dumps(to_json(plan), indent=1).encode(), durable=True)
