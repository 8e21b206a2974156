"""Which layers suffer most from FP8, found on a model in memory by rounding as FP8 would.

Runs as a worker process (`python -m pipelines.sensitivity --request FILE --out DIR`). A layer group
is a decoder layer's attention or MLP, because an engine fuses the projections inside one and they
must be quantized alike. For each group, over calibration text:

* errors: how far FP8 weights and the outputs of its Linear layers lie from the originals, with one
  scale per tensor and with one per output channel; outputs with activations scaled per token too;
* divergence: mean Kullback-Leibler divergence, in nats a token, of the model's next-token
  distribution from the parent's, with this group alone in FP8.

The arithmetic is compressed-tensors': scale = largest magnitude / 448, values rounded to E4M3; a
test holds it against weights that the quantizer wrote.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import StageFailed
from pipelines.quantize import load_model
from pipelines.worker import main_of

RESULT_FILE = "sensitivity.json"
GRANULARITIES = ("tensor", "channel")
E4M3_MAX = 448.0
MAX_TOKENS = 512
"""Of one calibration text."""
TOLD_EVERY = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerError:
    """Errors of one layer group at one granularity."""

    group: str
    """Module name, such as `model.layers.0.mlp`."""
    weights: str
    """`tensor` or `channel`."""
    weight_error: float
    """Frobenius norm of the difference over that of the original."""
    output_error: float
    """The same of the outputs of its Linear layers, over all tokens."""

    @property
    def weight_sqnr_db(self) -> float:
        """Signal to quantization noise, decibels."""
        return sqnr_db(self.weight_error)

    @property
    def output_sqnr_db(self) -> float:
        """The same of the outputs."""
        return sqnr_db(self.output_error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """What the worker reports."""

    errors: tuple[LayerError, ...]
    divergence: Mapping[str, float]
    """Nats a token, by group."""
    tokens: int
    """Calibration tokens."""

    @property
    def ranked(self) -> tuple[str, ...]:
        """Groups, the most sensitive first."""
        return tuple(sorted(self.divergence, key=lambda g: (-self.divergence[g], g)))

    def to_json(self) -> str:
        """The stored form."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Sensitivity:
        """Reads the stored form."""
        raw = json.loads(text)
        errors = tuple(LayerError(**row) for row in raw.pop("errors"))
        return cls(**raw, errors=errors)


def sqnr_db(relative_error: float) -> float:
    """-20 log10 of a relative error; infinite where there is none."""
    return math.inf if relative_error == 0.0 else -20.0 * math.log10(relative_error)


def group_of(layer: str) -> str:
    """The layer group of a Linear layer: the module that holds it."""
    return layer.rpartition(".")[0]


def rounded(values: Any, *, dim: int | None) -> Any:
    """Values as FP8 restores them: one scale for all, or one per slice along the last dimension.

    Args:
        values: a tensor.
        dim: None for one scale; -1 for one per row (channel of a weight, token of an activation).
    """
    import torch

    largest = values.abs().amax() if dim is None else values.abs().amax(dim=dim, keepdim=True)
    scale = (largest / E4M3_MAX).clamp(min=torch.finfo(values.dtype).tiny)
    steps = (values / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn)
    return steps.to(values.dtype) * scale


def _fake_linear(weight: Any) -> Callable[[Any, Any, Any], Any]:
    """A forward hook that answers as an FP8 layer with this weight would."""
    from torch.nn import functional

    def hook(module: Any, inputs: Any, output: Any) -> Any:
        return functional.linear(rounded(inputs[0], dim=-1), weight, module.bias)

    return hook


