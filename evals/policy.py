"""What a candidate must show, as data: metrics, margins, error level, power, floors, families.

A policy has a digest because a verdict means nothing without the rule that made it; the policy is
stored with the verdict.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from evals.suite import SuiteKind
from registry.wording import check_line

FORMAT = "liftlock/gate-policy/v2"
PSI = (0.01, 0.02, 0.05)
"""Shares of examples that change sides, assumed where nothing was measured: a good FP8 variant, a
usual one, another training run."""


LEAST_POINTS = 1e-3
"""Smallest margin; to show it takes a thousand million examples."""
LEAST_LIMIT = 1e-6
NAME_LIMIT_CHARS = 100


class Direction(StrEnum):
    """Which way a metric is good."""

    HIGHER = "higher"
    LOWER = "lower"


class Unit(StrEnum):
    """What is drawn anew in a resample, and so what a claim is about."""

    AUTO = "auto"  # clusters where they are enough to speak for others, else examples
    CLUSTER = "cluster"  # documents or paradigms like these
    EXAMPLE = "example"  # these documents or paradigms only


@dataclass(frozen=True, slots=True, kw_only=True)
class Floors:
    """Least share of right answers, 0..1, for a first version, which has no champion."""

    correction: float = 0.95
    """Sentences fixed."""
    clean: float = 0.95
    """Clean sentences left alone."""
    tag: float = 0.90
    """Each tag; lower, because a tag has fewer examples and its bounds are wider."""

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            _check_share(f"floor {item.name}", getattr(self, item.name))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOverride:
    """What one suite, or one metric of it, is judged by; None keeps what the policy says.

    A metric that is named is judged besides those that the suite is judged by anyway.
    """

    suite: str
    metric: str | None = None
    """Name in the metric registry; None is for all metrics of the suite."""
    gated: bool = True
    """False: this metric is reported and decides nothing."""
    direction: Direction | None = None
    margin_points: float | None = None
    tag_margin_points: float | None = None
    alpha: float | None = None
    power: float | None = None
    floor: float | None = None
    """Least value for a first version, 0..1; corpus scores have none unless it is given."""
    tag_floor: float | None = None
    unit: Unit | None = None
    """None is auto."""
    max_flip_rate: float | None = None
    """As in the policy; only where no metric is named."""

    def __post_init__(self) -> None:
        name = f"override {self.suite}" + (f" {self.metric}" if self.metric else "")
        _check_points(f"{name} margin_points", self.margin_points)
        _check_points(f"{name} tag_margin_points", self.tag_margin_points)
        _check_alpha(f"{name} alpha", self.alpha)
        _check_power(f"{name} power", self.power)
        _check_share(f"{name} floor", self.floor)
        _check_share(f"{name} tag_floor", self.tag_floor)
        _check_limit(f"{name} max_flip_rate", self.max_flip_rate)
        if self.metric is None and not self.gated:
            raise ValueError(f"gate {name}: gated: false needs the metric that is not to decide")
        if self.metric is not None and self.max_flip_rate is not None:
            raise ValueError(f"gate {name}: max_flip_rate is of a suite, leave the metric out")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Suites judged together: one gate over all their examples, weighted by their number.

    Its suites are then not judged one by one by this metric, unless a margin is given for that.
    """

    name: str
    suites: tuple[str, ...]
    metric: str | None = None
    """None: the first metric of each suite, which must then be the same for all."""
    margin_points: float | None = None
    member_margin_points: float | None = None
    """Judge each suite too, by this wider margin, so that none can be lost in the mean."""
    alpha: float | None = None
    power: float | None = None
    floor: float | None = None
    unit: Unit = Unit.AUTO

    def __post_init__(self) -> None:
        _check_name("family name", self.name)
        name = f"family {self.name}"
        if len(self.suites) < 2 or len(set(self.suites)) != len(self.suites):
            raise ValueError(f"gate {name} needs two suites or more, each once, got {self.suites}")
        _check_points(f"{name} margin_points", self.margin_points)
        _check_points(f"{name} member_margin_points", self.member_margin_points)
        _check_alpha(f"{name} alpha", self.alpha)
        _check_power(f"{name} power", self.power)
        _check_share(f"{name} floor", self.floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatePolicy:
    """The rule of a gate.

    Raises:
        ValueError: a field is out of its bounds, or a suite is overridden twice.
    """

    margin_points: float = 2.0
    """How much worse a suite may be, in percentage points; more than noise, less than users see."""
    alpha: float = 0.05
    """Chance that a candidate exactly at the margin passes one gate."""
    power: float = 0.8
    """Chance that an equal candidate ought to pass one gate; advice on sizes aims at it."""
    per_tag: bool = True
    """Judge every tag too, so that one lost skill cannot hide in a mean."""
    tag_margin_points: float | None = 5.0
    """The same for one tag, in percentage points; None takes `margin_points`. Wider, because a tag
    has fewer examples: with 400, of which 2 % changed sides, the exact test can show 5 points
    with near certainty and 2 points hardly ever."""
    floors: Floors = field(default_factory=Floors)
    """What a first version is held against."""
    max_false_positive_rate: float | None = None
    """Most clean sentences that may be edited, 0..1, whatever the champion did; None: no limit."""
    max_flip_rate: float | None = None
    """Most answers that may change sides against the champion, right or wrong alike, 0..1; for
    variants that ought to answer alike, such as quantized ones. None: no limit."""
    overrides: tuple[SuiteOverride, ...] = ()
    """Suites and metrics with rules of their own."""
    families: tuple[Family, ...] = ()
    """Suites judged together."""
    optional_suites: tuple[str, ...] = ()
    """Suites that are judged if their data is there; any other that is absent does not pass."""

    def __post_init__(self) -> None:
        _check_points("margin_points", self.margin_points)
        _check_points("tag_margin_points", self.tag_margin_points)
        _check_alpha("alpha", self.alpha)
        _check_power("power", self.power)
        _check_limit("max_false_positive_rate", self.max_false_positive_rate)
        _check_limit("max_flip_rate", self.max_flip_rate)
        named = [
            item.suite if item.metric is None else f"{item.suite} {item.metric}"
            for item in self.overrides
        ]
        _check_once("overrides must name each suite once", named)
        _check_once("families need names of their own", [item.name for item in self.families])
        _check_once("families must not share a suite", [s for f in self.families for s in f.suites])

    @property
    def digest(self) -> str:
        """`sha256:<hex>` of the canonical content."""
        content = {"format": FORMAT, **self.as_dict()}
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as JSON would hold it."""
        plain: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(self)))
        return plain

    def override(self, suite: str, metric: str | None) -> SuiteOverride:
        """What is said of a metric of a suite, each field as narrowly as it is said."""
        empty = SuiteOverride(suite=suite)
        of_suite = self._said(suite, None) or empty
        of_metric = (self._said(suite, metric) if metric is not None else None) or empty
        narrow = {
            item.name: getattr(of_metric, item.name)
            for item in dataclasses.fields(SuiteOverride)
            if getattr(of_metric, item.name) is not None
        }
        return dataclasses.replace(of_suite, **{**narrow, "max_flip_rate": None})

    def flip_rate(self, suite: str) -> float | None:
        """Most answers of a suite that may change sides, 0..1; None: no limit."""
        said = self._said(suite, None)
        if said is not None and said.max_flip_rate is not None:
            return said.max_flip_rate
        return self.max_flip_rate

    def _said(self, suite: str, metric: str | None) -> SuiteOverride | None:
        return next((o for o in self.overrides if (o.suite, o.metric) == (suite, metric)), None)

    def family_of(self, suite: str) -> Family | None:
        """The family that judges a suite together with others."""
        return next((family for family in self.families if suite in family.suites), None)

    def margin(
        self, suite: str, *, is_tag: bool, metric: str | None = None, hint: float | None = None
    ) -> float:
        """The margin of a suite, or of each of its tags, in percentage points, positive.

        `hint` is what the suite itself proposes; it wins over the policy's general margin and
        yields to an override.
        """
        said = self.override(suite, metric)
        of_suite = _first(said.margin_points, hint, self.margin_points)
        return (
            _first(said.tag_margin_points, self.tag_margin_points, of_suite) if is_tag else of_suite
        )

    def floor(self, kind: SuiteKind, *, is_tag: bool) -> float:
        """The floor of a first version, 0..1, for the share of right answers."""
        if is_tag:
            return self.floors.tag
        return self.floors.clean if kind is SuiteKind.CLEAN else self.floors.correction


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)


def _check_points(name: str, value: float | None) -> None:
    if value is not None and not LEAST_POINTS <= value <= 100.0:
        raise ValueError(
            f"gate {name} must be at least {LEAST_POINTS} and at most 100 points, got {value}"
        )


def _check_name(what: str, name: str) -> None:
    if not name.strip():
        raise ValueError(f"gate {what} must not be blank")
    check_line(f"gate {what}", name, NAME_LIMIT_CHARS)


def _check_limit(name: str, value: float | None) -> None:
    _check_share(name, value)
    if value is not None and value < LEAST_LIMIT:
        raise ValueError(
            f"gate {name} must be at least {LEAST_LIMIT}, got {value}; no number of examples shows "
            "that something never happens"
        )


def _check_share(name: str, value: float | None) -> None:
    if value is not None and not 0.0 <= value <= 1.0:
        raise ValueError(f"gate {name} must be 0..1, got {value}")


def _check_alpha(name: str, value: float | None) -> None:
    if value is not None and not 0.001 < value <= 0.5:
        raise ValueError(f"gate {name} must be above 0.001 and at most 0.5, got {value}")


def _check_power(name: str, value: float | None) -> None:
    if value is not None and not 0.5 <= value < 1.0:
        raise ValueError(f"gate {name} must be at least 0.5 and below 1, got {value}")


def _check_once(what: str, names: Iterable[str]) -> None:
    listed = list(names)
    if len(set(listed)) != len(listed):
        raise ValueError(f"gate {what}, got {', '.join(listed)}")
