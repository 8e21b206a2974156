"""What a report is made from, in the words of the registry; what is not known is left empty."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from evals.evidence import Compared
from evals.noise import NoiseFloor
from evals.policy import GatePolicy
from evals.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One model of the comparison."""

    version: str
    """As a reader is to see it, for instance "version 3"."""
    digest: str
    recipe: str = "none"
    """How it was quantized, in words."""
    data: str = ""
    """Link to or id of the training run."""
    prompt: str = ""
    """The prompt template."""
    generation: str = ""
    """Generation settings, in words."""
    runtime: str = ""
    """Software and hardware it was evaluated with, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """What quantization changed. Errors are relative, by layer group; ratio is new size / old."""

    size_ratio: float
    weight_errors: tuple[tuple[str, float], ...]
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportInput:
    """Everything a report shows. `made_at` is shown as given."""

    model: str
    candidate: Side
    champion: Side | None
    verdict: Verdict
    policy: GatePolicy
    suites: tuple[Compared, ...]
    made_at: str = ""
    quantization: Quantization | None = None
    stages: tuple[tuple[str, float], ...] = ()
    """Stage name and wall seconds, in order."""
    noise: tuple[NoiseFloor, ...] = ()
    """The champion against itself, where it was run twice."""
    reproduce: tuple[str, ...] = ()
    """Commands, in order."""
    identities: tuple[tuple[str, str], ...] = ()
    """More digests and ids: what it is of, and the value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One thing that shapes a model's answers, on both sides."""

    what: str
    candidate: str
    champion: str

    @property
    def is_change(self) -> bool:
        """Whether the sides differ."""
        return self.candidate != self.champion

    @property
    def is_known(self) -> bool:
        """Whether both sides are known, so that equal means equal."""
        return bool(self.candidate and self.champion)


def changes(given: ReportInput) -> Iterator[Change]:
    """Everything that may have changed against the champion; nothing for a first version."""
    before, after = given.champion, given.candidate
    if before is None:
        return
    pairs = (
        ("weights", after.digest, before.digest),
        ("data link", after.data, before.data),
        ("recipe", after.recipe, before.recipe),
        ("prompt", after.prompt, before.prompt),
        ("generation settings", after.generation, before.generation),
        ("runtime", after.runtime, before.runtime),
    )
    for what, candidate, champion in pairs:
        if candidate or champion:
            yield Change(what=what, candidate=candidate, champion=champion)