@contextlib.contextmanager
def _hooks(layers: Mapping[str, Any], make: Callable[[str, Any], Any]) -> Iterator[None]:
    handles = [m.register_forward_hook(make(name, m)) for name, m in layers.items()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bench:
    """A model with calibration text."""

    model: Any
    texts: Sequence[Any]
    """Token ids, each of shape (1, tokens)."""
    layers: Mapping[str, Any]
    """Linear layers by name, of those the recipe covers."""

    def log_probabilities(self, ids: Any) -> Any:
        """Of the next token at each position of a text, shape (tokens, vocabulary), float32."""
        return self.model(ids).logits[0].float().log_softmax(-1)

    def of(self, group: str) -> dict[str, Any]:
        """The layers of a group."""
        return {name: m for name, m in self.layers.items() if group_of(name) == group}

    @property
    def tokens(self) -> int:
        """Of all texts."""
        return sum(ids.shape[1] for ids in self.texts)

    @property
    def groups(self) -> tuple[str, ...]:
        """In the model's order."""
        return tuple(dict.fromkeys(group_of(name) for name in self.layers))


def measure(
    source: Path, texts: Sequence[str], ignore: Sequence[str], weights: str = "channel"
) -> Sensitivity:
    """Errors and divergences of every layer group.

    Args:
        source: the parent's checkpoint directory.
        texts: calibration text as the model sees it, prompts included.
        ignore: modules that no recipe quantizes: names, or patterns that start with `re:`.
        weights: granularity of the divergence.

    Raises:
        StageFailed: the model cannot be loaded, or has no layer to quantize.
    """
    import torch

    bench = _bench(source, texts, ignore)
    with torch.inference_mode():
        print("progress errors of weights and outputs", flush=True)
        errors = tuple(_errors(bench))
        divergence = _divergences(bench, weights)
    return Sensitivity(errors=errors, divergence=divergence, tokens=bench.tokens)


def _bench(source: Path, texts: Sequence[str], ignore: Sequence[str]) -> _Bench:
    import torch
    from transformers import AutoTokenizer

    print("progress loading the model", flush=True)
    model = load_model(source).eval()
    tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=True)
    limit = min(MAX_TOKENS, getattr(model.config, "max_position_embeddings", MAX_TOKENS))
    encoded = [tokenizer(t, return_tensors="pt")["input_ids"][:, :limit] for t in texts]
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and not _is_ignored(name, ignore)
    }
    if not layers:
        raise StageFailed(f"{source} has no Linear layer outside {', '.join(ignore)}")
    return _Bench(model=model, texts=[e for e in encoded if e.shape[1] > 0], layers=layers)


def _is_ignored(name: str, ignore: Sequence[str]) -> bool:
    return any(
        re.match(i.removeprefix("re:"), name) if i.startswith("re:") else i == name for i in ignore
    )


def _dim(weights: str) -> int | None:
    return -1 if weights == "channel" else None


def _errors(bench: _Bench) -> Iterator[LayerError]:
    found = {w: _sums(bench, w) for w in GRANULARITIES}
    for group in bench.groups:
        for w in GRANULARITIES:
            lost, weight, missed, output = found[w][group]
            yield LayerError(
                group=group, weights=w, weight_error=math.sqrt(lost / weight),
                output_error=math.sqrt(missed / output),
            )  # fmt: skip


def _sums(bench: _Bench, weights: str) -> dict[str, list[float]]:
    """By group: squares of the weights' differences and of weights, the same of the outputs."""
    sums: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0, 0.0])

    def make(name: str, module: Any) -> Callable[[Any, Any, Any], None]:
        restored = rounded(module.weight, dim=_dim(weights))
        _add(sums[group_of(name)], 0, restored, module.weight)
        fake = _fake_linear(restored)

        def hook(module: Any, inputs: Any, output: Any) -> None:
            _add(sums[group_of(name)], 2, fake(module, inputs, output), output)

        return hook

    with _hooks(bench.layers, make):
        for ids in bench.texts:
            bench.model(ids)
    return sums


def _add(sums: list[float], at: int, ours: Any, original: Any) -> None:
    sums[at] += float(((ours.float() - original.float()) ** 2).sum())
    sums[at + 1] += float((original.float() ** 2).sum())


def _divergences(bench: _Bench, weights: str) -> dict[str, float]:
    """By group. Text by text, because the probabilities of all would fill the memory."""
    fakes = {n: _fake_linear(rounded(m.weight, dim=_dim(weights))) for n, m in bench.layers.items()}
    totals = dict.fromkeys(bench.groups, 0.0)
    for number, ids in enumerate(bench.texts, start=1):
        if number % TOLD_EVERY == 1:
            print(f"progress divergence, text {number} of {len(bench.texts)}", flush=True)
        before = bench.log_probabilities(ids)
        for group in totals:
            with _hooks(bench.of(group), lambda name, _: fakes[name]):
                after = bench.log_probabilities(ids)
            totals[group] += float((before.exp() * (before - after)).sum())
    return {group: total / bench.tokens for group, total in totals.items()}


def run_request(request: Mapping[str, Any], out: Path) -> None:
    """The worker's body: `{"source": DIR, "texts": […], "ignore": […]}` -> OUT/sensitivity.json."""
    found = measure(Path(request["source"]), request["texts"], request["ignore"])
    (out / RESULT_FILE).write_text(found.to_json(), encoding="utf-8")


if __name__ == "__main__":
    main_of(run_request)
