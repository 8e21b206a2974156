"""What a candidate must show, as data: margins, error level, floors.

A policy has a digest because a verdict means nothing without the rule that made it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field

from evals.suite import SuiteKind

FORMAT = "liftlock/gate-policy/v1"


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
            value = getattr(self, item.name)
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"gate floor {item.name} must be 0..1, got {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteOverride:
    """Margins of one suite, in percentage points; None keeps the policy's."""

    suite: str
    margin_points: float | None = None
    tag_margin_points: float | None = None

    def __post_init__(self) -> None:
        _check_margin(f"override {self.suite} margin_points", self.margin_points)
        _check_margin(f"override {self.suite} tag_margin_points", self.tag_margin_points)


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
    per_tag: bool = True
    """Judge every tag too, so that one lost skill cannot hide in a mean."""
    tag_margin_points: float | None = 5.0
    """The same for one tag, in percentage points; None takes `margin_points`. Wider, because a tag
    has fewer examples: with 400, of which 2 % changed sides, the exact test can show 5 points
    with near certainty and 2 points hardly ever."""
    floors: Floors = field(default_factory=Floors)
    """What a first version is held against."""
    overrides: tuple[SuiteOverride, ...] = ()
    """Suites with margins of their own."""

    def __post_init__(self) -> None:
        _check_margin("margin_points", self.margin_points)
        _check_margin("tag_margin_points", self.tag_margin_points)
        if not 0.001 < self.alpha <= 0.5:
            raise ValueError(f"gate alpha must be above 0.001 and at most 0.5, got {self.alpha}")
        named = [override.suite for override in self.overrides]
        if len(set(named)) != len(named):
            raise ValueError(f"gate overrides must name each suite once, got {', '.join(named)}")

    @property
    def digest(self) -> str:
        """`sha256:<hex>` of the canonical content."""
        content = {"format": FORMAT, **dataclasses.asdict(self)}
        canonical = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return "sha256:" + hashlib.sha256(canonical.encode()).hexdigest()

    def margin(self, suite: str, *, is_tag: bool) -> float:
        """The margin of a suite, or of each of its tags, in percentage points, positive."""
        chosen = next((item for item in self.overrides if item.suite == suite), None)
        of_suite = self.margin_points
        if chosen is not None and chosen.margin_points is not None:
            of_suite = chosen.margin_points
        if not is_tag:
            return of_suite
        if chosen is not None and chosen.tag_margin_points is not None:
            return chosen.tag_margin_points
        return of_suite if self.tag_margin_points is None else self.tag_margin_points

    def floor(self, kind: SuiteKind, *, is_tag: bool) -> float:
        """The floor of a first version, 0..1."""
        if is_tag:
            return self.floors.tag
        return self.floors.clean if kind is SuiteKind.CLEAN else self.floors.correction


def _check_margin(name: str, value: float | None) -> None:
    if value is not None and not 0.0 < value <= 100.0:
        raise ValueError(f"gate {name} must be above 0 and at most 100 points, got {value}")
