"""What happens to one model's requests: which versions answer them, which get copies (mirrors).

A version listed with 0 percent is a standby: it answers only when no version with weight has a
ready endpoint. A version that is not listed never answers.

A mirrored version gets copies of a fraction of the requests, whoever answers them, and what it says
to a copy is thrown away. It may have no weight, some, but not all of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

WHOLE_PERCENT = 100
LEAST_FRACTION = 0.0001
"""Edges draw in steps of this size."""
MOST_MIRRORS = 4
"""Each may cost an edge as much again as all the requests do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """One version's share in percent; 0 makes it a standby."""

    version: int
    percent: int

    def __post_init__(self) -> None:
        _require_version(self.version)
        if not 0 <= self.percent <= WHOLE_PERCENT:
            raise ValueError(
                f"percent of version {self.version} must be 0 to 100, found {self.percent}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """A version that gets copies of a fraction of the model's requests."""

    version: int
    fraction: float
    """Above 0, at most 1; edges round it to LEAST_FRACTION."""

    def __post_init__(self) -> None:
        _require_version(self.version)
        if not LEAST_FRACTION <= self.fraction <= 1:  # also for what is no number
            raise ValueError(
                f"mirrored fraction of version {self.version} must be {LEAST_FRACTION} to 1, found "
                f"{self.fraction}; to mirror nothing, leave the version out"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTraffic:
    """The shares of one model's versions, which add up to 100 percent, and its mirrors."""

    model: str
    weights: tuple[Weight, ...]
    mirrors: tuple[Mirror, ...] = ()

    def __post_init__(self) -> None:
        if not self.model or not self.model.isascii() or not self.model.isprintable():
            raise ValueError(
                f"model must be a name of printable ASCII (it travels in a header), "
                f"found {self.model!r}"
            )
        self._require_once("listed", (w.version for w in self.weights))
        self._require_once("mirrored", (m.version for m in self.mirrors))
        total = sum(w.percent for w in self.weights)
        if total != WHOLE_PERCENT:
            raise ValueError(f"percents of {self.model!r} must add up to 100, found {total}")
        if len(self.mirrors) > MOST_MIRRORS:
            raise ValueError(
                f"{self.model!r} may have {MOST_MIRRORS} mirrored versions at most, found "
                f"{len(self.mirrors)}"
            )
        self._require_others()

    def _require_once(self, what: str, versions: Iterable[int]) -> None:
        twice = [version for version, n in Counter(versions).items() if n > 1]
        if twice:
            raise ValueError(f"versions {twice} of {self.model!r} are {what} more than once")

    def _require_others(self) -> None:
        alone = self.alone
        if any(mirror.version == alone for mirror in self.mirrors):
            raise ValueError(
                f"version {alone} of {self.model!r} has all of the traffic and would get copies "
                f"of what it answers itself; mirror another version, or none"
            )

    @property
    def alone(self) -> int | None:
        """The version that has all of the traffic; None where several share it."""
        return next((w.version for w in self.weights if w.percent == WHOLE_PERCENT), None)


def whole(model: str, version: int) -> ModelTraffic:
    """All of a model's requests to one version."""
    return ModelTraffic(model=model, weights=(Weight(version=version, percent=WHOLE_PERCENT),))


def after_step(before: ModelTraffic | None, step: ModelTraffic) -> ModelTraffic:
    """A step of a rollout with the mirrors that outlast it; see docs/discovery.md.

    A step says who answers and leaves the mirrors alone, but for those that make no sense after it:
    of the version that now has all of the traffic, and of versions that it takes out of the shares,
    which are on their way out.
    """
    if before is None:
        return step
    left = {w.version for w in before.weights} - {w.version for w in step.weights}
    kept = tuple(m for m in before.mirrors if m.version not in left | {step.alone})
    return ModelTraffic(model=step.model, weights=step.weights, mirrors=kept)


def _require_version(version: int) -> None:
    if version < 1:
        raise ValueError(f"version must be at least 1, found {version}")
