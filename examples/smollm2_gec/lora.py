"""Low-rank adapters (Hu et al. 2021): a frozen matrix W plus a learned scale * B A of small rank.

Written out because it is short and takes no package: attach adapters to a model, save and load them
in the layout that peft and vLLM read, and merge them into the weights of a checkpoint.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from torch import nn
from torch.nn import functional

PREFIX = "base_model.model."
WEIGHTS_FILE = "adapter_model.safetensors"
CONFIG_FILE = "adapter_config.json"
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


class AdapterInvalid(Exception):
    """An adapter directory that does not fit, or is not whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Rank of the adapters, their scale numerator, and the matrices that get one."""

    rank: int = 6
    alpha: int = 12
    targets: tuple[str, ...] = TARGETS

    @property
    def scale(self) -> float:
        """What B A is multiplied with."""
        return self.alpha / self.rank


class LoraLinear(nn.Module):  # type: ignore[misc]  # torch is not type-checked here
    """A frozen linear layer and its adapter; the adapter is kept in float32."""

    def __init__(self, linear: nn.Linear, shape: Shape) -> None:
        super().__init__()
        self.linear = linear.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.empty(shape.rank, linear.in_features))
        self.lora_B = nn.Parameter(torch.zeros(linear.out_features, shape.rank))
        nn.init.kaiming_uniform_(self.lora_A, a=math.sqrt(5))
        self.scale = shape.scale

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """W x + scale * B A x, in the type of x; [..., in] to [..., out]."""
        inner = functional.linear(hidden, self.lora_A.to(hidden.dtype))
        outer = functional.linear(inner, (self.lora_B * self.scale).to(hidden.dtype))
        plain: torch.Tensor = self.linear(hidden)
        return plain + outer


def attach(model: nn.Module, shape: Shape) -> None:
    """Freezes a model and gives its target layers adapters that as yet change nothing."""
    model.requires_grad_(False)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if name in shape.targets and isinstance(child, nn.Linear):
                setattr(parent, name, LoraLinear(child, shape))


def adapters(model: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Name, as peft writes it, and value of each adapter matrix."""
    for name, module in model.named_modules():
        if isinstance(module, LoraLinear):
            yield f"{PREFIX}{name}.lora_A.weight", module.lora_A
            yield f"{PREFIX}{name}.lora_B.weight", module.lora_B


def save(model: nn.Module, shape: Shape, out: Path) -> None:
    """Writes the adapters in bf16."""
    out.mkdir(parents=True, exist_ok=True)
    tensors = {name: weight.detach().to(torch.bfloat16) for name, weight in adapters(model)}
    safetensors.torch.save_file(tensors, out / WEIGHTS_FILE, metadata={"format": "pt"})
    (out / WEIGHTS_FILE).chmod(0o644)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": "SmolLM2-135M-Instruct",
        "r": shape.rank,
        "lora_alpha": shape.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": False,
        "target_modules": list(shape.targets),
    }
    (out / CONFIG_FILE).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def load(directory: Path) -> tuple[dict[str, torch.Tensor], Shape]:
    """The adapter matrices by name, and their shape."""
    try:
        config = json.loads((directory / CONFIG_FILE).read_text(encoding="utf-8"))
        tensors = safetensors.torch.load_file(directory / WEIGHTS_FILE)
    except OSError as failure:
        raise AdapterInvalid(f"read the adapter in {directory}: {failure}") from failure
    targets = tuple(config["target_modules"])
    return tensors, Shape(rank=config["r"], alpha=config["lora_alpha"], targets=targets)


def merged(
    weights: Mapping[str, torch.Tensor], tensors: Mapping[str, torch.Tensor], shape: Shape
) -> dict[str, torch.Tensor]:
    """The weights with the adapters added in, each in the type it had."""
    out = dict(weights)
    names = {name.rsplit(".lora_", 1)[0] for name in tensors}
    for name in sorted(names):
        target = name.removeprefix(PREFIX) + ".weight"
        if target not in weights:
            raise AdapterInvalid(f"the adapter changes {target}, which the checkpoint has not")
        low, high = tensors[f"{name}.lora_A.weight"], tensors[f"{name}.lora_B.weight"]
        if weights[target].shape != (high.shape[0], low.shape[1]):
            found, wanted = tuple(weights[target].shape), (high.shape[0], low.shape[1])
            raise AdapterInvalid(f"{target} is {found}, the adapter is for {wanted}")
        change = shape.scale * (high.float() @ low.float())
        out[target] = (weights[target].float() + change).to(weights[target].dtype)
    return out
