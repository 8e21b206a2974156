"""Which share of a model's requests each of its versions gets: one file, one owner at a time.

The one idea is the epoch. Whoever steers traffic (a rollout, a rollback) owns an epoch, and a
plan with an older epoch is refused, so that a rollout that was paused, replaced and woken up
again cannot undo what its successor did. The same owner may change its own plan as often as it
likes (1, 10, 50, 100 percent) under one epoch.

A version listed with 0 percent is a standby: it answers only when no version with weight has a
ready endpoint. A version that is not listed never answers.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serving.discovery import errors, files

WHOLE_PERCENT = 100
FORMAT = "liftlock/traffic/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One version's share in percent; 0 makes it a standby."""

    version: int
    percent: int

    def __post_init__(self) -> None:
        if self.version < 1:
            raise ValueError(f"version must be at least 1, found {self.version}")
        if not 0 <= self.percent <= WHOLE_PERCENT:
            raise ValueError(
                f"percent of version {self.version} must be 0 to 100, found {self.percent}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraffic:
    """The shares of one model's versions; they add up to 100 percent."""

    model: str
    weights: tuple[Weight, ...]
    epoch: int = 0
    """Of the owner that last steered or claimed this model; see `steer` and `claim`."""

    def __post_init__(self) -> None:
        if not self.model or not self.model.isascii() or not self.model.isprintable():
            raise ValueError(
                f"model must be a name of printable ASCII (it travels in a header), "
                f"found {self.model!r}"
            )
        twice = [v for v, n in Counter(w.version for w in self.weights).items() if n > 1]
        if twice:
            raise ValueError(f"versions {twice} of {self.model!r} are listed more than once")
        total = sum(w.percent for w in self.weights)
        if total != WHOLE_PERCENT:
            raise ValueError(f"percents of {self.model!r} must add up to 100, found {total}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficPlan:
    """The shares of every model behind the edge. The first model is the default one."""

    epoch: int
    models: tuple[ModelTraffic, ...] = ()

    def __post_init__(self) -> None:
        if self.epoch < 0:
            raise ValueError(f"epoch must be at least 0, found {self.epoch}")
        twice = [m for m, n in Counter(t.model for t in self.models).items() if n > 1]
        if twice:
            raise ValueError(f"models {twice} are listed more than once")

    def model(self, name: str) -> ModelTraffic | None:
        """The shares of one model, or None when the plan does not name it."""
        return next((traffic for traffic in self.models if traffic.model == name), None)

    def with_model(self, traffic: ModelTraffic, *, epoch: int) -> TrafficPlan:
        """This plan with one model's shares replaced (or added last), under `epoch`."""
        known = self.model(traffic.model) is not None
        replaced = tuple(traffic if m.model == traffic.model else m for m in self.models)
        return TrafficPlan(epoch=epoch, models=replaced if known else (*self.models, traffic))

    def without_model(self, model: str, *, epoch: int) -> TrafficPlan:
        """This plan with one model taken out, under `epoch`; its requests are answered 404."""
        left = tuple(traffic for traffic in self.models if traffic.model != model)
        return TrafficPlan(epoch=epoch, models=left)


def whole(model: str, version: int) -> ModelTraffic:
    """All of a model's requests to one version."""
    return ModelTraffic(model=model, weights=(Weight(version=version, percent=WHOLE_PERCENT),))


def apply(current: TrafficPlan | None, new: TrafficPlan) -> TrafficPlan:
    """The plan in force after `new` was offered; raises StaleEpoch when its owner is outdated."""
    if current is not None and new.epoch < current.epoch:
        raise errors.StaleEpoch(
            f"refused a traffic plan of epoch {new.epoch}: epoch {current.epoch} is in force. "
            f"Another rollout took over since; start again from the current state"
        )
    return new


def claim(current: TrafficPlan | None, model: str) -> tuple[int, TrafficPlan]:
    """A new owner's epoch for one model, and the plan that says so; other models keep theirs.

    From then on whoever steered the model before is refused.
    """
    plan = current or TrafficPlan(epoch=0)
    mine = plan.model(model)
    epoch = max(plan.epoch, mine.epoch if mine is not None else 0) + 1
    if mine is None:
        return epoch, dataclasses.replace(plan, epoch=epoch)
    return epoch, plan.with_model(dataclasses.replace(mine, epoch=epoch), epoch=epoch)


def steer(
    current: TrafficPlan | None, model: str, traffic: ModelTraffic | None, *, epoch: int
) -> TrafficPlan:
    """The plan after one model's owner changed its shares, or took it out (None).

    Raises StaleEpoch when another owner has claimed the model since.
    """
    plan = current or TrafficPlan(epoch=0)
    mine = plan.model(model)
    if mine is not None and epoch < mine.epoch:
        raise errors.StaleEpoch(
            f"refused to change the traffic of {model} under epoch {epoch}: epoch {mine.epoch} has "
            "taken over since; see `liftlock status` and start again from the current state"
        )
    newest = max(plan.epoch, epoch)
    if traffic is None:
        return plan.without_model(model, epoch=newest)
    return plan.with_model(dataclasses.replace(traffic, epoch=epoch), epoch=newest)


def to_json(plan: TrafficPlan) -> dict[str, Any]:
    """The plan as it lies in its file."""
    models = [
        {
            "model": traffic.model,
            "epoch": traffic.epoch,
            "weights": [{"version": w.version, "percent": w.percent} for w in traffic.weights],
        }
        for traffic in plan.models
    ]
    return {"format": FORMAT, "epoch": plan.epoch, "models": models}


def from_json(data: object) -> TrafficPlan:
    """Read a plan back; raises TrafficPlanInvalid and says which part is wrong."""
    try:
        return _parse(data)
    except (KeyError, TypeError, ValueError) as exc:
        raise errors.TrafficPlanInvalid(f"the traffic plan is not valid: {exc!s}") from exc


def _parse(data: object) -> TrafficPlan:
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"expected an object with format {FORMAT!r}, found {str(data)[:80]!r}")
    models = tuple(
        ModelTraffic(
            model=_text(item["model"], "model"),
            epoch=_whole_number(item.get("epoch", 0), "epoch"),
            weights=tuple(
                Weight(
                    version=_whole_number(weight["version"], "version"),
                    percent=_whole_number(weight["percent"], "percent"),
                )
                for weight in item["weights"]
            ),
        )
        for item in data["models"]
    )
    return TrafficPlan(epoch=_whole_number(data["epoch"], "epoch"), models=models)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, found {value!r}")
    return value


def _whole_number(value: object, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, found {value!r}")
    return value


def load(path: Path) -> TrafficPlan | None:
    """The plan in a file, None when there is no file; raises TrafficPlanInvalid."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        data = json.loads(raw)
    except ValueError as exc:
        raise errors.TrafficPlanInvalid(f"{path} is not JSON: {exc}. Publish it anew") from exc
    return from_json(data)


def store(path: Path, plan: TrafficPlan) -> None:
    """Write a plan so that it survives a crash and no reader sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomic(path, json.dumps(to_json(plan), indent=1).encode(), durable=True)
