"""A world to sweep in: stand-in workers that write what the real ones would."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from evals import speed
from evals.pace import Turn
from pipelines import config as configs
from pipelines import worker
from pipelines.errors import StageFailed
from pipelines.quantize import GroupError, QuantizeResult
from pipelines.quantizing import Request
from pipelines.recipe import Recipe
from pipelines.sensitivity import GRANULARITIES, RESULT_FILE, LayerError, Sensitivity
from registry import checkpoint
from registry.manifest import Manifest
from registry.model import content_digest
from tests.fakes import checkpoints
from tests.fakes import world as worlds

GROUPS = ("model.layers.0.self_attn", "model.layers.0.mlp", "model.layers.1.self_attn")
SECONDS = {"parent": 1.0, "fp8-tensor-mlp": 0.8, "fp8-channel-mlp": 0.7, "fp8-tensor-attn": 0.5}
"""Of one turn; others take 0.9."""


@dataclasses.dataclass
class SweepWorld:
    """A place to sweep in, what its workers were asked, and what they are to do."""

    base: worlds.World
    asked: Counter[str] = dataclasses.field(default_factory=Counter)
    wrong: dict[str, int] = dataclasses.field(default_factory=dict)
    """Wrong answers by scheme label; below zero the engine cannot run it."""
    online: bool = True
    """Whether the engine can quantize while loading."""
    stop_at: str = ""
    """A module whose next call is interrupted."""
    slowness: float = 1.0
    """Of all variants."""

    def request(self, **settings: Any) -> Request:
        directory = self.base.folder / "ck1"
        if not directory.exists():
            checkpoints.make(directory, seed=1)
        config = configs.parse({"suites": ["suite.yaml"], **settings}, source="test")
        return Request(
            checkpoint=checkpoint.inspect(directory),
            config=config,
            config_folder=self.base.folder,
        )

    def run(
        self, module: str, request: Mapping[str, Any], out: Path,
        progress: Callable[[str], None], *, threads: int | None = None,
    ) -> None:  # fmt: skip
        self.asked[module] += 1
        if self.stop_at == module:
            self.stop_at = ""
            raise KeyboardInterrupt
        bodies = {
            "pipelines.quantize": _quantize,
            "pipelines.sensitivity": _sensitivity,
            "evals.speed": self._speed,
            "evals.harness": self._harness,
        }
        bodies[module](request, out)

    def _harness(self, request: Mapping[str, Any], out: Path) -> None:
        online = "quantization" in request["engine"]
        if online and not self.online:
            raise StageFailed("this build has no such kernel")
        manifest = Manifest.from_json(Path(request["manifest"]).read_text())
        scheme = checkpoint.inspect(Path(request["checkpoint_dir"])).scheme
        wrong = self.wrong.get(scheme.label if scheme else "online" if online else "parent", 0)
        if wrong < 0:
            raise StageFailed("this build has no such kernel")
        for path in request["suites"]:
            made = worlds.answers(Path(path), manifest.digest, wrong)
            made = dataclasses.replace(made, runtime_digest=content_digest(request["engine"]))
            (out / f"outcomes-{made.suite}.json").write_text(made.to_json())
        (out / "harness.json").write_text("{}")

    def _speed(self, request: Mapping[str, Any], out: Path) -> None:
        read = speed.Request.from_dict(request)
        assert read.arms[0].name == "parent"
        turns = [
            Turn(
                arm=arm.name, round=number, requests=len(read.prompts), busy_s=0.1,
                wall_s=(1 + number) * SECONDS.get(arm.name, 0.9)
                * (1.0 if arm.name == "parent" else self.slowness),
            )
            for number in range(read.rounds)
            for arm in read.arms
        ]  # fmt: skip
        result = speed.Result(turns=tuple(turns), failed={})
        (out / speed.RESULT_FILE).write_text(result.to_json())


def _quantize(request: Mapping[str, Any], out: Path) -> None:
    recipe = Recipe(**{**request["recipe"], "ignore": tuple(request["recipe"]["ignore"])})
    made = checkpoints.make_fp8(
        out / "checkpoint", attention=recipe.attention, weights=recipe.weights,
        ignore=recipe.ignore,
    )  # fmt: skip
    size = sum(p.stat().st_size for p in made.glob("*.safetensors"))
    result = QuantizeResult(
        recipe=recipe.label, source_bytes=1000, variant_bytes=size, seconds=0.1,
        groups=(GroupError(group="up_proj", layers=1, relative_error=0.02, max_error=0.1),),
    )  # fmt: skip
    (out / "result.json").write_text(json.dumps(dataclasses.asdict(result)))


def _sensitivity(request: Mapping[str, Any], out: Path) -> None:
    assert request["texts"]
    (out / RESULT_FILE).write_text(sensitivity().to_json())


def sensitivity() -> Sensitivity:
    """The last group suffers most."""
    return Sensitivity(
        errors=tuple(
            LayerError(group=g, weights=w, weight_error=0.02, output_error=0.03)
            for g in GROUPS
            for w in GRANULARITIES
        ),
        divergence={g: 0.001 * (n + 1) for n, g in enumerate(GROUPS)},
        tokens=640,
    )


def make(folder: Path, monkeypatch: pytest.MonkeyPatch, *, examples: int = 600) -> SweepWorld:
    """A sweep world in memory."""
    made = SweepWorld(base=worlds.make(folder, monkeypatch, examples=examples))
    monkeypatch.setattr(worker, "run", made.run)
    return made
