"""A gate's report from what the record knows of both versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals import report
from evals.noise import NoiseFloor
from evals.verdict import Verdict
from pipelines.question import Question
from pipelines.recipe import Aim
from pipelines.variants import CPU_NOTE
from registry.manifest import Generation
from registry.model import ModelVersion, Tag, short


@dataclass(frozen=True, slots=True, kw_only=True)
class Background:
    """What is known beside the question and its answers."""

    runtime: Mapping[str, Any]
    """What the candidate was evaluated with, as `evals.runtime` describes it."""
    champion_runtime: Mapping[str, Any]
    """What the champion was evaluated with; another one only where that is what changed."""
    made_at: str
    stages: tuple[tuple[str, float], ...]
    noise: tuple[NoiseFloor, ...] = ()
    """The champion against itself."""


def report_input(
    question: Question,
    compared: Sequence[report.Compared],
    verdict: Verdict,
    background: Background,
) -> report.ReportInput:
    """Everything the report shows."""
    champion = question.champion
    return report.ReportInput(
        model=question.config.model,
        candidate=_side(question.candidate, background.runtime),
        champion=_side(champion, background.champion_runtime) if champion is not None else None,
        verdict=verdict,
        policy=question.config.gates,
        suites=tuple(compared),
        made_at=background.made_at,
        quantization=_quantization(question),
        stages=background.stages,
        noise=background.noise,
        reproduce=_commands(question),
        identities=(("runtime", str(background.runtime["digest"])),),
    )


def _side(version: ModelVersion, made_with: Mapping[str, Any]) -> report.Side:
    return report.Side(
        version=f"version {version.version}",
        digest=version.digest,
        recipe=version.scheme,
        data=version.tags.get(Tag.LINEAGE, ""),
        prompt=version.manifest.prompt.template,
        generation=_generation(version.manifest.generation),
        runtime=_runtime(made_with),
    )


def _generation(given: Generation) -> str:
    stop = ", ".join(repr(text) for text in given.stop) or "none"
    return (
        f"max_tokens {given.max_tokens}, stop {stop}, temperature {given.temperature:g}, "
        f"top_p {given.top_p:g}, seed {given.seed}"
    )


def _runtime(made_with: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in made_with["versions"].items())
    engine = ", ".join(f"{name} {value}" for name, value in made_with["engine"].items())
    return f"{versions}; {made_with['hardware']}; {engine}"


def _commands(question: Question) -> tuple[str, ...]:
    """The settings are on the promotion's run, the checkpoint under its version."""
    model, candidate = question.config.model, question.candidate
    return (
        f"# promotion.yaml: artifact of this promotion's run; CHECKPOINT: {candidate.source}, "
        f"digest {short(candidate.digest)}",
        "liftlock gate power --config promotion.yaml",
        f"liftlock promote CHECKPOINT --model {model} --config promotion.yaml",
    )


def _quantization(question: Question) -> report.Quantization | None:
    measured = question.measured
    if measured is None:
        return None
    return report.Quantization(
        size_ratio=measured.size_ratio,
        weight_errors=tuple((g.group, g.relative_error) for g in measured.groups),
        note=CPU_NOTE if question.config.recipe.aim is Aim.MEMORY else "",
    )
