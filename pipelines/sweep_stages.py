"""The stages that only a sweep has: sensitivity of layers, and speed beside each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from evals import runtime
from evals import speed as engines
from evals.pace import Pace, paces
from pipelines import sensitivity as layers
from pipelines import worker
from pipelines.place import Place
from pipelines.sensitivity import Sensitivity
from pipelines.stage import Result, StageRun, Stages
from pipelines.sweep_row import PARENT
from pipelines.sweep_table import layer_columns
from pipelines.variants import TOOLS
from registry import cache
from registry.engine_settings import EngineSettings
from registry.model import ModelVersion, content_digest
from registry.prompt_file import MANIFEST_FILE
from registry.versions_of import package_versions

ONLINE = "online-fp8"
"""The open baseline: the parent, quantized by the engine while it loads it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """A variant as an engine runs it; the parent is one too."""

    name: str
    version: ModelVersion
    engine: EngineSettings
    size_bytes: int
    """Weight files."""
    excluded: tuple[str, ...] = ()
    """Layer groups left in BF16."""
    weight_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """Whose speed to measure, on what, how often; the parent is the first."""

    arms: tuple[Arm, ...]
    prompts: tuple[str, ...]
    rounds: int


def sensitivity(
    base: ModelVersion, texts: Sequence[str], ignore: Sequence[str], place: Place, stages: Stages
) -> Sensitivity:
    """Runs the sensitivity stage.

    Raises:
        StageFailed: the worker failed.
    """

    def body(run: StageRun) -> Result:
        folder = cache.fetch(place.record.versions, base, place.cache)
        request = {"source": str(folder), "texts": list(texts), "ignore": list(ignore)}
        with worker.scratch(place.work, "sensitivity") as out:
            run.work("pipelines.sensitivity", request, out)
            text = (out / layers.RESULT_FILE).read_text(encoding="utf-8")
        found = Sensitivity.from_json(text)
        run.text(layers.RESULT_FILE, text)
        run.evidence.table(run.run_id, "layer_error.json", layer_columns(found))
        run.metrics({f"divergence/{group}": v for group, v in found.divergence.items()})
        worst = found.ranked[0]
        summary = (
            f"{len(found.divergence)} layer groups, most sensitive {worst} "
            f"({found.divergence[worst]:.1e} nats a token)"
        )
        return {"found": json.loads(text), "summary": summary}

    inputs = {
        "checkpoint": base.digest,
        "texts": content_digest(list(texts)),
        "ignore": list(ignore),
        "tools": package_versions(TOOLS),
    }
    result = stages.run("sensitivity", inputs, body)
    return Sensitivity.from_json(json.dumps(result["found"]))


def speed(
    question: Question, place: Place, stages: Stages, *, threads: int | None
) -> engines.Result:
    """Runs the speed stage: every engine in one worker, in turns.

    Raises:
        StageFailed: the worker failed.
    """

    def body(run: StageRun) -> Result:
        request = engines.Request(
            arms=tuple(_arm(arm, place) for arm in question.arms),
            prompts=question.prompts,
            rounds=question.rounds,
        )
        with worker.scratch(place.work, "speed") as out:
            run.work("evals.speed", request.to_dict(), out, threads=threads)
            text = (out / engines.RESULT_FILE).read_text(encoding="utf-8")
        found = engines.Result.from_json(text)
        run.text(engines.RESULT_FILE, text)
        run.metrics(
            {f"requests_per_s/{n}": p.requests_per_s.value for n, p in _paces(found).items()}
        )
        summary = f"{len(question.arms) - len(found.failed)} engines in {question.rounds} rounds"
        return {"found": json.loads(text), "summary": summary}

    first = question.arms[0].engine
    inputs = {
        "arms": [[a.name, a.version.digest, a.engine.to_dict()] for a in question.arms],
        "prompts": content_digest(list(question.prompts)),
        "rounds": question.rounds,
        "runtime": runtime.runtime(first)["digest"],
        "threads": threads,
    }
    result = stages.run("speed", inputs, body)
    return engines.Result.from_json(json.dumps(result["found"]))


def _paces(found: engines.Result) -> dict[str, Pace]:
    return paces(found.turns, PARENT)


def _arm(arm: Arm, place: Place) -> engines.Arm:
    folder = cache.fetch(place.record.versions, arm.version, place.cache)
    return engines.Arm(
        name=arm.name,
        checkpoint_dir=str(folder),
        manifest=str(folder / MANIFEST_FILE),
        engine=arm.engine,
    )
