"""Makes an FP8 variant of a checkpoint with llm-compressor, and measures its weight errors.

Runs as a worker process (`python -m pipelines.quantize --request FILE --out DIR`), so that its
memory is gone when it ends. The only module that imports llm-compressor. One-shot without
calibration data: weights get static scales, activations are scaled per token while serving.
"""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import StageFailed
from pipelines.recipe import Recipe
from pipelines.worker import main_of

WRITTEN_BY_SAVE = ("config.json", "generation_config.json", "model.safetensors.index.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupError:
    """How far FP8 weights lie from the originals, over all layers of one kind."""

    group: str
    """The projection's name, such as q_proj or down_proj."""
    layers: int
    relative_error: float
    """Frobenius norm of the difference over that of the original."""
    max_error: float
    """Largest absolute difference of one weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantizeResult:
    """What the quantize worker reports."""

    recipe: str
    source_bytes: int
    variant_bytes: int
    groups: tuple[GroupError, ...]
    seconds: float

    @property
    def size_ratio(self) -> float:
        """Variant size over source size, weights files only."""
        return self.variant_bytes / self.source_bytes

    @classmethod
    def from_json(cls, text: str) -> QuantizeResult:
        """Reads what the worker wrote."""
        raw = json.loads(text)
        groups = tuple(GroupError(**g) for g in raw.pop("groups"))
        return cls(**raw, groups=groups)


def quantize(source: Path, target: Path, recipe: Recipe) -> QuantizeResult:
    """Writes the variant of `source` into the new directory `target`.

    Raises:
        StageFailed: the model cannot be loaded or has no layer that the recipe covers.
    """
    started = time.monotonic()
    print("progress loading the model", flush=True)
    model = load_model(source)
    print(f"progress applying {recipe.label}", flush=True)
    _apply(model, recipe)
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    model.save_pretrained(part, safe_serialization=True)
    _copy_rest(source, part)
    print("progress comparing weights", flush=True)
    groups = tuple(_group_errors(source, part))
    if not groups:
        raise StageFailed(
            f"recipe {recipe.label} left every layer of {source} as it was; its ignore list covers "
            "the whole model"
        )
    part.rename(target)
    return QuantizeResult(
        recipe=recipe.label,
        source_bytes=_weight_bytes(source),
        variant_bytes=_weight_bytes(target),
        groups=groups,
        seconds=round(time.monotonic() - started, 2),
    )


def load_model(source: Path) -> Any:
    """The model of a checkpoint directory in BF16.

    Raises:
        StageFailed: it cannot be loaded.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(
            source, dtype=torch.bfloat16, local_files_only=True
        )
    except (ValueError, KeyError, OSError, RuntimeError) as exc:
        raise StageFailed(
            f"the model in {source} cannot be loaded for quantization: {exc}. If its architecture "
            "is not known to transformers, quantize it where it was trained and promote that"
        ) from exc


def _apply(model: Any, recipe: Recipe) -> None:
    from llmcompressor import oneshot
    from llmcompressor.modifiers.quantization import QuantizationModifier

    ignore = list(recipe.ignored)
    if recipe.weights == "channel":
        modifier = QuantizationModifier(targets="Linear", scheme="FP8_DYNAMIC", ignore=ignore)
    else:
        scheme = {
            "targets": ["Linear"],
            "weights": _float8(strategy="tensor", dynamic=False),
            "input_activations": _float8(strategy="token", dynamic=True),
        }
        modifier = QuantizationModifier(config_groups={"group_0": scheme}, ignore=ignore)
    oneshot(model=model, recipe=modifier)


def _float8(**more: Any) -> dict[str, Any]:
    return {"num_bits": 8, "type": "float", "symmetric": True, **more}


def _copy_rest(source: Path, target: Path) -> None:
    """Tokenizer, prompt and cards, byte for byte: only weights and config may differ."""
    for path in sorted(source.rglob("*")):
        inside = path.relative_to(source)
        written = path.suffix == ".safetensors" or inside.as_posix() in WRITTEN_BY_SAVE
        if path.is_file() and not written:
            (target / inside).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target / inside)


def _group_errors(source: Path, variant: Path) -> Iterator[GroupError]:
    sums: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    originals = _tensors(source)
    quantized = _tensors(variant)
    for name in sorted(quantized):
        if not name.endswith(".weight_scale"):
            continue
        weight = name.removesuffix("_scale")
        original = originals(weight).float()
        restored = quantized(weight).float() * quantized(name).float().reshape(-1, 1)
        difference = restored - original
        sums[weight.split(".")[-2]].append(
            (
                float((difference**2).sum()),
                float((original**2).sum()),
                float(difference.abs().max()),
            )
        )
    for group, rows in sorted(sums.items()):
        yield GroupError(
            group=group,
            layers=len(rows),
            relative_error=math.sqrt(sum(r[0] for r in rows) / sum(r[1] for r in rows)),
            max_error=max(r[2] for r in rows),
        )


class _Tensors(Mapping[str, Path]):
    """Names of a checkpoint's tensors; calling it reads one."""

    def __init__(self, directory: Path) -> None:
        from safetensors import safe_open

        self._open = safe_open
        self._where: dict[str, Path] = {}
        for shard in sorted(directory.glob("*.safetensors")):
            with safe_open(str(shard), framework="pt") as handle:
                self._where.update(dict.fromkeys(handle.keys(), shard))

    def __call__(self, name: str) -> Any:
        with self._open(str(self._where[name]), framework="pt") as handle:
            return handle.get_tensor(name)

    def __getitem__(self, name: str) -> Path:
        return self._where[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)


def _tensors(directory: Path) -> _Tensors:
    return _Tensors(directory)


def _weight_bytes(directory: Path) -> int:
    return sum(p.stat().st_size for p in directory.glob("*.safetensors"))


def run_request(request: Mapping[str, Any], out: Path) -> None:
    """The worker's body: `{"source": DIR, "recipe": {...}}` -> OUT/checkpoint, OUT/result.json."""
    recipe = Recipe(**{**request["recipe"], "ignore": tuple(request["recipe"]["ignore"])})
    result = quantize(Path(request["source"]), out / "checkpoint", recipe)
    (out / "result.json").write_text(json.dumps(dataclasses.asdict(result)), encoding="utf-8")


if __name__ == "__main__":
    main_of(run_request)
