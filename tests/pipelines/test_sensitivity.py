"""The sensitivity pass on a real small model, held against what the quantizer writes."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from pathlib import Path

import pytest

from pipelines import quantize, sensitivity, sweep_plan, worker
from pipelines.errors import StageFailed
from pipelines.recipe import Recipe
from pipelines.sensitivity import RESULT_FILE, Sensitivity, group_of
from registry import checkpoint

TINY = Path(__file__).resolve().parents[2] / "examples" / "checkpoints" / "tiny-gec-1"
TEXTS = [f"Correct: She have {n} dog .\nFixed: She has {n} dogs." for n in range(8)]


def test_a_result_survives_its_file_and_ranks_the_worst_first() -> None:
    error = sensitivity.LayerError(
        group="a.mlp", weights="tensor", weight_error=0.02, output_error=0.1
    )
    made = Sensitivity(errors=(error,), divergence={"a.mlp": 0.1, "b.mlp": 0.3}, tokens=9)
    assert Sensitivity.from_json(made.to_json()) == made
    assert made.ranked == ("b.mlp", "a.mlp")
    assert error.output_sqnr_db == pytest.approx(20.0)
    assert group_of("model.layers.0.mlp.up_proj") == "model.layers.0.mlp"


@pytest.mark.slow
def test_one_recipe_and_the_sensitivity_pass_on_the_demo_checkpoint(tmp_path: Path) -> None:
    recipe = Recipe(weights="tensor")
    quantizing = {"source": str(TINY), "recipe": dataclasses.asdict(recipe)}
    worker.run("pipelines.quantize", quantizing, tmp_path / "q", lambda _: None, threads=1)
    told: list[str] = []
    request = {"source": str(TINY), "texts": TEXTS, "ignore": list(recipe.ignore)}
    worker.run("pipelines.sensitivity", request, tmp_path / "s", told.append, threads=1)
    found = Sensitivity.from_json((tmp_path / "s" / RESULT_FILE).read_text())

    groups = {f"model.layers.{n}.{kind}" for n in range(3) for kind in ("self_attn", "mlp")}
    assert set(found.divergence) == groups
    assert told[-1] == "divergence, text 1 of 8"
    assert all(0.0 < value < 0.1 for value in found.divergence.values())
    errors = {(e.group, e.weights): e for e in found.errors}
    for group in groups:
        tensor, channel = errors[group, "tensor"], errors[group, "channel"]
        assert channel.weight_error <= tensor.weight_error < 2**-4
        # Weights and inputs are rounded independently, so the errors add in squares.
        assert channel.weight_error < channel.output_error < 2**-4
        assert tensor.weight_sqnr_db == pytest.approx(-20 * math.log10(tensor.weight_error))
    written = written_errors(tmp_path / "q" / "checkpoint")
    assert set(written) == groups
    for group, value in written.items():
        assert errors[group, "tensor"].weight_error == pytest.approx(value, rel=0.01)


def written_errors(made: Path) -> dict[str, float]:
    """Relative errors of the weights that the quantizer wrote, by layer group."""
    originals, tensors = quantize._tensors(TINY), quantize._tensors(made)
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for name in tensors:
        if name.endswith(".weight_scale"):
            weight = name.removesuffix("_scale")
            original = originals(weight).float()
            restored = tensors(weight).float() * tensors(name).float().reshape(-1, 1)
            of = sums[group_of(weight.removesuffix(".weight"))]
            of[0] += float(((restored - original) ** 2).sum())
            of[1] += float((original**2).sum())
    return {group: math.sqrt(lost / whole) for group, (lost, whole) in sums.items()}


@pytest.mark.slow
def test_a_group_that_is_excluded_stays_as_it_was(tmp_path: Path) -> None:
    (planned, *_) = sweep_plan.exclusions(
        Recipe(), ["model.layers.1.mlp", "model.layers.0.self_attn", "model.layers.0.mlp"]
    )
    request = {"source": str(TINY), "recipe": dataclasses.asdict(planned.recipe)}
    worker.run("pipelines.quantize", request, tmp_path, lambda _: None, threads=1)
    made = checkpoint.inspect(tmp_path / "checkpoint")
    assert made.scheme is not None
    assert made.scheme.label == planned.recipe.label
    assert made.scheme.layers == 3 * 7 - 3
    scaled = [n for n in quantize._tensors(tmp_path / "checkpoint") if n.endswith("_scale")]
    assert not any(n.startswith("model.layers.1.mlp.") for n in scaled)
    assert json.loads((tmp_path / "result.json").read_text())["recipe"] == "fp8-channel-attn"


@pytest.mark.slow
def test_a_model_without_a_layer_to_quantize_is_refused(tmp_path: Path) -> None:
    request = {"source": str(TINY), "texts": TEXTS, "ignore": ["re:.*"]}
    with pytest.raises(StageFailed, match="no Linear layer outside"):
        worker.run("pipelines.sensitivity", request, tmp_path, lambda _: None, threads=1)
